"""The plan of a retargeting: what becomes of each node, and of the parts of the file that are no nodes."""

from collections import Counter
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

__all__ = ["COMPOSED", "KEPT", "OUTCOMES", "REFUSED", "RESPELLED", "NodeOutcome", "RetargetPlan"]

KEPT, RESPELLED, COMPOSED, REFUSED = OUTCOMES = ("kept", "re-spelled", "composed", "refused")


class NodeOutcome(NamedTuple):
    """The outcome of a node.

    Attributes:
        node: The name of the node, or its first output if it has no name.
        operator: The name of its operator, with the domain if it is not ai.onnx.
        outcome: "kept", "re-spelled", "composed" or "refused".
        reason: Why a node is composed or refused, or where a written node may differ; else empty.
        nodes: The number of nodes that are written for it.
        function: The name of the function of the model that has the node; "" for a node of a graph.
    """

    node: str
    operator: str
    outcome: str
    reason: str = ""
    nodes: int = 1
    function: str = ""


class RetargetPlan:
    """The changes that a retargeting makes in a model. `str` prints them.

    Attributes:
        opsets: Domain -> version, of the source and of the target as a pair.
        ir_version: The IR versions of the source and of the target.
        nodes: The outcome of each node, in the order of the model; nodes of subgraphs follow their node.
        notes: What changes beside nodes, and what readers of the target ignore.
    """

    def __init__(
        self,
        opsets: Mapping[str, Tuple[int, int]],
        ir_version: Tuple[int, int],
        nodes: Sequence[NodeOutcome],
        notes: Sequence[str] = (),
    ) -> None:
        self.opsets: Dict[str, Tuple[int, int]] = dict(opsets)
        self.ir_version = ir_version
        self.nodes: List[NodeOutcome] = list(nodes)
        self.notes: List[str] = list(notes)

    @property
    def counts(self) -> Dict[str, int]:
        """Outcome -> number of nodes, for all four outcomes."""
        counted = Counter(node.outcome for node in self.nodes)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    @property
    def first_refusal(self) -> Optional[NodeOutcome]:
        """The first node that is refused; None if every node can be written."""
        return next((node for node in self.nodes if node.outcome == REFUSED), None)

    def to_dict(self) -> Dict[str, object]:
        """Return the plan as plain data, for JSON. Nodes that are kept are counted, not listed."""
        return {
            "opsets": {domain or "ai.onnx": list(versions) for domain, versions in self.opsets.items()},
            "ir_version": list(self.ir_version),
            "counts": self.counts,
            "nodes": [dict(node._asdict()) for node in self.nodes if node.outcome != KEPT],
            "notes": self.notes,
        }

    def __str__(self) -> str:
        changes = ["%s %d -> %d" % ((domain or "ai.onnx",) + pair) for domain, pair in self.opsets.items()]
        changes.append("IR version %d -> %d" % self.ir_version)
        counts = ["%d %s" % (count, outcome) for outcome, count in self.counts.items() if count]
        lines = [", ".join(changes), "nodes: " + (", ".join(counts) or "none")]
        for outcome in OUTCOMES[1:]:
            lines += ["  " + _describe(node) for node in self.nodes if node.outcome == outcome]
        return "\n".join(lines + ["note: " + note for note in self.notes])


def _describe(node: NodeOutcome) -> str:
    where = " in function %s" % node.function if node.function else ""
    count = " as %d nodes" % node.nodes if node.outcome == COMPOSED else ""
    return "%s%s: '%s' (%s)%s%s" % (
        node.outcome,
        count,
        node.node,
        node.operator,
        where,
        ": " + node.reason if node.reason else "",
    )

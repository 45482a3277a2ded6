"""The plan of a retargeting: what becomes of each node, and of the parts of the file that are no nodes."""

from collections import Counter
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

__all__ = ["COMPOSED", "KEPT", "OUTCOMES", "REFUSED", "RESPELLED", "NodeOutcome", "RetargetPlan"]

KEPT, RESPELLED, COMPOSED, REFUSED = OUTCOMES = ("kept", "re-spelled", "composed", "refused")


class NodeOutcome(NamedTuple):
    """The outcome of a node, or of an initializer or declared value with an element type that the target lacks.

    Attributes:
        node: The name of the node; without a name, its first output; without outputs, its operator.
        operator: The operator, with its domain if that is not ai.onnx; or "initializer", "sparse initializer", "value".
        outcome: "kept", "re-spelled", "composed" or "refused".
        reason: Why a node is composed or refused, or in which cases a written node may differ; else empty.
        operators: The operators of the nodes that are written for it, in order, with those of the subgraphs of a
            composed node. Empty for a refused node, and for a node that is left out.
        function: The name of the function of the model that has the node; "" for a node of a graph.
        opset: The version of the operator's domain in the source; 0 for an initializer or a value.
    """

    node: str
    operator: str
    outcome: str
    reason: str = ""
    operators: Tuple[str, ...] = ()
    function: str = ""
    opset: int = 0

    @property
    def nodes(self) -> int:
        """The number of nodes that are written for it."""
        return len(self.operators)


class RetargetPlan:
    """The changes that a retargeting makes in a model. `str` lists them.

    Attributes:
        opsets: Domain -> (version in the source, version in the target).
        ir_version: (IR version of the source, IR version of the target).
        nodes: The outcome of each node, in the order of the model; nodes of subgraphs follow their node.
        notes: Changes that are not changes of nodes, and the parts that readers of the target ignore, as texts.
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
            "nodes": [dict(node._asdict(), nodes=node.nodes) for node in self.nodes if node.outcome != KEPT],
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

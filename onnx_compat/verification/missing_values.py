"""Explain why a converted file does not hold some values of the model, and which nodes of the model were fused."""

from typing import Dict, List, NamedTuple, Set

from onnx_compat.model import GraphNode, Model

__all__ = ["MissingValue", "MissingValues"]


class MissingValue(NamedTuple):
    """A value of the model that the converted file does not hold.

    `node` and `operator` are the name and operator of the node that computes it. `why` is the reason.
    """

    value: str
    node: str
    operator: str
    why: str


class MissingValues:
    """Find the values of a model that a converted file does not hold, and the reason for each value.

    `held`: the names of the values that the file holds.

    `gone` is a list of `MissingValue` records: one for each value that a node of the main graph computes and the file
    lacks. Values inside of subgraphs are not listed.
    """

    def __init__(self, model: Model, held: Set[str]) -> None:
        self._graph = model.graph
        self._held = set(held)
        self._known = self._known_values()
        self._producers = {name: node for node in self._graph.nodes for name in node.outputs if name}
        self._readers: Dict[str, List[GraphNode]] = {}
        for node in self._graph.nodes:
            for name in _input_names(node):
                self._readers.setdefault(name, []).append(node)
        self.gone = [
            MissingValue(name, node.name, node.operator, self._reason(name))
            for name, node in self._producers.items()
            if name not in self._held
        ]

    def fused_nodes(self, node: GraphNode) -> List[str]:
        """Return the names of the nodes that the file computes together: `node` first, then the nodes fused with it.

        The fused nodes are the direct and indirect producers of the inputs of `node`. The search stops at values that
        the file holds, and at values that are known before the model runs.
        """
        fused: Dict[str, None] = {node.name: None}
        pending = [node]
        while pending:
            for name in _input_names(pending.pop()):
                producer = self._producers.get(name)
                if producer is None or name in self._held or name in self._known or producer.name in fused:
                    continue
                fused[producer.name] = None
                pending.append(producer)
        return list(fused)

    def _known_values(self) -> Set[str]:
        """Return the names of the values that are known before the model runs: constants, sizes, and functions of them.

        An initializer that is also an input does not count. The outputs of every Shape, of every Size and of every node
        without inputs count.
        """
        fed = {port.name for port in self._graph.inputs}
        known = set(self._graph.initializers) - fed
        for node in self._graph.nodes:
            if node.operator in ("Shape", "Size") or all(name in known for name in _input_names(node)):
                known.update(node.outputs)
        return known

    def _reason(self, name: str) -> str:
        """Return the reason why the file does not hold the value `name`: the first of these that applies.

        - "known before the model runs"
        - "fused into 'a', 'b'": the nearest later nodes with an output that the file holds, at most three
        - "lost": the value is an output of the model
        - "not needed"
        """
        if name in self._known:
            return "known before the model runs"
        consumers: Dict[str, None] = {}  # the nearest nodes after the value whose outputs the file holds
        seen, pending = {name}, [name]
        while pending:
            for node in self._readers.get(pending.pop(0), ()):
                for result in node.outputs:
                    if result in self._held:
                        consumers[node.name] = None
                    elif result and result not in seen:
                        seen.add(result)
                        pending.append(result)
        if consumers:
            return "fused into %s" % ", ".join("'%s'" % consumer for consumer in list(consumers)[:3])
        return "lost" if any(port.name == name for port in self._graph.outputs) else "not needed"


def _input_names(node: GraphNode) -> List[str]:
    """Return the names of the values that a node reads, and of the outer values that its subgraphs read."""
    return [name for name in (*node.inputs, *node.captures()) if name]

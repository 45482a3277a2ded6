"""Explain why a converted file does not hold some values of the model, and which nodes of the model were fused."""

from typing import Dict, List, NamedTuple, Set

from onnx_compat.model import GraphNode, Model

__all__ = ["MissingValue", "MissingValues"]


class MissingValue(NamedTuple):
    """A value of the model that the file does not hold: its name, its node's name and operator, the reason (`why`)."""

    value: str
    node: str
    operator: str
    why: str


class MissingValues:
    """Explains which values of a model a converted file does not hold. `held`: the names of the values that it holds.

    `gone` is a list of `MissingValue` records, one for each value that a node computes and the file lacks.
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
        """Return a list of names: the node, then the earlier nodes that the file computes together with it (fused).

        The earlier nodes are the direct and indirect producers of the node's inputs. The search stops at values that
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

        Initializers that are also inputs do not count. Every Shape and Size counts, as does every node without inputs.
        """
        fed = {port.name for port in self._graph.inputs}
        known = set(self._graph.initializers) - fed
        for node in self._graph.nodes:
            if node.operator in ("Shape", "Size") or all(name in known for name in _input_names(node)):
                known.update(node.outputs)
        return known

    def _reason(self, name: str) -> str:
        """Return why the file does not hold the value `name`. The first that holds:

        - "known before the model runs"
        - "fused into …", with up to three of the nearest later nodes whose outputs the file holds
        - "lost", for an output of the model
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

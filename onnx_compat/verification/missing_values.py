"""What became of the values of a model that a converted file does not hold, and which nodes a tensor of it stands for."""

from typing import Dict, List, NamedTuple, Set

from onnx_compat.model import GraphNode, Model

__all__ = ["Fate", "Gone"]


class Gone(NamedTuple):
    """A value that the file does not hold."""

    value: str
    node: str
    operator: str
    why: str


class Fate:
    """`held`: the values that the file holds."""

    def __init__(self, model: Model, held: Set[str]) -> None:
        self._graph = model.graph
        self._held = set(held)
        self._known = self._found_known()
        self._makers = {name: node for node in self._graph.nodes for name in node.outputs if name}
        self._readers: Dict[str, List[GraphNode]] = {}
        for node in self._graph.nodes:
            for name in _reads(node):
                self._readers.setdefault(name, []).append(node)
        self.gone = [
            Gone(name, node.name, node.operator, self._why(name))
            for name, node in self._makers.items()
            if name not in self._held
        ]

    def stands_for(self, node: GraphNode) -> List[str]:
        """The node, and those before it whose values are gone: what the file does for all of them at once."""
        found: Dict[str, None] = {node.name: None}
        waiting = [node]
        while waiting:
            for name in _reads(waiting.pop()):
                maker = self._makers.get(name)
                if maker is None or name in self._held or name in self._known or maker.name in found:
                    continue
                found[maker.name] = None
                waiting.append(maker)
        return list(found)

    def _found_known(self) -> Set[str]:
        """What does not depend on an input, or only on the sizes of one."""
        fed = {one.name for one in self._graph.inputs}
        known = set(self._graph.initializers) - fed
        for node in self._graph.nodes:
            if node.operator in ("Shape", "Size") or all(name in known for name in _reads(node)):
                known.update(node.outputs)
        return known

    def _why(self, name: str) -> str:
        if name in self._known:
            return "known beforehand"
        found: Dict[str, None] = {}
        seen, waiting = {name}, [name]
        while waiting:
            for node in self._readers.get(waiting.pop(0), ()):
                for result in node.outputs:
                    if result in self._held:
                        found[node.name] = None
                    elif result and result not in seen:
                        seen.add(result)
                        waiting.append(result)
        if found:
            return "fused into %s" % ", ".join("'%s'" % one for one in list(found)[:3])
        return "lost" if any(one.name == name for one in self._graph.outputs) else "not needed"


def _reads(node: GraphNode) -> List[str]:
    return [name for name in (*node.inputs, *node.captures()) if name]

"""Names: all that a model uses, and new ones that it does not."""

from typing import Dict, Iterable, Set

from onnx_compat.model.graph import Graph

__all__ = ["Names", "defined"]

#: A made name is no longer: names made from names made from names must not fill the memory.
LENGTH = 200


class Names:
    """The names that are taken."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken: Set[str] = set(taken)
        self._next: Dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        """The wish, or the wish with a number behind it; taken from now on."""
        base = wish[-LENGTH:]
        name = base
        while name in self._taken:
            self._next[base] = self._next.get(base, 0) + 1
            name = "%s_%d" % (base, self._next[base])
        self._taken.add(name)
        return name


def defined(graph: Graph) -> Set[str]:
    """The names of all values and nodes, in subgraphs too."""
    found = graph.names | graph.value_info.keys() | {one.name for one in graph.outputs}
    for node in graph.nodes:
        found.add(node.name)
        found.update(node.inputs)
        for inner in node.subgraphs():
            found |= defined(inner)
    return found

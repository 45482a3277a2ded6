"""Names: collect the names that a model uses, and generate unused names."""

from typing import AbstractSet, Dict, Iterable, Set

from onnx_compat.model.graph import Graph

__all__ = ["Names", "names_in"]

#: The longest generated name: nested functions build names from generated names, which must not fill the memory.
LENGTH = 200


class Names:
    """A set of names in use. `fresh` makes a name that is not in the set, and adds it."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used: Set[str] = set(used)
        self._next: Dict[str, int] = {}

    @property
    def used(self) -> AbstractSet[str]:
        """The names in use."""
        return self._used

    def reserve(self, names: Iterable[str]) -> None:
        """Mark names as used."""
        self._used.update(names)

    def fresh(self, preferred_name: str) -> str:
        """Return an unused name and mark it as used: the preferred one, or the first unused one with a suffix "_1", "_2", ….

        If `preferred_name` is longer than `LENGTH` characters, only its last `LENGTH` characters are used.
        """
        base = preferred_name[-LENGTH:]
        name = base
        while name in self._used:
            self._next[base] = self._next.get(base, 0) + 1
            name = "%s_%d" % (base, self._next[base])
        self._used.add(name)
        return name


def names_in(graph: Graph) -> Set[str]:
    """Return the names of all values and nodes of a graph and its subgraphs, also of values that are only declared."""
    names = graph.names | graph.value_info.keys() | {port.name for port in graph.outputs}
    for node in graph.nodes:
        names.add(node.name)
        names.update(node.inputs)
        for inner in node.subgraphs():
            names |= names_in(inner)
    return names

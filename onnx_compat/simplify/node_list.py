"""The nodes of a graph in order, of which one can be replaced in constant time."""

import heapq
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence

from onnx_compat.errors import InvalidModelError
from onnx_compat.simplify.node import DraftNode

__all__ = ["NodeList"]


class NodeList:
    """Nodes in order. Each node that the list was made of has a slot; the nodes that replace it take its slot."""

    def __init__(self, nodes: Iterable[DraftNode]) -> None:
        self._slots: List[List[DraftNode]] = []
        self._slot_of: Dict[DraftNode, int] = {}
        self._fill(nodes)

    def _fill(self, nodes: Iterable[DraftNode]) -> None:
        self._slots = [[node] for node in nodes]
        self._slot_of = {slot[0]: index for index, slot in enumerate(self._slots)}

    def __iter__(self) -> Iterator[DraftNode]:
        for slot in self._slots:
            yield from tuple(slot)

    def replace(self, node: DraftNode, replacements: Sequence[DraftNode]) -> None:
        """Put the nodes `replacements` in the place of a node."""
        index = self._slot_of.pop(node)
        slot = self._slots[index]
        position = slot.index(node)
        slot[position : position + 1] = replacements
        self._slot_of.update(dict.fromkeys(replacements, index))

    def sort(self, producer: Callable[[str], Optional[DraftNode]]) -> bool:
        """Sort the nodes topologically, and return whether their order changed. Sorted nodes keep their order.

        - producer: returns the node that computes a value; None for a value that no node of the list computes.

        Raises InvalidModelError if the nodes form a cycle.
        """
        nodes = list(self)
        positions = {node: index for index, node in enumerate(nodes)}
        readers: List[List[int]] = [[] for _ in nodes]
        missing = [0] * len(nodes)
        for index, node in enumerate(nodes):
            sources = {positions[source] for source in map(producer, node.reads) if source is not None}
            missing[index] = len(sources)
            for source_index in sources:
                readers[source_index].append(index)
        ready = [index for index, count in enumerate(missing) if not count]
        order: List[int] = []
        while ready:
            index = heapq.heappop(ready)
            order.append(index)
            for reader in readers[index]:
                missing[reader] -= 1
                if not missing[reader]:
                    heapq.heappush(ready, reader)
        if len(order) < len(nodes):  # `load` refuses a cycle
            raise InvalidModelError("the nodes of the graph form a cycle")
        is_changed = order != list(range(len(nodes)))
        if is_changed:
            self._fill([nodes[index] for index in order])
        return is_changed

"""Values that a runtime would overwrite too early.

The result of some kernels lies in the place of an operand that nobody else reads, and that of a RESHAPE always in the place
of what it reshapes. Newer runtimes count the readers of the operand and of the value that was first in its place, and forget
those of the values between: a product, a RESHAPE of it and a sum of that are in one place, and who then still reads the product
finds the sum (LiteRT's issue 8889). A second reader of what was reshaped prevents it: a SHAPE, which takes no time.
"""

from typing import Dict, List, Optional, Set

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["prevent_overwriting"]

#: How many of their first operands a kernel may overwrite.
_OVERWRITES = {"ADD": 2, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 1, "MUL": 2, "SOFTMAX": 1, "SUB": 2}
_STAYS = ("BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE")


def prevent_overwriting(graph: fb.SubGraph) -> None:
    """After everything else: nobody reads these SHAPEs."""
    kept: List[fb.OperatorSpec] = []
    places = _Places(graph)
    for moment, operator in enumerate(graph.operators):
        read = list(dict.fromkeys(operator.inputs[: _OVERWRITES.get(operator.builtin, 0)]))
        kept += [_shape(graph, index) for index in read if index is not None and places.lost(index, operator, moment)]
        kept.append(operator)
        places.put(operator)
    graph.operators = kept


def _shape(graph: fb.SubGraph, index: int) -> fb.OperatorSpec:
    tensor = graph.tensors[index]
    result = graph.add(fb.TensorSpec(tensor.name + "/kept", "int32", (len(tensor.shape),)))
    return fb.OperatorSpec("SHAPE", [index], [result], {"out_type": "int32"})


class _Places:
    """Which values may lie in one place, as far as can be told before the sizes are known."""

    def __init__(self, graph: fb.SubGraph) -> None:
        self._graph, self._view = graph, View(graph)
        self._first: Dict[int, Set[int]] = {}  # of a value, whose place it may have
        self._there: Dict[int, List[int]] = {}  # and the other way round
        self._last = {index: k for k, one in enumerate(graph.operators) for index in one.inputs if index is not None}
        self._kept: Set[int] = set()

    def lost(self, index: int, operator: fb.OperatorSpec, moment: int) -> bool:
        """Whether a value that is read later may be overwritten with this one."""
        for first in self._overwritten(index, operator):
            others = [one for one in self._there.get(first, []) if one != index]
            if any(self._last.get(one, -1) > moment for one in others):
                self._kept.add(index)
                return True
        return False

    def put(self, operator: fb.OperatorSpec) -> None:
        """Where the result of an operator may lie."""
        found: Set[int] = set()
        if operator.builtin in _STAYS and self._own(operator.inputs[0]):
            found = self._firsts(operator.inputs[0] or 0)
        for index in operator.inputs[: _OVERWRITES.get(operator.builtin, 0)]:
            found = found | (self._overwritten(index, operator) if index is not None else set())
        if found and operator.outputs[0] not in self._graph.outputs:
            self._first[operator.outputs[0]] = found
            for first in found:
                self._there.setdefault(first, []).append(operator.outputs[0])

    def _overwritten(self, index: int, operator: fb.OperatorSpec) -> Set[int]:
        """The values whose place is taken with this operand's."""
        alone = self._own(index) and self._alone(index) and index not in self._kept
        if not alone or not self._as_many(index, operator.outputs[0]) or operator.outputs[0] in self._graph.outputs:
            return set()
        return {first for first in self._firsts(index) if self._alone(first)}

    def _firsts(self, index: int) -> Set[int]:
        return self._first.get(index, {index})

    def _own(self, index: Optional[int]) -> bool:
        """Whether it is neither an input, which stays as it is, nor a constant."""
        return index is not None and index not in self._graph.inputs and self._view.constant(index) is None

    def _alone(self, index: int) -> bool:
        return len(self._view.readers(index)) == 1 and index not in self._graph.outputs

    def _as_many(self, one: int, other: int) -> bool:
        """Whether two values may have as many elements."""
        both = [self._view.sizes(one), self._view.sizes(other)]
        return any(min(sizes, default=1) < 0 for sizes in both) or bool(np.prod(both[0]) == np.prod(both[1]))

"""kernel that overwrites x while another operator still reads it  =>  SHAPE(x), kernel

Some kernels write their result over an operand that no other operator reads, and RESHAPE always shares the buffer of
its operand. Newer runtimes count the readers of the operand and of the first tensor of the buffer. They ignore the readers
of the tensors in between. For example, a product overwrites its operand, and a RESHAPE and a sum follow: all share a
buffer, and a later reader of the product reads the sum (LiteRT's issue 8889). A second reader of the operand
prevents that: a SHAPE, which takes no time and whose result is not read.
"""

from typing import Dict, List, Optional, Set

import numpy as np

from onnx_compat.passes import EVERY
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["inplace_hazards"]

#: The number of operands, from the first, that a kernel may overwrite.
_OVERWRITES = {"ADD": 2, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 1, "MUL": 2, "SOFTMAX": 1, "SUB": 2}
#: Kernels whose result shares the buffer of the operand.
_ALIASES = ("BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE")


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3))
    product = graph.op("MUL", [graph.op("ABS", graph.inputs, (2, 3)), graph.constant(3)], (2, 3))
    total = graph.op("ADD", [graph.move("RESHAPE", product, [6], (6,)), graph.constant(1)], (6,))
    matrix = graph.move("RESHAPE", graph.op("ABS", [total], (6,)), [2, 3], (2, 3))
    return graph.model(graph.op("SUB", [matrix, product], (2, 3)))


# Last: its SHAPE operators are dead code for every other pass, and later rewrites could add hazards.
@graph_pass(
    "inplace_hazards",
    "kernel that overwrites x too early => SHAPE(x), kernel",
    _example,
    after=(EVERY,),
    legalizes=True,
)
def inplace_hazards(graph: GraphRewriter, context: Context) -> int:
    """Add a second reader of each operand that a runtime would overwrite too early."""
    operators = graph.operators
    result: List[fb.OperatorSpec] = []
    buffers = _Buffers(graph, operators)
    for moment, op in enumerate(operators):
        operands = list(dict.fromkeys(op.inputs[: _OVERWRITES.get(op.builtin, 0)]))
        result += [_shape(graph, index) for index in operands if index is not None and buffers.guard(index, op, moment)]
        result.append(op)
        buffers.assign(op)
    count = len(result) - len(operators)
    if count:
        graph.reorder(result)
    return count


def _shape(graph: GraphRewriter, index: int) -> fb.OperatorSpec:
    tensor = graph.tensor(index)
    result = graph.add_tensor(tensor.name + "/kept", "int32", (len(tensor.shape),))
    return fb.OperatorSpec("SHAPE", [index], [result], {"out_type": "int32"})


class _Buffers:
    """The tensors that may share a buffer, as far as open sizes allow to decide."""

    def __init__(self, graph: GraphRewriter, operators: List[fb.OperatorSpec]) -> None:
        self._graph = graph
        self._first: Dict[int, Set[int]] = {}  # a tensor -> the first tensors of the buffers that it may be in
        self._sharing: Dict[int, List[int]] = {}  # the first tensor of a buffer -> other tensors that may be in it
        self._last_read = {index: k for k, op in enumerate(operators) for index in op.inputs if index is not None}
        self._guarded: Set[int] = set()

    def guard(self, index: int, op: fb.OperatorSpec, moment: int) -> bool:
        """Whether an operator may overwrite, by this operand, a tensor that is read later. The operand is guarded then."""
        for first in self._overwritten(index, op):
            sharing = [tensor for tensor in self._sharing.get(first, []) if tensor != index]
            if any(self._last_read.get(tensor, -1) > moment for tensor in sharing):
                self._guarded.add(index)
                return True
        return False

    def assign(self, op: fb.OperatorSpec) -> None:
        """Record the buffers in which the result of an operator may be."""
        buffers: Set[int] = set()
        if op.builtin in _ALIASES and self._is_computed(op.inputs[0]):
            buffers = self._first_tensors(op.inputs[0] or 0)
        for index in op.inputs[: _OVERWRITES.get(op.builtin, 0)]:
            buffers = buffers | (self._overwritten(index, op) if index is not None else set())
        if buffers and not self._graph.is_output(op.outputs[0]):
            self._first[op.outputs[0]] = buffers
            for first in buffers:
                self._sharing.setdefault(first, []).append(op.outputs[0])

    def _overwritten(self, index: int, op: fb.OperatorSpec) -> Set[int]:
        """Return the first tensors of the buffers that an operator may overwrite by this operand."""
        result = op.outputs[0]
        if not self._is_computed(index) or not self._has_single_reader(index) or index in self._guarded:
            return set()
        if not self._may_have_equal_size(index, result) or self._graph.is_output(result):
            return set()
        return {first for first in self._first_tensors(index) if self._has_single_reader(first)}

    def _first_tensors(self, index: int) -> Set[int]:
        return self._first.get(index, {index})

    def _is_computed(self, index: Optional[int]) -> bool:
        """Whether a tensor is neither an input, which is never overwritten, nor a constant."""
        return index is not None and index not in self._graph.inputs and self._graph.constant(index) is None

    def _has_single_reader(self, index: int) -> bool:
        return self._graph.only_reader(index) is not None

    def _may_have_equal_size(self, operand: int, result: int) -> bool:
        """Whether two tensors may have the same number of elements."""
        sizes = [self._graph.sizes(operand), self._graph.sizes(result)]
        return any(min(shape, default=1) < 0 for shape in sizes) or bool(np.prod(sizes[0]) == np.prod(sizes[1]))

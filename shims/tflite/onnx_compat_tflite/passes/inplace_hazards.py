"""kernel(x) that overwrites a live tensor in x's buffer  =>  SHAPE(x), kernel(x)

Some kernels write their result into the buffer of an operand that no other operator reads; RESHAPE always does. LiteRT checks
the readers of the operand and of the first tensor in the buffer, but not of the other tensors there (its issue 8889).

Example: y = MUL(x, 3), z = RESHAPE(y), s = ADD(z, 1), and later SUB(s, y). All tensors share the buffer of x, and ADD
overwrites y. The pass adds a second reader of the operand z, a SHAPE, so that the runtime gives s another buffer. SHAPE takes no
time, and no operator reads its result.

Condition: the operand may share its buffer with a tensor that is read later. Open sizes count as equal to any size.
"""

from typing import Dict, List, Optional, Set

import numpy as np

from onnx_compat.passes import EVERY
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["inplace_hazards"]

#: Op -> n: its kernel may write the result into the buffer of one of its first n operands.
_OVERWRITES = {"ADD": 2, "DIV": 2, "DYNAMIC_UPDATE_SLICE": 1, "MUL": 2, "SOFTMAX": 1, "SUB": 2}
#: Ops whose result is an alias of the operand: it always shares the operand's buffer.
_ALIASES = ("BITCAST", "EXPAND_DIMS", "RESHAPE", "SQUEEZE")


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3))
    product = graph.op("MUL", [graph.op("ABS", graph.inputs, (2, 3)), graph.constant(3)], (2, 3))
    total = graph.op("ADD", [graph.move("RESHAPE", product, [6], (6,)), graph.constant(1)], (6,))
    matrix = graph.move("RESHAPE", graph.op("ABS", [total], (6,)), [2, 3], (2, 3))
    return graph.model(graph.op("SUB", [matrix, product], (2, 3)))


# It runs last: dead_code would remove its SHAPE operators, and other rewrites could add hazards.
@graph_pass(
    "inplace_hazards",
    "kernel that overwrites x too early => SHAPE(x), kernel",
    _example,
    after=(EVERY,),
    legalizes=True,
)
def inplace_hazards(graph: GraphRewriter, context: Context) -> int:
    """Insert a SHAPE of each operand that a kernel would overwrite while a tensor in its buffer is read later.

    The SHAPE is directly before the kernel's operator. Returns the number of inserted SHAPEs.
    """
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
    """Alias analysis: which tensors may share a buffer.

    `assign` records operators, in the order of execution. A buffer is identified by its first tensor, the tensor for
    which the runtime allocates it.
    """

    def __init__(self, graph: GraphRewriter, operators: List[fb.OperatorSpec]) -> None:
        self._graph = graph
        self._first: Dict[int, Set[int]] = {}  # a tensor -> the buffers that it may be in, by their first tensors
        self._sharing: Dict[int, List[int]] = {}  # the first tensor of a buffer -> later tensors that may be in it
        self._last_read = {index: k for k, op in enumerate(operators) for index in op.inputs if index is not None}
        self._guarded: Set[int] = set()

    def guard(self, index: int, op: fb.OperatorSpec, moment: int) -> bool:
        """Whether `op` may overwrite a tensor that is read later, if it writes its result over the operand `index`.

        The tensor may be in the buffer of the operand. `index`: the tensor index of the operand. `moment`: the position
        of `op` in the order of execution.

        Side effect for True: the operand is recorded as guarded. Later calls assume that it has a second reader, so
        that its buffer is not overwritten.
        """
        for first in self._overwritten(index, op):
            sharing = [tensor for tensor in self._sharing.get(first, []) if tensor != index]
            if any(self._last_read.get(tensor, -1) > moment for tensor in sharing):
                self._guarded.add(index)
                return True
        return False

    def assign(self, op: fb.OperatorSpec) -> None:
        """Record the buffers in which the result of `op` may be: those of operands that `op` aliases or may overwrite.

        Records nothing if there are no such operands, or if the result is an output.
        """
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
        """Return the buffers that `op` may overwrite if it writes its result over the operand `index`.

        A buffer is given by its first tensor. The set is empty if

        - the operand is an input, an output, a constant or guarded, or does not have a single reader,
        - the operand certainly differs in size from the result,
        - the result is an output.

        A buffer is left out if its first tensor is an output or does not have a single reader.
        """
        result = op.outputs[0]
        if not self._is_computed(index) or not self._has_single_reader(index) or index in self._guarded:
            return set()
        if not self._may_have_equal_size(index, result) or self._graph.is_output(result):
            return set()
        return {first for first in self._first_tensors(index) if self._has_single_reader(first)}

    def _first_tensors(self, index: int) -> Set[int]:
        return self._first.get(index, {index})

    def _is_computed(self, index: Optional[int]) -> bool:
        """Whether kernels may overwrite the tensor: True for a result of an operator, and for a variable.

        Returns False for an input, a constant, and an omitted operand (None).
        """
        return index is not None and index not in self._graph.inputs and self._graph.constant(index) is None

    def _has_single_reader(self, index: int) -> bool:
        return self._graph.only_reader(index) is not None

    def _may_have_equal_size(self, operand: int, result: int) -> bool:
        """Whether two tensors may have the same number of elements at run time; True if a size is open."""
        sizes = [self._graph.sizes(operand), self._graph.sizes(result)]
        return any(min(shape, default=1) < 0 for shape in sizes) or bool(np.prod(sizes[0]) == np.prod(sizes[1]))

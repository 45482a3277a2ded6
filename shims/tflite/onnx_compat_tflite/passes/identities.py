"""MUL(x, 1) => x    DIV(x, 1) => x    SUB(x, 0) => x    MAXIMUM(x, -inf) => x    MINIMUM(x, inf) => x

Scales of one and clips without bounds have this form. ADD(x, 0) is kept: it turns -0 into 0. MAXIMUM(x, 0) => x too, if x is a
size of a tensor.

Conditions: the result has the rank and the quantization of x, the operator has no fused activation, and x is no constant.
"""

from typing import Optional

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["identities"]

#: Op -> its neutral element: the constant that leaves the other operand as it is.
_NEUTRAL = {"DIV": 1, "MAXIMUM": -np.inf, "MINIMUM": np.inf, "MUL": 1, "SUB": 0}


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3))
    product = graph.op("MUL", [graph.inputs[0], graph.constant(1)], (2, 3))
    return graph.model(graph.op("ABS", [product], (2, 3)))


# It runs after integer_kernels, which recognises a quantization by the division by its scale, which may be one.
@graph_pass("identities", "MUL(x, 1) => x; also DIV, SUB, MAXIMUM, MINIMUM", _example, after=("integer_kernels",))
def identities(graph: GraphRewriter, context: Context) -> int:
    """Bypass each MUL or DIV by 1, SUB of 0, MAXIMUM with -inf and MINIMUM with inf.

    Readers of the result read the other operand. A MAXIMUM of 0 and a size of a tensor is bypassed as well. Applies
    under the conditions of this module. Returns the number of operators that lost their readers or were removed; see
    `GraphRewriter.bypass`.
    """
    count = 0
    for op in graph.operators:
        source = _kept_operand(graph, op) if op.builtin in _NEUTRAL else None
        if source is not None:
            count += graph.bypass(op, source)
    return count


def _kept_operand(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[int]:
    """Return the tensor index of x if `op` combines x with its neutral element, so that the result equals x.

    `op` must be an op of `_NEUTRAL`, which has the neutral elements. x is the first operand for DIV and SUB, and either
    operand for other ops. For a MAXIMUM of a size of a tensor (see `_is_length`), the neutral element is 0. -0 is not a
    neutral element. Returns None if

    - no operand is the neutral element, or x is a constant,
    - x differs from the result in rank or quantization,
    - the op has a fused activation.
    """
    if not is_unfused(op):
        return None
    after = graph.tensor(op.outputs[0])
    pairs = [op.inputs, list(op.inputs)[::-1]]
    for source, constant in pairs[: 1 if op.builtin in ("DIV", "SUB") else 2]:
        number, neutral = graph.number(constant), _NEUTRAL[op.builtin]
        if op.builtin == "MAXIMUM" and _is_length(graph, source):
            neutral = 0
        if source is None or number != neutral or (number == 0 and np.signbit(number)):
            continue
        before = graph.tensor(source)
        is_alike = before.quantization == after.quantization and len(before.shape) == len(after.shape)
        if is_alike and graph.constant(source) is None:
            return source
    return None


def _is_length(graph: GraphRewriter, index: Optional[int]) -> bool:
    """Whether a tensor is computed as STRIDED_SLICE(SHAPE(y)): a size of y, which is never negative.

    False if `index` is None, an omitted input.
    """
    cut = graph.producer(index, "STRIDED_SLICE")
    return cut is not None and graph.producer(cut.inputs[0], "SHAPE") is not None

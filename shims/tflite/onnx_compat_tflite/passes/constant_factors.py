"""x * a * b            =>  x * (a * b)
    x / a / b            =>  x / (a * b)
    (x * a + b) * c + d  =>  x * (a * c) + (b * c + d)

They come from two normalizations in a row, or from a mean that counts along each axis.

Conditions: a, b, c and d are float32 constants. No other operator reads the values in between, which have no activation. The
products are finite and normal numbers, and have at most 4096 elements or as many as a factor.
"""

from typing import Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["constant_factors"]

_MAX_ELEMENTS = 4096  # of a constant that is larger than both factors


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3))
    inner = graph.op("MUL", [graph.inputs[0], graph.constant([1, 2, 4])], (2, 3))
    return graph.model(graph.op("MUL", [inner, graph.constant(0.5)], (2, 3)))


@graph_pass(
    "constant_factors", "x * a * b => x * (a * b); (x * a + b) * c + d => x * (a * c) + (b * c + d)", _example,
    after=("common_subexpressions", "dead_code"),
)  # fmt: skip
def constant_factors(graph: GraphRewriter, context: Context) -> int:
    """Multiply constant factors with each other."""
    count = 0
    for op in graph.operators:
        outer = _constant_operand(graph, op, "MUL", "DIV")
        if outer is None:
            continue
        inner = _unshared_producer(graph, op, outer[0], "MUL", "DIV")
        first = None if inner is None else _constant_operand(graph, inner, "MUL", "DIV")
        if inner is not None and first is not None:
            count += _join_factors(graph, op, outer[1], inner, first)
    return count + sum(_distribute(graph, op) for op in graph.operators)


def _join_factors(
    graph: GraphRewriter, op: fb.OperatorSpec, b: np.ndarray, inner: fb.OperatorSpec, first: Tuple[int, np.ndarray]
) -> bool:
    """Let an operator apply its own factor and that of the operator before it.

    Returns whether the product is exact enough.
    """
    (x, a), is_alike = first, inner.builtin == op.builtin
    with np.errstate(all="ignore"):
        joined = a * b if is_alike else (a / b if op.builtin == "DIV" else b / a)
    factor = _add_factor(graph, op, joined, max(a.size, b.size))
    if factor is None:
        return False
    graph.replace_op(op, inner.builtin if is_alike else "MUL", [x, factor], **op.options)
    return True


def _distribute(graph: GraphRewriter, op: fb.OperatorSpec) -> bool:
    """Rewrite (x * a + b) * c, whose last product is `op`, and an ADD of a constant behind it."""
    outer = _constant_operand(graph, op, "MUL")
    total = None if outer is None else _unshared_producer(graph, op, outer[0], "ADD")
    added = None if total is None else _constant_operand(graph, total, "ADD")
    product = None if total is None or added is None else _unshared_producer(graph, total, added[0], "MUL")
    scaled = None if product is None else _constant_operand(graph, product, "MUL")
    if outer is None or total is None or added is None or scaled is None or product is None:
        return False
    if len({tuple(graph.sizes(member.outputs[0])) for member in (product, total, op)}) > 1:
        return False  # a constant adds axes or repeats along an axis: it does so where it is
    (x, a), (_, b), (_, c) = scaled, added, outer
    most = max(a.size, b.size, c.size)
    with np.errstate(all="ignore"):
        factor, summand = _add_factor(graph, op, a * c, most), _add_factor(graph, op, b * c, most, zeros=True)
    if factor is None or summand is None:
        return False
    graph.replace_op(total, "MUL", [x, factor], fused_activation_function="NONE")
    graph.rename(total.outputs[0], "/scaled")
    graph.replace_op(op, "ADD", [total.outputs[0], summand], **op.options)
    for reader in graph.readers(op.outputs[0]):
        last = _constant_operand(graph, reader, "ADD")
        if last is not None and _unshared_producer(graph, reader, last[0], "ADD") is op:
            both = _add_factor(graph, reader, b * c + last[1], max(most, last[1].size), zeros=True)
            if both is not None:
                graph.replace_op(reader, "ADD", [total.outputs[0], both], **reader.options)
    return True


def _constant_operand(graph: GraphRewriter, op: fb.OperatorSpec, *builtins: str) -> Optional[Tuple[int, np.ndarray]]:
    """Return the tensor, and the constant that it is multiplied with, divided by or added to. None for another operator."""
    if op.builtin not in builtins:
        return None
    pairs = [op.inputs, list(op.inputs)[::-1]]
    for x, constant in pairs[:1] if op.builtin == "DIV" else pairs:
        array = graph.constant(constant)
        if array is not None and x is not None and graph.constant(x) is None and np.asarray(array).dtype == np.float32:
            return x, np.asarray(array)
    return None


def _unshared_producer(
    graph: GraphRewriter, op: fb.OperatorSpec, source: int, *builtins: str
) -> Optional[fb.OperatorSpec]:
    """Return the producer of a tensor that only `op` reads, if it has no fused activation; else None."""
    producer = graph.producer(source, *builtins)
    if producer is None or not graph.is_only_read_by(source, op) or not is_unfused(producer):
        return None
    return producer


def _add_factor(
    graph: GraphRewriter, op: fb.OperatorSpec, array: np.ndarray, most: int, zeros: bool = False
) -> Optional[int]:
    """Add a constant. None if it is too large, or if numbers overflow, underflow, or (without `zeros`) vanish."""
    array = np.asarray(array, np.float32)
    is_lost = (np.abs(array) < np.finfo(np.float32).tiny) & ~((array == 0) & zeros)
    if array.size > max(most, _MAX_ELEMENTS) or not np.isfinite(array).all() or is_lost.any():
        return None
    return graph.add_constant(graph.tensor(op.outputs[0]).name + "/factor", array)

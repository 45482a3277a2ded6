"""x * a * b => x * (a * b): join constant factors of consecutive operators, and distribute a factor over a sum.

    x * a * b            =>  x * (a * b)
    x / a / b            =>  x / (a * b)
    x / a * b            =>  x * (b / a), and x * a / b => x * (a / b)
    (x * a + b) * c + d  =>  x * (a * c) + (b * c + d), also without d

Two normalizations in a row have this form, and a mean that divides along each axis.

Conditions: a, b, c and d are float32 constants. No other operator reads the intermediate tensors, and these have no
activation. In a sum, they have the shape of the result. The joined constants have no infinity, NaN or denormal, and
factors have no zero. They have at most 4096 elements, or as many as the largest of a, b, c, d.
"""

from typing import Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["constant_factors"]

_MAX_ELEMENTS = 4096  # of a product of constants that broadcasting made larger than each constant


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3))
    inner = graph.op("MUL", [graph.inputs[0], graph.constant([1, 2, 4])], (2, 3))
    return graph.model(graph.op("MUL", [inner, graph.constant(0.5)], (2, 3)))


@graph_pass(
    "constant_factors", "x * a * b => x * (a * b); (x * a + b) * c + d => x * (a * c) + (b * c + d)", _example,
    after=("common_subexpressions", "dead_code"),
)  # fmt: skip
def constant_factors(graph: GraphRewriter, context: Context) -> int:
    """Constant folding across operators: multiply consecutive constant factors, and distribute a factor over a sum.

    First rewrite: MUL or DIV of a MUL or DIV. Second rewrite: MUL of an ADD of a MUL. Applies under the conditions of
    this module. Returns the number of rewrites.
    """
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
    """Replace `op`, a MUL or DIV by `b` of x * a or x / a, by one MUL or DIV of x; return whether it was replaced.

    `inner` is the MUL or DIV that computes x * a or x / a, and `first` is (index of x, a). `op` keeps its fused
    activation and its result. `inner` stays, without readers.

    Returns False, without a change, if the joined factor overflows, underflows, has a zero or is too large. See
    `_add_factor`.
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
    """Rewrite (x * a + b) * c => x * (a * c) + b * c, where `op` is the MUL by c; return whether it was rewritten.

    The inner ADD becomes the MUL, and `op` becomes the ADD. The inner MUL stays, without readers. If `op` has no fused
    activation, and its only reader adds a constant d, the reader changes: it skips `op` and adds b * c + d. The reader
    stays if that sum is not possible.

    Returns False, without a change, if a condition of the module fails, or if a joined constant is not possible. See
    `_can_join`.
    """
    outer = _constant_operand(graph, op, "MUL")
    total = None if outer is None else _unshared_producer(graph, op, outer[0], "ADD")
    added = None if total is None else _constant_operand(graph, total, "ADD")
    product = None if total is None or added is None else _unshared_producer(graph, total, added[0], "MUL")
    scaled = None if product is None else _constant_operand(graph, product, "MUL")
    if outer is None or total is None or added is None or scaled is None or product is None:
        return False
    if len({tuple(graph.sizes(member.outputs[0])) for member in (product, total, op)}) > 1:
        return False  # a constant broadcasts x: the shapes of the intermediate tensors differ
    (x, a), (_, b), (_, c) = scaled, added, outer
    most = max(a.size, b.size, c.size)
    with np.errstate(all="ignore"):
        products = a * c, b * c
    if not (_can_join(products[0], most) and _can_join(products[1], most, zeros=True)):
        return False
    factor, summand = (_add_factor(graph, op, array, most, zeros=True) for array in products)
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
    """Return (index of the other operand, constant) of an op that has one float32 constant operand.

    For DIV the constant is the divisor; for other ops it may be either operand. Returns None if

    - the op is not one of `builtins`,
    - no operand is a float32 constant,
    - each operand is a constant.
    """
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
    """Return the operator that computes the tensor `source`, if it is one of `builtins` and only `op` reads the tensor.

    Returns None for another op, for an operator with a fused activation, and if the tensor is an output or has other
    readers.
    """
    producer = graph.producer(source, *builtins)
    if producer is None or not graph.is_only_read_by(source, op) or not is_unfused(producer):
        return None
    return producer


def _add_factor(
    graph: GraphRewriter, op: fb.OperatorSpec, array: np.ndarray, most: int, zeros: bool = False
) -> Optional[int]:
    """Append `array` as a float32 constant, named after the result of `op`, and return its tensor index.

    Returns None, and appends nothing, if

    - an element is infinite, NaN or denormal, or is zero (unless `zeros` is true),
    - the array has more than `most` and more than 4096 elements.
    """
    if not _can_join(array, most, zeros):
        return None
    return graph.add_constant(graph.tensor(op.outputs[0]).name + "/factor", np.asarray(array, np.float32))


def _can_join(array: np.ndarray, most: int, zeros: bool = False) -> bool:
    """Whether the array can be a float32 constant that replaces several constants.

    Returns False if

    - an element is infinite, NaN or denormal, or is zero (unless `zeros` is true),
    - the array has more than `most` and more than 4096 elements.
    """
    array = np.asarray(array, np.float32)
    is_lost = (np.abs(array) < np.finfo(np.float32).tiny) & ~((array == 0) & zeros)
    return bool(array.size <= max(most, _MAX_ELEMENTS) and np.isfinite(array).all() and not is_lost.any())

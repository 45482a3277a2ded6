"""Derivative rules of the primitives that move, select, sort and reduce elements."""

from typing import Any, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.autodiff.rules import RecordedNode, apply_pending_order, rule, sum_to
from onnx_compat.errors import UnsupportedError
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import bool_, int64
from onnx_compat.tracing.values import Tensor, known_array, lift


@rule("reshape")
def _reshape(at: RecordedNode, g: Tensor) -> List[Any]:
    return [p.reshape(g, at.args[0].shape), None]


@rule("transpose")
def _transpose(at: RecordedNode, g: Tensor) -> List[Any]:
    perm = at.params["perm"]
    return [apply_pending_order(p.transpose(g, [perm.index(axis) for axis in range(len(perm))]))]


@rule("broadcast_to")
def _broadcast_to(at: RecordedNode, g: Tensor) -> List[Any]:
    return [sum_to(g, at.args[0].shape), None]


@rule("concat")
def _concat(at: RecordedNode, g: Tensor) -> List[Any]:
    axis = at.params["axis"]
    return [p.split(g, axis, [x.shape[axis] for x in at.args[0]])]


@rule("slice")
def _slice(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a slice: return the list [derivative of the operand, None, None].

    The derivative has the operand's shape: the elements of g at the positions that the slice read, and 0 elsewhere. The
    starts and the ends have no derivative.
    """
    x, starts, ends = at.args
    for axis, (start, end, step) in enumerate(zip(starts, ends, at.params["steps"])):
        line = p.slice_axis(p.iota(x.shape[axis]), 0, start, end, step)
        g = _scatter_add(g, line, axis, x.shape[axis])
    return [g, None, None]


def _scatter_add(g: Tensor, indices: Tensor, axis: int, extent: Extent) -> Any:
    """Return zeros of size `extent` along `axis`, with slice i of g added at position `indices[i]` of that axis.

    This is the derivative of `take`. `indices` is a vector. Slices of g with equal indices are summed. The other axes
    have the sizes of g. If `indices` is known to be 0, 1, … extent - 1, the result is g itself.
    """
    if indices.known and is_static(extent) and known_array(indices, "an index").tolist() == list(range(extent)):
        return g
    axis_first = [axis, *[k for k in range(g.rank) if k != axis]]
    updates = p.transpose(g, axis_first)
    zeros = p.full((extent, *updates.shape[1:]), 0, g.dtype)
    total = p.scatter_nd(zeros, p.unsqueeze(p.cast(indices, int64), [1]), updates, "add")
    return apply_pending_order(p.transpose(total, [axis_first.index(k) for k in range(g.rank)]))


@rule("take")
def _take(at: RecordedNode, g: Tensor) -> List[Any]:
    x, indices = at.args
    axis = at.params["axis"]
    count = indices.size
    flat = p.reshape(g, (*x.shape[:axis], count, *x.shape[axis + 1 :]))
    return [_scatter_add(flat, p.reshape(indices, (count,)), axis, x.shape[axis]), None]


@rule("gather_nd")
def _gather_nd(at: RecordedNode, g: Tensor) -> List[Any]:
    x, indices = at.args
    if at.params["batch_dims"]:
        raise UnsupportedError("the derivative of gather_nd with batch_dims is not known")
    return [p.scatter_nd(p.full(x.shape, 0, g.dtype), indices, g, "add"), None]


@rule("reverse")
def _reverse(at: RecordedNode, g: Tensor) -> List[Any]:
    return [p.reverse(g, at.params["axes"])]


@rule("tile")
def _tile(at: RecordedNode, g: Tensor) -> List[Any]:
    x, repeats = at.args
    shape: List[Extent] = [size for pair in zip(repeats, x.shape) for size in pair]
    return [p.reduce_sum(p.reshape(g, shape), range(0, 2 * x.rank, 2)), None]


@rule("pad")
def _pad(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a pad: return the list [derivative of the operand, None, None, derivative of the pad value].

    The derivative of the operand is g at the positions of the operand. The derivative of the pad value is the sum of g
    at the other positions, and None if the pad value is known.

    Raises UnsupportedError for another mode than "constant".
    """
    x, before, after, value = at.args
    if at.params["mode"] != "constant":
        raise UnsupportedError("the derivative of padding with mode '%s' is not known" % at.params["mode"])
    ends = [low + extent for low, extent in zip(before, x.shape)]
    inside = p.slice(g, before, ends, [1] * x.rank)
    if value.known:
        return [inside, None, None, None]
    is_padding = p.pad(p.full(x.shape, False, bool_), before, after, "constant", True)
    return [inside, None, None, p.reduce_sum(p.where(is_padding, g, 0), range(x.rank))]


@rule("cumsum")
def _cumsum(at: RecordedNode, g: Tensor) -> List[Any]:
    return [p.cumsum(g, at.params["axis"], at.params["exclusive"], not at.params["reverse"])]


@rule("top_k")
def _top_k(at: RecordedNode, g: Tensor, _: Tensor) -> List[Any]:
    x, axis = at.args[0], at.params["axis"]
    hot = p.cast(p.one_hot(at.outputs[1], x.shape[axis], axis + 1), x.dtype)
    return [p.reduce_sum(p.mul(hot, p.unsqueeze(g, [axis + 1])), [axis]), None]


# -- reductions --------------------------------------------------------------------------------------------------------
def _restore_axes(at: RecordedNode, value: Tensor) -> Any:
    """Insert the axes that the reduction `at` removed into `value`, each with size 1. Return a Tensor.

    `value` has the shape of the reduction's result. If the parameter `keepdims` is set, `value` has these axes already
    and is returned unchanged.
    """
    return value if at.params["keepdims"] else p.unsqueeze(value, at.params["axes"])


def _count(shape: Sequence[Extent], axes: Sequence[int]) -> Extent:
    total: Extent = 1
    for axis in axes:
        total = total * shape[axis]
    return total


@rule("reduce_sum")
def _reduce_sum(at: RecordedNode, g: Tensor) -> List[Any]:
    return [p.broadcast_to(_restore_axes(at, g), at.args[0].shape)]


@rule("reduce_mean")
def _reduce_mean(at: RecordedNode, g: Tensor) -> List[Any]:
    (x,) = at.args
    count = p.cast(lift(_count(x.shape, at.params["axes"])), g.dtype)
    return [p.broadcast_to(p.div(_restore_axes(at, g), count), x.shape)]


@rule("reduce_max", "reduce_min")
def _reduce_extreme(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a maximum or minimum: divide each element of g equally among the elements that equal the extreme.

    Return a list of one derivative, in the shape of the operand.
    """
    (x,) = at.args
    is_extreme = p.cast(p.equal(x, _restore_axes(at, at.y)), x.dtype)
    share = p.div(_restore_axes(at, g), p.reduce_sum(is_extreme, at.params["axes"], keepdims=True))
    return [p.mul(is_extreme, share)]


@rule("reduce_prod")
def _reduce_prod(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a product: return the list [g times the product of the other elements of the reduced slice].

    The product of the other elements is y / x, except where an element of the slice is 0.
    """
    (x,) = at.args
    axes = at.params["axes"]
    is_zero = p.equal(x, 0)
    nonzero = p.where(is_zero, 1, x)
    zeros = p.cast(is_zero, x.dtype)
    other_zeros = p.sub(p.reduce_sum(zeros, axes, keepdims=True), zeros)
    other_product = p.where(p.equal(other_zeros, 0), p.div(p.reduce_prod(nonzero, axes, keepdims=True), nonzero), 0)
    return [p.mul(_restore_axes(at, g), other_product)]


@rule("softmax")
def _softmax(at: RecordedNode, g: Tensor) -> List[Any]:
    axis = [at.params["axis"]]
    return [p.mul(at.y, p.sub(g, p.reduce_sum(p.mul(g, at.y), axis, keepdims=True)))]


@rule("log_softmax")
def _log_softmax(at: RecordedNode, g: Tensor) -> List[Any]:
    axis = [at.params["axis"]]
    return [p.sub(g, p.mul(p.exp(at.y), p.reduce_sum(g, axis, keepdims=True)))]

"""Primitives that move, repeat, join or slice data without arithmetic."""

import builtins
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import Const, Extents
from onnx_compat.ir.dims import Extent, floordiv, is_equal, is_equal_shape, is_static
from onnx_compat.ir.dtypes import DType, int64
from onnx_compat.primitives.base import apply_primitive, fold, primitive, result
from onnx_compat.primitives.ranges import check_pieces, check_shape
from onnx_compat.tracing.layout import (
    common_order,
    order_with_axes,
    order_without_axes,
    permute_shape,
    physical_axis,
    reshape_orders,
)
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Order, Tensor, TensorLike, lift

Sizes = Sequence[Extent]


def axis_of(axis: int, rank: int) -> int:
    """Return a logical axis counted from the front: -1 for rank 4 -> 3. Rank 0 counts as one axis, 0.

    Raises InvalidModelError if the axis is out of range.
    """
    if not -rank <= axis < max(rank, 1):
        raise InvalidModelError("axis %d is out of range for a tensor of rank %d" % (axis, rank))
    return axis % rank if rank else 0


def existing_axis(axis: int, x: Tensor) -> int:
    """Return a logical axis of x counted from the front. Raises InvalidModelError if x, such as a scalar, lacks it."""
    if not x.rank:
        raise InvalidModelError("axis %d is out of range for a scalar" % axis)
    return axis_of(axis, x.rank)


@primitive("fiubsc")
def reshape(x: TensorLike, shape: Sizes) -> Tensor:
    """The elements, in row-major order, in another shape with the same number of elements.

    A size of -1 stands for the size that follows from the others; an emitter never gets -1. Raises InvalidModelError
    for two sizes of -1, a 0 beside a -1, another negative size, or another number of elements.
    """
    x = lift(x)
    shape = _without_wildcard(x, shape)
    if is_equal_shape(x.shape, shape):
        return x
    _check_count(x.shape, shape)
    folded = fold("reshape", [x, Extents(shape)], [x.dtype])
    if folded is not None:
        return folded[0]
    source = current_trace().source(x)
    if source is not None and is_equal_shape(source.shape, shape):
        return source
    operand_order, order = reshape_orders(x.shape, x.order, shape)
    arg = current_trace().argument(x, operand_order)
    sizes = Extents(permute_shape(shape, order))
    reshaped = apply_primitive("reshape", [arg, sizes], {}, [order])[0]
    current_trace().remember(reshaped, x)
    return reshaped


def _check_count(here: Sizes, there: Sizes) -> None:
    """Raise InvalidModelError for a negative size in `there`, and for two static element counts that differ."""
    if any(is_static(size) and size < 0 for size in there):
        raise InvalidModelError("the shape %s has a negative size" % list(there))
    before: Extent = 1
    after: Extent = 1
    for size in here:
        before *= size
    for size in there:
        after *= size
    if is_static(before) and is_static(after) and before != after:
        raise InvalidModelError("%s cannot be reshaped to %s" % (list(here), list(there)))


def _without_wildcard(x: Tensor, shape: Sizes) -> Tuple[Extent, ...]:
    """Return `shape` with the size -1 replaced by the size that gives the number of elements of x, rounded down.

    Without a -1, `shape` is returned unchanged, as a tuple. Raises InvalidModelError if several sizes are -1, or if one
    size is -1 and another is 0.
    """
    known = [size for size in shape if not is_equal(size, -1)]
    if len(known) == len(shape):
        return tuple(shape)
    total: Extent = 1
    for size in known:
        total = total * size
    if len(shape) - len(known) > 1 or is_equal(total, 0):
        raise InvalidModelError("the shape %s leaves more than one size open" % list(shape))
    wildcard = floordiv(x.size, total)
    return tuple(wildcard if is_equal(size, -1) else size for size in shape)


def unsqueeze(x: TensorLike, axes: Sequence[int]) -> Tensor:
    """Insert axes of length one at these axes of the result; a negative axis counts from the end of the result.

    Raises InvalidModelError if an axis is out of range, or is inserted twice.
    """
    x = lift(x)
    rank = x.rank + len(axes)
    new_axes = sorted(axis_of(axis, rank) for axis in axes)
    if len(set(new_axes)) < len(new_axes):
        raise InvalidModelError("an axis is inserted twice: %s" % list(axes))
    shape = list(x.shape)
    for axis in new_axes:
        shape.insert(axis, 1)
    return _reshape_unit_axes(x, shape, order_with_axes(x.order, new_axes, rank))


def squeeze(x: TensorLike, axes: Sequence[int]) -> Tensor:
    """Remove these axes; a negative axis counts from the end. The caller makes sure that each has length one.

    Without axes, the result has the shape of x. Raises InvalidModelError if an axis is out of range.
    """
    x = lift(x)
    removed_axes = [axis_of(axis, x.rank) for axis in axes]
    shape = [extent for axis, extent in enumerate(x.shape) if axis not in removed_axes]
    return _reshape_unit_axes(x, shape, order_without_axes(x.order, removed_axes))


def _reshape_unit_axes(x: Tensor, shape: Sizes, order: Order) -> Tensor:
    """Fold or record a reshape that only inserts or removes axes of length one. Return the Tensor.

    `shape` is the new logical shape. A recorded result has the pending order `order`; a folded result has none.
    """
    folded = fold("reshape", [x, Extents(shape)], [x.dtype])
    if folded is not None:
        return folded[0]
    arg = current_trace().argument(x, x.order)
    return apply_primitive("reshape", [arg, Extents(permute_shape(shape, order))], {}, [order])[0]


@primitive("fiubsc")
def transpose(x: TensorLike, perm: Sequence[int]) -> Tensor:
    """Axis i of the result is axis perm[i] of x. The permutation stays pending until a primitive needs the new order.

    A negative axis counts from the end. Raises InvalidModelError if `perm` is no permutation of the axes of x.
    """
    x = lift(x)
    perm = tuple(axis_of(axis, x.rank) for axis in perm)
    if sorted(perm) != list(range(x.rank)):
        raise InvalidModelError("%s is no permutation of the axes of %s" % (list(perm), list(x.shape)))
    folded = fold("transpose", [x], [x.dtype], perm=perm)
    if folded is not None:
        return folded[0]
    order = x.order or tuple(range(x.rank))
    pending: Any = tuple(perm.index(axis) for axis in order)
    shape = [x.shape[axis] for axis in perm]
    return Tensor(x.dtype, shape, ref=x.ref, order=None if pending == tuple(range(x.rank)) else pending)


@primitive("fiubsc")
def broadcast_to(x: TensorLike, shape: Sizes) -> Tensor:
    """x broadcast to `shape`: repeated along axes of length one and along new leading axes.

    Any other axis of x has the length in `shape`. Raises InvalidModelError for another static length, for a `shape`
    with fewer axes than x, and for a negative size.
    """
    x = lift(x)
    shape = tuple(shape)
    if is_equal_shape(x.shape, shape):
        return x
    known = zip(x.shape[::-1], shape[::-1])
    if x.rank > len(shape) or any(is_static(n) and is_static(w) and n not in (1, w) for n, w in known):
        raise InvalidModelError("a tensor of the shape %s cannot be repeated to %s" % (list(x.shape), list(shape)))
    check_shape(shape, "broadcast_to")
    folded = fold("broadcast_to", [x, Extents(shape)], [x.dtype])
    if folded is not None:
        return folded[0]
    order = x.order if x.rank == len(shape) else None
    arg = current_trace().argument(x, order)
    return apply_primitive("broadcast_to", [arg, Extents(permute_shape(shape, order))], {}, [order])[0]


def broadcast_source(x: Tensor) -> Tensor:
    """Return the tensor that a `broadcast_to` repeats to give x. A constant of one element is returned as a scalar.

    x itself is returned in these cases:

    - No `broadcast_to` computes x.
    - x has a pending order, and the repeated tensor has a lower rank, or is a constant of several elements.
    """
    node = None if x.ref is None else x.ref.node
    if node is None or node.primitive != "broadcast_to":
        return x
    source: Any = node.args[0]
    if isinstance(source, Const):
        if source.array.size == 1:
            return lift(source.array.reshape(()), x.dtype)
        return x if x.order is not None else lift(source.array, x.dtype)
    if source.spec.rank == x.rank:
        return result(source, x.order)
    return x if x.order is not None else result(source)


def is_broadcastable(narrow: Sequence[Any], wide: Sequence[Any]) -> bool:
    """Return whether the shape `narrow` broadcasts to the shape `wide` for all run-time values. None gives False."""
    pairs = zip(list(narrow)[::-1], list(wide)[::-1])
    is_decided = all(n is not None and w is not None and (is_equal(n, w) or is_equal(n, 1)) for n, w in pairs)
    return is_decided and len(narrow) <= len(wide)


def full(shape: Sizes, value: TensorLike, dtype: DType) -> Tensor:
    """Return a tensor of this shape, each element of which is the scalar `value`. A Tensor `value` keeps its dtype."""
    return broadcast_to(lift(value, dtype), shape)


@primitive("fiubsc")
def concat(xs: Sequence[Any], axis: int) -> Tensor:
    """The tensors of the list `xs`, joined along `axis`. A negative axis counts from the end.

    The tensors have one dtype, one rank above 0, and equal sizes on the other axes. Other ranks and other static sizes
    raise InvalidModelError. If there is only one tensor, it is returned unchanged, also a scalar. An empty list is not
    allowed.
    """
    tensors = [lift(x) for x in xs]
    axis = axis_of(axis, tensors[0].rank)
    if len(tensors) == 1:
        return tensors[0]
    dtype, rank = tensors[0].dtype, tensors[0].rank
    if any(t.rank != rank for t in tensors) or not rank:
        raise InvalidModelError("tensors of the ranks %s cannot be joined" % [t.rank for t in tensors])
    _check_joinable(tensors, axis)
    folded = fold("concat", [tensors], [dtype], axis=axis)
    if folded is not None:
        return folded[0]
    order = common_order(tensors, rank)
    args = tuple(current_trace().argument(tensor, order) for tensor in tensors)
    return apply_primitive("concat", [args], {"axis": physical_axis(axis, order)}, [order])[0]


def _check_joinable(tensors: Sequence[Tensor], axis: int) -> None:
    """Raise InvalidModelError if two tensors have different static sizes on an axis other than `axis`."""
    for k in range(tensors[0].rank):
        sizes = {tensor.shape[k] for tensor in tensors if k != axis and is_static(tensor.shape[k])}
        if len(sizes) > 1:
            raise InvalidModelError("tensors with the sizes %s on another axis cannot be joined" % sorted(sizes))


def stack(xs: Sequence[Any], axis: int) -> Tensor:
    """Join tensors of one shape, at least one, along a new axis: `axis` of the result (negative: from its end)."""
    return concat([unsqueeze(x, [axis]) for x in xs], axis)


@primitive("fiubsc")
def slice(x: TensorLike, starts: Sizes, ends: Sequence[Any], steps: Sequence[int]) -> Tensor:
    """x[start:end:step] on every axis, by Python's rules for negative bounds and bounds out of range.

    An end of None is the end of the axis in the direction of the step, as in x[start::step]. Steps are ints; 0 raises
    InvalidModelError.
    """
    x = lift(x)
    begin, stop = _bounds(x.shape, starts, ends, steps)
    if all(is_equal(b, 0) and is_equal(e, d) and s == 1 for b, e, d, s in zip(begin, stop, x.shape, steps)):
        return x
    args = [x, Extents(begin), Extents(stop)]
    folded = fold("slice", args, [x.dtype], steps=tuple(steps))
    if folded is not None:
        return folded[0]
    order = x.order
    physical = [
        current_trace().argument(x, order),
        Extents(permute_shape(begin, order)),
        Extents(permute_shape(stop, order)),
    ]
    params = {"steps": permute_shape(steps, order)}
    return apply_primitive("slice", physical, params, [order])[0]


FAR = 2**31 - 1  # beyond every axis, and within the index type of every framework


def _bounds(
    shape: Sizes, starts: Sizes, ends: Sequence[Any], steps: Sequence[int]
) -> Tuple[List[Extent], List[Extent]]:
    """Return two lists: the start and the end of a slice on each axis.

    - An end of None becomes the end of the axis in the direction of the step.
    - A backward slice up to the front gets the end -FAR, which every framework clamps to before element 0.
    - If the bounds and the axis are static, the bounds are clamped to the range of the axis.
    - Otherwise a static bound is clamped to [-FAR, FAR], and a symbolic bound stays.

    Raises InvalidModelError for a step of 0.
    """
    begin: List[Extent] = []
    stop: List[Extent] = []
    for extent, start, end, step in zip(shape, starts, ends, steps):
        if step == 0:
            raise InvalidModelError("a slice has step 0")
        if end is None:
            end = extent if step > 0 else -FAR
        if is_static(extent) and is_static(start) and is_static(end):
            begin_k, stop_k, _ = builtins.slice(int(start), int(end), step).indices(int(extent))
            if begin_k < 0:  # a backward slice from before the first element is empty
                begin_k = stop_k = 0
            begin.append(begin_k)
            stop.append(-FAR if stop_k < 0 else max(stop_k, begin_k) if step > 0 else stop_k)
        else:
            begin.append(_clamp(start))
            stop.append(extent if is_static(end) and step > 0 and end >= FAR else _clamp(end))
    return begin, stop


def _clamp(bound: Extent) -> Extent:
    return max(-FAR, min(FAR, int(bound))) if is_static(bound) else bound


def slice_axis(x: TensorLike, axis: int, start: Extent, end: Optional[Extent], step: int = 1) -> Tensor:
    """Slice x[start:end:step] along a single axis (negative: from the end).

    Negative bounds and bounds out of range follow Python's rules. An `end` of None is the end of the axis in the
    direction of the step. Raises InvalidModelError for an axis that is out of range, and for a step of 0.
    """
    x = lift(x)
    axis = existing_axis(axis, x)
    starts: List[Extent] = [0] * x.rank
    ends: List[Any] = [None] * x.rank
    steps = [1] * x.rank
    starts[axis], ends[axis], steps[axis] = start, end, step
    return slice(x, starts, ends, steps)


def split(x: TensorLike, axis: int, sizes: Sizes) -> List[Tensor]:
    """Split x along an axis into consecutive pieces of the lengths `sizes`. Return a list of Tensors.

    A negative axis counts from the end. Raises InvalidModelError if the axis is out of range or a static length is
    negative. Raises InvalidModelError also if static lengths do not add up to a static axis.
    """
    x = lift(x)
    check_pieces(sizes, x.shape[existing_axis(axis, x)])
    pieces, start = [], 0  # type: Tuple[List[Tensor], Extent]
    for size in sizes:
        pieces.append(slice_axis(x, axis, start, start + size))
        start = start + size
    return pieces


@primitive("fiubsc")
def reverse(x: TensorLike, axes: Sequence[int]) -> Tensor:
    """The elements in the opposite order along these axes; a negative axis counts from the end.

    Raises InvalidModelError for an axis that is out of range.
    """
    x = lift(x)
    axes = tuple(axis_of(axis, x.rank) for axis in axes)
    folded = fold("reverse", [x], [x.dtype], axes=axes)
    if folded is not None:
        return folded[0]
    params = {"axes": tuple(physical_axis(axis, x.order) for axis in axes)}
    return apply_primitive("reverse", [current_trace().argument(x, x.order)], params, [x.order])[0]


@primitive("fiubsc")
def tile(x: TensorLike, repeats: Sizes) -> Tensor:
    """x repeated along each axis: the result has x.shape[k] * repeats[k] elements on axis k.

    `repeats` has a count for each axis, 0 or more. Raises InvalidModelError for another number of counts, and for a
    negative count.
    """
    x = lift(x)
    if len(repeats) != x.rank:
        raise InvalidModelError("%d repeat counts are given for the axes %s" % (len(repeats), list(x.shape)))
    if all(is_equal(repeat, 1) for repeat in repeats):
        return x
    check_shape(repeats, "tile")
    folded = fold("tile", [x, Extents(repeats)], [x.dtype])
    if folded is not None:
        return folded[0]
    args = [current_trace().argument(x, x.order), Extents(permute_shape(repeats, x.order))]
    return apply_primitive("tile", args, {}, [x.order])[0]


@primitive("fiubsc")
def pad(
    x: TensorLike, before: Sizes, after: Sizes, mode: str = "constant", value: Optional[TensorLike] = None
) -> Tensor:
    """x with elements added before and after each axis. `before` and `after` have a count for each axis, 0 or more.

    mode: 'constant' adds `value`; 'edge' the edge element; 'reflect' the mirror image without the edge; 'wrap' elements
        from the other end. `value` is a scalar of x's dtype, by default zero or the empty text; other modes ignore it.

    A negative count raises InvalidModelError. So does a known empty axis to pad in another mode than 'constant'.
    """
    x = lift(x)
    if all(is_equal(size, 0) for size in (*before, *after)):
        return x
    value = lift(("" if x.dtype.kind == "s" else 0) if value is None else value, x.dtype)
    check_shape((*before, *after), "pad")
    args = [x, Extents(before), Extents(after), value]
    folded = fold("pad", args, [x.dtype], mode=mode)
    if folded is not None:
        return folded[0]
    order = x.order
    physical = [
        current_trace().argument(x, order),
        Extents(permute_shape(before, order)),
        Extents(permute_shape(after, order)),
        current_trace().argument(value),
    ]
    return apply_primitive("pad", physical, {"mode": mode}, [order])[0]


@primitive("fi")
def arange(start: TensorLike, stop: TensorLike, step: TensorLike) -> Tensor:
    """The vector start, start + step, … without `stop`; three scalars of one dtype. A negative step counts down.

    The vector is empty if `stop` is not ahead of `start` in the direction of the step. The step is not 0: if the
    arguments are known, a step of 0 raises InvalidModelError.
    """
    start, stop, step = lift(start), lift(stop), lift(step)
    folded = fold("arange", [start, stop, step], [start.dtype])
    if folded is not None:
        return folded[0]
    args = [current_trace().argument(scalar) for scalar in (start, stop, step)]
    return apply_primitive("arange", args, {})[0]


def iota(length: Extent, dtype: DType = int64) -> Tensor:
    """Return the vector 0, 1, … length - 1 of the dtype `dtype`; an empty vector for length 0."""
    return arange(lift(0, dtype), lift(length, dtype), lift(1, dtype))


def shape_of(x: TensorLike) -> Tensor:
    """Return the logical shape as an int64 vector of ints and symbolic sizes; empty for a scalar. Record no node."""
    return lift(list(lift(x).shape), int64) if lift(x).rank else lift(np.zeros(0, np.int64))

"""Primitives that select, scatter and sort elements. Indices are int32 or int64; a model must keep them in range.

A known index out of range raises InvalidModelError while tracing.
"""

from typing import List, Sequence

import numpy as np

from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import bool_, int64
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.primitives.elementwise import add, where
from onnx_compat.primitives.ranges import check_indices, check_rows, check_same
from onnx_compat.primitives.shape import axis_of, existing_axis
from onnx_compat.tracing.layout import broadcast_operand, order_without_axes, physical_axis
from onnx_compat.tracing.sign_analysis import is_nonnegative_tensor
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, TensorLike, lift, scalar_like


def nonnegative(indices: TensorLike, extent: Extent, checked: bool = True) -> Tensor:
    """Convert indices of an axis of length `extent` to count from the front: -1, the last element, becomes extent - 1.

    Indices that provably are never negative are returned unchanged. An index below -extent stays negative.

    With `checked`, a known index that is out of range of a static `extent` raises InvalidModelError. Other indices are
    not checked.
    """
    indices = lift(indices)
    if checked:
        check_indices(indices, extent, from_end=True)
    if is_nonnegative_tensor(indices):
        return indices
    length = lift(extent, indices.dtype)
    return where(indices < 0, add(indices, length), indices)


@primitive("fiubsc")
def take(x: TensorLike, indices: TensorLike, axis: int) -> Tensor:
    """The slices of x at `indices` along `axis`, of shape x.shape[:axis] + indices.shape + x.shape[axis + 1:].

    The indices are not negative. A negative `axis` counts from the end. Raises InvalidModelError for a scalar x, an
    axis out of range, and a known index out of range.
    """
    x, indices = lift(x), lift(indices)
    axis = axis_of(axis, x.rank)
    if not x.rank:
        raise InvalidModelError("a scalar has no axis to select from")
    check_indices(indices, x.shape[axis])
    folded = fold("take", [x, indices], [x.dtype], axis=axis)
    if folded is not None:
        return folded[0]
    # A scalar or a vector of indices keeps the order of the other axes. Indices of a higher rank need the logical order.
    order = order_without_axes(x.order, [axis]) if indices.rank == 0 else x.order if indices.rank == 1 else None
    inside = x.order if indices.rank < 2 else None
    args = [current_trace().argument(x, inside), current_trace().argument(indices)]
    return apply_primitive("take", args, {"axis": physical_axis(axis, inside)}, [order])[0]


@primitive("fiubsc")
def take_along(x: TensorLike, indices: TensorLike, axis: int) -> Tensor:
    """Elements of x: result[i, j, k] = x[i, indices[i, j, k], k] for axis 1. The result has the shape of `indices`.

    On the other axes, `indices` may be shorter than x. Indices are not negative; a negative axis counts from the end.
    Raises InvalidModelError if x and `indices` differ in rank, and for a known index out of range.
    """
    x, indices = lift(x), lift(indices)
    axis = axis_of(axis, x.rank)
    if indices.rank != x.rank:
        raise InvalidModelError("indices of rank %d cannot select from a tensor of rank %d" % (indices.rank, x.rank))
    check_indices(indices, x.shape[axis])
    folded = fold("take_along", [x, indices], [x.dtype], axis=axis)
    if folded is not None:
        return folded[0]
    args = [current_trace().argument(x, x.order), broadcast_operand(indices, x.order, x.rank)]
    return apply_primitive("take_along", args, {"axis": physical_axis(axis, x.order)}, [x.order])[0]


@primitive("fiubsc")
def gather_nd(x: TensorLike, indices: TensorLike, batch_dims: int = 0) -> Tensor:
    """The slices of x at coordinates. A coordinate is a vector along the last axis of `indices`.

    The last axis of `indices` has a static length; else NeedsKnownError is raised. The first `batch_dims` axes of x and
    `indices` are batch axes, which both share. Entry k of a coordinate is an index of axis batch_dims + k of x, and is
    not negative. The shape of the result is indices.shape[:-1] + x.shape[batch_dims + indices.shape[-1]:].

    Raises InvalidModelError in these cases:

    - A known index is out of range.
    - A coordinate has more entries than x has axes after the batch axes.
    - `indices` is a scalar.
    - A batch axis has two different static sizes.
    """
    x, indices = lift(x), lift(indices)
    check_rows(indices, x.shape[batch_dims:])
    if not is_static(indices.shape[-1]):
        raise NeedsKnownError("the number of coordinates in the indices is not known", lift([indices.shape[-1]]))
    for mine, theirs in zip(indices.shape[: min(batch_dims, indices.rank - 1)], x.shape):
        check_same("a batch axis of the indices", mine, "that of the data", theirs)
    folded = fold("gather_nd", [x, indices], [x.dtype], batch_dims=batch_dims)
    if folded is not None:
        return folded[0]
    args = [current_trace().argument(x), current_trace().argument(indices)]
    return apply_primitive("gather_nd", args, {"batch_dims": batch_dims})[0]


@primitive("fiubsc")
def scatter_nd(x: TensorLike, indices: TensorLike, updates: TensorLike, reduction: str = "none") -> Tensor:
    """A copy of x with slices replaced by the slices of `updates`, or combined with them.

    - indices: each vector along the last axis is the position of a slice on the first axes of x; not negative.
    - updates: of x's dtype and of the shape indices.shape[:-1] + x.shape[indices.shape[-1]:].
    - reduction: "none" replaces; for equal positions, the last counts. "add", "mul", "max" and "min" combine the slice
      of x with all slices for its position.

    Raises InvalidModelError for a known index out of range, scalar indices, and static sizes that do not fit.
    """
    x, indices, updates = lift(x), lift(indices), scalar_like(updates, lift(x))
    check_rows(indices, x.shape)
    if updates.rank and is_static(indices.shape[-1]):
        _check_updates(updates.shape, indices.shape[:-1] + x.shape[int(indices.shape[-1]) :])
    folded = fold("scatter_nd", [x, indices, updates], [x.dtype], reduction=reduction)
    if folded is not None:
        return folded[0]
    args = [current_trace().argument(tensor) for tensor in (x, indices, updates)]
    return apply_primitive("scatter_nd", args, {"reduction": reduction})[0]


def _check_updates(shape: Sequence[Extent], expected: Sequence[Extent]) -> None:
    differ = any(is_static(a) and is_static(b) and a != b for a, b in zip(shape, expected))
    if differ or len(shape) != len(expected):
        raise InvalidModelError("updates of the shape %s do not fill slices of %s" % (list(shape), list(expected)))


@primitive("fiub")
def nonzero(x: TensorLike) -> Tensor:
    """The coordinates of the elements that are not zero, as int64 [rank, count]: a column for each, in row-major order.

    NaN counts as an element that is not zero. A scalar x gives the shape [0, 1], or [0, 0] if x is zero.
    """
    x = lift(x)
    folded = fold("nonzero", [x], [int64])
    if folded is not None:
        return folded[0]
    return apply_primitive("nonzero", [current_trace().argument(x)], {})[0]


@primitive("fiu")
def top_k(x: TensorLike, k: Extent, axis: int, largest: bool = True) -> List[Tensor]:
    """The k largest (or smallest) elements along an axis, and their int64 indices: a list of two tensors.

    The largest (or smallest) element comes first. Of equal elements, the element with the lower index comes first. k is
    at least 0, and at most the length of the axis; another static k raises InvalidModelError. A negative axis counts
    from the end.
    """
    from onnx_compat.ir import Extents

    x = lift(x)
    axis = axis_of(axis, x.rank)
    length = x.shape[axis] if x.rank else 1
    if is_static(k) and (k < 0 or (is_static(length) and k > length)):
        raise InvalidModelError("an axis of length %s has no %s elements to choose" % (length, k))
    params = {"axis": axis, "largest": largest}
    folded = fold("top_k", [x, Extents([k])], [x.dtype, int64], **params)
    if folded is not None:
        return list(folded)
    params["axis"] = physical_axis(axis, x.order)
    args = [current_trace().argument(x, x.order), Extents([k])]
    return apply_primitive("top_k", args, params, [x.order, x.order])


def _arg(name: str, x: TensorLike, axis: int) -> Tensor:
    x = lift(x)
    axis = axis_of(axis, x.rank)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    if all(map(is_static, shape)) and 0 in shape:  # kernels refuse an empty axis, also where the result is empty
        return lift(np.zeros(shape, np.int64))
    folded = fold(name, [x], [int64], axis=axis)
    if folded is not None:
        return folded[0]
    params = {"axis": physical_axis(axis, x.order)}
    return apply_primitive(name, [current_trace().argument(x, x.order)], params, [order_without_axes(x.order, [axis])])[
        0
    ]


@primitive("fiu")
def argmax(x: TensorLike, axis: int) -> Tensor:
    """The int64 index of the first largest element along an axis (negative: from the end). The axis is removed.

    The reference gives the first NaN, if there is one. The kernels of TensorFlow and TFLite compare with `>`: with NaN,
    their result depends on the order of the comparisons, as that of onnxruntime does.

    An axis without elements has no such index: a run is an error, unless the result is empty too. Raises
    UnsupportedError for a known x with such an axis, and InvalidModelError for an axis that is out of range.
    """
    return _arg("argmax", x, axis)


@primitive("fiu")
def argmin(x: TensorLike, axis: int) -> Tensor:
    """The int64 index of the first smallest element along an axis (negative: from the end). The axis is removed.

    The reference gives the first NaN, if there is one. The kernels of TensorFlow and TFLite compare with `<`: with
    NaN, their result depends on the order of the comparisons, as that of onnxruntime does.

    An axis without elements has no such index: a run is an error, unless the result is empty too. Raises
    UnsupportedError for a known x with such an axis, and InvalidModelError for an axis that is out of range.
    """
    return _arg("argmin", x, axis)


@primitive("fi")
def cumsum(x: TensorLike, axis: int, exclusive: bool = False, reverse: bool = False) -> Tensor:
    """The running sum along `axis`, in the shape of x. A negative axis counts from the end.

    - exclusive: leave out the element itself; the first sum is zero.
    - reverse: begin at the end of the axis.

    With both, [1, 2, 3] gives [5, 3, 0]. Raises InvalidModelError for an axis that is out of range.
    """
    x = lift(x)
    axis = existing_axis(axis, x)
    params = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    folded = fold("cumsum", [x], [x.dtype], **params)
    if folded is not None:
        return folded[0]
    params["axis"] = physical_axis(axis, x.order)
    return apply_primitive("cumsum", [current_trace().argument(x, x.order)], params, [x.order])[0]


def one_hot(indices: TensorLike, depth: Extent, axis: int = -1) -> Tensor:
    """Return a bool tensor with a new axis of length `depth` at `axis` of the result (negative: from its end).

    Element k along the new axis is True if the index is k. An index below 0, or of `depth` or more, gives False
    everywhere. Raises InvalidModelError if `axis` is out of range.
    """
    from onnx_compat.primitives.elementwise import equal
    from onnx_compat.primitives.shape import iota, reshape, unsqueeze

    indices = lift(indices)
    axis = axis_of(axis, indices.rank + 1)
    shape: Sequence[Extent] = [depth if k == axis else 1 for k in range(indices.rank + 1)]
    result = equal(unsqueeze(indices, [axis]), reshape(iota(depth, indices.dtype), shape))
    assert result.dtype == bool_
    return result

"""Gather, scatter, OneHot and TopK.

Negative indices of ONNX count from the end; primitives take no negative indices.
"""

from typing import List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import int64
from onnx_compat.ops.arguments import align_to_axis, as_size, known_integers, product
from onnx_compat.ops.registry import op
from onnx_compat.primitives.ranges import check_indices, check_rows, check_same
from onnx_compat.tracing.sign_analysis import is_nonnegative_tensor
from onnx_compat.tracing.values import Tensor, lift


@op("Gather", since=(1, 11, 13))
def gather(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Return the slices of data at the indices of an axis: data[indices] for axis 0.

    The shape of the indices replaces the axis in the shape of data. A negative index counts from the end. Raises
    InvalidModelError in these cases:

    - data is a scalar, or `axis` is out of range
    - a known index is out of range of a static axis
    """
    if not data.rank:
        raise InvalidModelError("a scalar has no axis to select from")
    axis = p.axis_of(axis, data.rank)
    check_indices(indices, data.shape[axis], from_end=True)
    if indices.known and indices.size == 1 and indices.rank < 2 and data.value is None:
        index = known_integers(indices, "an index")[0]  # a single slice needs no gather
        piece = p.slice_axis(data, axis, index, None if index == -1 else index + 1)
        return piece if indices.rank else p.squeeze(piece, [axis])
    return p.take(data, p.nonnegative(indices, data.shape[axis]), axis)


@op("GatherElements", since=(11, 13))
def gather_elements(data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    """Return the elements at the indices along an axis: y[i][j] = data[indices[i][j]][j] for axis 0 of a matrix.

    The result has the shape of the indices. A negative index counts from the end. Raises InvalidModelError in these
    cases:

    - the ranks of data and indices differ, or `axis` is out of range
    - a known index is out of range of a static axis
    """
    axis = p.axis_of(axis, data.rank)
    return p.take_along(data, p.nonnegative(indices, data.shape[axis]), axis)


@op("GatherND", since=11)
def gather_nd_11(data: Tensor, indices: Tensor) -> Tensor:
    """Return the elements or slices of data at coordinates: indices [[0, 1], [2, 0]] give [data[0, 1], data[2, 0]].

    Each vector along the last axis of the indices is a coordinate. If it has fewer entries than data has axes, it
    selects a slice. A negative entry counts from the end.

    - Raises InvalidModelError for a known entry out of range, for more entries than axes, and for scalar data or
      indices.
    - Raises NeedsKnownError if the number of entries of a coordinate is not known.
    """
    return gather_nd(data, indices)


@op("GatherND", since=(12, 13))
def gather_nd(data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """Return the elements or slices of data at coordinates: indices [[0, 1], [2, 0]] give [data[0, 1], data[2, 0]].

    Each vector along the last axis of the indices is a coordinate. If it has fewer entries than data has axes, it
    selects a slice. A negative entry counts from the end.

    The first `batch_dims` axes are batch axes, which data and indices share. A coordinate then selects from the later
    axes of its own sample.

    - Raises InvalidModelError for a known entry out of range, and for more entries than axes. Raises it also if data
      or indices have no axis after the batch axes, or different static batch sizes.
    - Raises NeedsKnownError if the number of entries of a coordinate is not known.
    """
    if not 0 <= batch_dims < min(data.rank, indices.rank):
        reason = "batch_dims is %d, for data of rank %d and indices of rank %d"
        raise InvalidModelError(reason % (batch_dims, data.rank, indices.rank))
    return p.gather_nd(data, _nonnegative_rows(indices, data.shape[batch_dims:]), batch_dims)


def _nonnegative_rows(indices: Tensor, shape: Sequence[Extent]) -> Tensor:
    """Return `indices` with each negative entry counted from the front: -1 becomes the size of its axis minus 1.

    Each vector along the last axis of `indices` is a coordinate. Its entry k is a position on axis k of `shape`. If no
    entry can be negative, `indices` itself is returned.

    - Raises InvalidModelError for a known entry out of range of a static axis, more entries than axes, and scalar
      indices.
    - Raises NeedsKnownError if the number of entries is not known, and an entry may be negative.
    """
    check_rows(indices, shape, from_end=True)
    if is_nonnegative_tensor(indices):
        return indices
    depth = indices.shape[-1]
    if not is_static(depth):
        raise NeedsKnownError("the number of coordinates in the indices is not known", lift([depth]))
    lengths = p.cast(lift(list(shape[: int(depth)]), int64), indices.dtype)
    return p.where(p.less(indices, 0), p.add(indices, lengths), indices)


@op("Scatter", since=(9, 11))
def scatter(data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0) -> Tensor:
    """Return data with elements replaced: y[indices[i][j]][j] = updates[i][j] for axis 0 of a matrix.

    Scatter is the former name of ScatterElements. `indices` and `updates` have the same shape. A negative index counts
    from the end. Raises InvalidModelError for a known index that is out of range of a static axis.
    """
    return scatter_elements(data, indices, updates, axis=axis)


@op("ScatterElements", since=(11, 13))
def scatter_elements_13(data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0) -> Tensor:
    """Return data with elements replaced: y[indices[i][j]][j] = updates[i][j] for axis 0 of a matrix.

    `indices` and `updates` have the same shape. A negative index counts from the end. Raises InvalidModelError for a
    known index that is out of range of a static axis.
    """
    return scatter_elements(data, indices, updates, axis=axis)


@op("ScatterElements", since=(16, 18))
def scatter_elements(
    data: Tensor, indices: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Tensor:
    """Return data with elements replaced, or combined: y[indices[i][j]][j] = updates[i][j] for axis 0 of a matrix.

    `indices` and `updates` have the same shape. A negative index counts from the end. `reduction` combines the old and
    the new element: "none" (take the new element), "add", "mul", "max" or "min". Raises InvalidModelError for a known
    index that is out of range of a static axis.
    """
    axis = p.axis_of(axis, data.rank)
    indices = p.cast(p.nonnegative(indices, data.shape[axis]), int64)
    coordinates = [indices if k == axis else _axis_coordinates(indices.shape, k) for k in range(data.rank)]
    return p.scatter_nd(data, p.stack(coordinates, data.rank), updates, reduction)


def _axis_coordinates(shape: Sequence[Extent], axis: int) -> Tensor:
    """Return an int64 tensor of the shape `shape`: each element is its own coordinate along `axis`."""
    line_shape = tuple(extent if k == axis else 1 for k, extent in enumerate(shape))
    return p.broadcast_to(p.reshape(p.iota(shape[axis]), line_shape), shape)


@op("ScatterND", since=(11, 13))
def scatter_nd_13(data: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    """Return data with elements or slices replaced: indices [[0, 1], [2, 0]] replace data[0, 1] and data[2, 0].

    Each vector along the last axis of the indices is a coordinate. If it has fewer entries than data has axes, it
    selects a slice. A negative entry counts from the end. `updates` has an element or slice for each coordinate.

    - Raises InvalidModelError for a known entry out of range of a static axis, more entries than axes, and scalar
      indices.
    - Raises NeedsKnownError if the number of entries is not known, and an entry may be negative.
    """
    return scatter_nd(data, indices, updates)


@op("ScatterND", since=(16, 18))
def scatter_nd(data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none") -> Tensor:
    """Return data with elements or slices replaced by updates, or combined with updates.

    Indices [[0, 1], [2, 0]] change data[0, 1] and data[2, 0]. Each vector along the last axis of the indices is a
    coordinate. If it has fewer entries than data has axes, it selects a slice. A negative entry counts from the end.
    `updates` has an element or slice for each coordinate.

    `reduction` combines the old and the new elements: "none" (take the new elements), "add", "mul", "max" or "min".

    - Raises InvalidModelError for a known entry out of range of a static axis, more entries than axes, and scalar
      indices.
    - Raises NeedsKnownError if the number of entries is not known, and an entry may be negative.
    """
    return p.scatter_nd(data, _nonnegative_rows(indices, data.shape), updates, reduction)


@op("NonZero", since=(9, 13))
def nonzero(X: Tensor) -> Tensor:
    """Return the coordinates of the nonzero elements, int64 [rank, count], in row-major order."""
    return p.nonzero(X)


@op("Compress", since=(9, 11, 28))
def compress(input: Tensor, condition: Tensor, *, axis: Optional[int] = None) -> Tensor:
    """Return the slices along an axis where the condition, a vector, is true.

    Slices after the end of a shorter condition are left out. Entries of the condition after the end of a static axis
    are ignored. Without an axis, the input is flattened first, and the result is a vector. Raises InvalidModelError for
    an axis that is out of range, and for a condition that is no vector.
    """
    if condition.rank != 1:
        raise InvalidModelError("the condition of a Compress is a vector, not of rank %d" % condition.rank)
    if axis is None:
        input, axis = p.reshape(input, (product(input.shape),)), 0
    return p.take(input, _true_indices(condition, input.shape[p.existing_axis(axis, input)]), axis)


def _true_indices(condition: Tensor, extent: Extent) -> Tensor:
    length = condition.shape[0]
    if is_static(length) and is_static(extent) and length > extent:
        condition = p.slice_axis(condition, 0, 0, extent)
    return p.squeeze(p.nonzero(condition), [0])


@op("OneHot", since=(9, 11, 28))
def one_hot(indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1) -> Tensor:
    """Return indices encoded as one-hot vectors along a new axis: values[1] at the index, values[0] elsewhere.

    `axis` is the position of the new axis in the result; its size is `depth`. The indices may have any numeric dtype;
    fractions are cut off. A negative index counts from the end. An index out of range gives values[0] everywhere.
    Raises InvalidModelError for a known depth below 1, and if `depth` does not have exactly one element.
    """
    length = as_size(p.cast(depth, int64), "the depth of a OneHot")
    if is_static(length) and length < 1:
        raise InvalidModelError("the depth of a OneHot is %s, it must be 1 or more" % length)
    is_hot = p.one_hot(p.nonnegative(p.cast(indices, int64), length, checked=False), length, axis)
    off, on = (p.reshape(value, ()) for value in p.split(values, 0, [1, 1]))
    return p.where(is_hot, on, off)


@op("TopK", since=1)
def top_k_1(X: Tensor, *, k: int, axis: int = -1) -> List[Tensor]:
    """Return [the k largest elements along an axis, largest first; their int64 indices].

    Of equal elements, the element with the lower index comes first. Raises InvalidModelError if k is negative, or
    exceeds a static axis.
    """
    return p.top_k(X, k, axis)


@op("TopK", since=10)
def top_k_10(X: Tensor, K: Tensor, *, axis: int = -1) -> List[Tensor]:
    """Return [the K largest elements along an axis, largest first; their int64 indices].

    Of equal elements, the element with the lower index comes first. Raises InvalidModelError if K does not have exactly
    one element, or if a known K is negative or exceeds a static axis.
    """
    return p.top_k(X, as_size(K, "the number of elements of a TopK"), axis)


@op("TopK", since=(11, 24))
def top_k(X: Tensor, K: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> List[Tensor]:
    """Return [K elements along an axis, their int64 indices]: the largest elements, or the smallest if `largest` is 0.

    The largest elements are in descending order, the smallest in ascending order, also if `sorted` is 0. Of equal
    elements, the element with the lower index comes first. Raises InvalidModelError if K does not have exactly one
    element, or if a known K is negative or exceeds a static axis.
    """
    return p.top_k(X, as_size(K, "the number of elements of a TopK"), axis, bool(largest))


@op("ReverseSequence", since=(10, 28))
def reverse_sequence(input: Tensor, sequence_lens: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    """Return the input with the first `sequence_lens[b]` steps of each batch entry b reversed; later steps stay.

    Raises InvalidModelError in these cases:

    - batch_axis and time_axis are not 0 and 1, in any order
    - the number of lengths is not the batch size (both static)
    - the number of steps is static, and a known length is negative or exceeds it
    """
    if sorted((batch_axis, time_axis)) != [0, 1]:
        raise InvalidModelError("the axes of batch and time are 0 and 1, not %d and %d" % (batch_axis, time_axis))
    check_same("the number of sequence lengths", sequence_lens.shape[0], "the batch size", input.shape[batch_axis])
    if is_static(input.shape[time_axis]):
        check_indices(sequence_lens, input.shape[time_axis] + 1)
    steps = align_to_axis(p.iota(input.shape[time_axis], sequence_lens.dtype), time_axis, input.rank)
    lengths = align_to_axis(sequence_lens, batch_axis, input.rank)
    source_steps = p.where(p.less(steps, lengths), p.sub(p.sub(lengths, 1), steps), steps)
    return p.take_along(input, p.broadcast_to(source_steps, input.shape), time_axis)

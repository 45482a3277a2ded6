"""Primitives that add elements at the ends of axes."""

import functools
from typing import Any, List, Optional, Sequence, Union

import numpy as np

from onnx_compat.shim import Sizes
from onnx_compat_tflite.emitter import (
    counting,
    division,
    elementwise,
    extremes,
    gathering,
    joining,
    reshaping,
    runtime_sizes,
)
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["pad", "pad_known"]

#: The elements up to which MIRROR_PAD is used. It computes each index: forty times slower than copying rows.
_MIRROR_PAD_ELEMENTS = 256
_ROW_ELEMENTS = 8  # from here on a row is long enough that GATHER copies it fast


@primitive
def pad(builder: Builder, x: Handle, before: Sizes, after: Sizes, value: Handle, mode: str) -> Handle:
    """Pad x at the ends of each axis: with `value` (mode constant), or with elements of x (mode edge, reflect or wrap).

    The modes are those of ONNX. `before` and `after` hold the numbers of elements to add at the two ends of each axis:
    one number for each axis, not negative.

    Above rank 5, the mode constant pads axis by axis (see `pad_known` and `_pad_each_axis`).
    """
    low, high = before.known, after.known
    if mode == "constant":
        if low is not None and high is not None:
            return pad_known(builder, x, list(zip(low, high)), value)
        if x.rank > 5:
            return _pad_each_axis(builder, x, list(zip(before.scalars, after.scalars)), value)
        dims = (len(before), 2)
        ends = builder.add_op("PACK", [before.tensor, after.tensor], "int32", dims, values_count=2, axis=1)
        return _add_padv2(builder, x, value, ends, builder.out.shape)
    dims = builder.out.shape
    if mode == "reflect" and low is not None and high is not None and _mirrors(x, low, high):
        if _known_elements(dims) <= _MIRROR_PAD_ELEMENTS:
            return _add_mirror_pad(builder, x, Handle.of(np.asarray([low, high], np.int32).T), dims)
        for axis in range(x.rank):
            x = _mirror_axis(builder, x, axis, low[axis], high[axis])
        return x
    for axis, (first, last) in enumerate(zip(before.scalars, after.scalars)):
        if not (first == 0 and last == 0 and isinstance(first, int) and isinstance(last, int)):
            indices = _source_indices(builder, builder.dim(x, axis), first, last, mode)
            x = gathering.gather(builder, x, indices, axis)
    return x


def pad_known(builder: Builder, x: Handle, pads: Sequence[Any], value: Optional[Handle] = None) -> Handle:
    """Pad x with the scalar `value`, or with zeros if `value` is None. If all numbers are 0, return x.

    `pads` has a pair (before, after) for each axis: the numbers of elements to add, not negative. Above rank 5,
    adjacent axes without padding are merged if x is static. If more than five axes remain, each axis is padded by
    itself.
    """
    if not any(low or high for low, high in pads):
        return x
    dims = [size + low + high if isinstance(size, int) else None for size, (low, high) in zip(x.dims, pads)]
    if x.rank > 5 and x.is_static:
        return _pad_merged(builder, x, pads, value, dims)
    if x.rank > 5:
        return _pad_each_axis(builder, x, pads, builder.like(x, 0) if value is None else value)
    ends = Handle.of(np.asarray(pads, np.int32).reshape(-1, 2))
    if value is None or (value.is_constant and not value.array.any() and not np.signbit(value.array).any()):
        return _add_pad(builder, x, ends, dims)
    return _add_padv2(builder, x, value, ends, dims)


def _pad_merged(
    builder: Builder, x: Handle, pads: Sequence[Any], value: Optional[Handle], dims: Sequence[Any]
) -> Handle:
    """Return a static x with padding. Adjacent axes without padding are merged before, and restored after it.

    `pads` has a pair (before, after) for each axis of x. `value` is a scalar, None for zeros. `dims` are the sizes of
    the result. If more than five axes remain after merging, each axis is padded by itself.
    """
    sizes: List[int] = []
    ends: List[Any] = []
    for size, pair in zip(x.dims, pads):
        if ends and not any(pair) and not any(ends[-1]):
            sizes[-1] *= size
        else:
            sizes.append(size)
            ends.append(pair)
    if len(sizes) > 5:
        return _pad_each_axis(builder, x, pads, builder.like(x, 0) if value is None else value)
    merged = reshaping.reshape_to(builder, x, sizes)
    return reshaping.reshape_to(builder, pad_known(builder, merged, ends, value), dims)


def _pad_each_axis(builder: Builder, x: Handle, pads: Sequence[Any], value: Handle) -> Handle:
    """Pad x with the scalar `value`, one axis after another, for any rank.

    `pads` has a pair (before, after) for each axis: ints, or integer scalars that are computed at run time. x is
    reshaped to [the axes before, the axis, the axes after], padded, and reshaped to its axes.
    """
    for axis, (low, high) in enumerate(pads):
        if isinstance(low, int) and isinstance(high, int) and not low and not high:
            continue
        sizes = [builder.dim(x, k) for k in range(x.rank)]
        view_sizes = [
            runtime_sizes.size_product(builder, x, axis),
            sizes[axis],
            runtime_sizes.size_product(builder, x, axis + 1, True),
        ]
        view = _reshape_to_sizes(builder, x, view_sizes)
        ends = runtime_sizes.stack(builder, [0, 0, low, high, 0, 0])
        grown = _add_sizes(builder, [sizes[axis], low, high])
        view_sizes[1] = sizes[axis] = grown
        padded = _add_padv2(builder, view, value, reshaping.reshape_to(builder, ends, (3, 2)), _known_dims(view_sizes))
        x = _reshape_to_sizes(builder, padded, sizes)
    return x


def _reshape_to_sizes(builder: Builder, x: Handle, sizes: Sequence[Any]) -> Handle:
    """Reshape x to sizes that are ints, or integer scalars that are computed at run time."""
    dims = _known_dims(sizes)
    if None not in dims:
        return reshaping.reshape_to(builder, x, dims)
    source = builder.graph.copy(x) if x.is_constant else x
    return builder.add_op("RESHAPE", [source, runtime_sizes.stack(builder, sizes)], x.dtype, dims)


def _known_dims(sizes: Sequence[Any]) -> List[Any]:
    """Return the sizes with None for each size that is computed at run time."""
    return [size if isinstance(size, int) else None for size in sizes]


def _add_sizes(builder: Builder, sizes: Sequence[Any]) -> Any:
    """Return the sum of sizes: an int if all are ints, else an integer scalar."""
    if all(isinstance(size, int) for size in sizes):
        return sum(sizes)
    scalars = [size if isinstance(size, Handle) else runtime_sizes.scalar(builder, size) for size in sizes]
    return functools.reduce(lambda total, size: runtime_sizes.fold_op(builder, "ADD", total, size), scalars)


@widen_for("PAD")
def _add_pad(builder: Builder, x: Handle, ends: Handle, dims: Sequence[Any]) -> Handle:
    return builder.add_op("PAD", [x, ends], x.dtype, dims)


@widen_for("PADV2")
def _add_padv2(builder: Builder, x: Handle, value: Handle, ends: Handle, dims: Sequence[Any]) -> Handle:
    return builder.add_op("PADV2", [x, ends, value], x.dtype, dims)


@widen_for("MIRROR_PAD reflect")
def _add_mirror_pad(builder: Builder, x: Handle, ends: Handle, dims: Sequence[Any]) -> Handle:
    return builder.add_op("MIRROR_PAD", [x, ends], x.dtype, dims, mode="REFLECT")


def _mirror_axis(builder: Builder, x: Handle, axis: int, before: int, after: int) -> Handle:
    """Add `before` and `after` reflected elements at the ends of an axis of known length. If both are 0, return x.

    A row has the elements of x at one index of this axis and of all axes before it.

    - For rows of `_ROW_ELEMENTS` elements or more, a GATHER gives all rows of the result.
    - For shorter rows, a GATHER gives only the reflected rows, and these are concatenated with x. This is faster.
    """
    if not before and not after:
        return x
    indices = _source_indices(builder, x.dims[axis], before, after, "reflect").array
    if _known_elements(x.dims[axis + 1 :]) >= _ROW_ELEMENTS:
        return gathering.gather(builder, x, Handle.of(indices), axis)
    reflected_indices = (indices[:before], indices[len(indices) - after :])
    first, last = (
        [gathering.gather(builder, x, Handle.of(part), axis)] if part.size else [] for part in reflected_indices
    )
    parts = [*first, x, *last]
    return joining.concatenate(builder, parts[0], parts[1:], axis)


def _source_indices(
    builder: Builder, length: Union[int, Handle], before: Union[int, Handle], after: Union[int, Handle], mode: str
) -> Handle:
    """Return an int32 vector: for each position of a padded axis, the index of its source element before padding.

    `mode` is edge, reflect or wrap: length 3, before 2, after 0, reflect -> [2, 1, 0, 1, 2]. If `length`, `before` and
    `after` are ints, the result is a constant.
    """
    if isinstance(length, int) and isinstance(before, int) and isinstance(after, int):
        numpy_mode: Any = mode  # numpy has the same names of modes
        return Handle.of(np.pad(np.arange(length, dtype=np.int32), (before, after), numpy_mode))
    size, first, last = (runtime_sizes.scalar(builder, value) for value in (length, before, after))
    count = elementwise.add(builder, elementwise.add(builder, first, size), last)
    position = elementwise.sub(builder, counting.count_to(builder, count), first)
    end = elementwise.sub(builder, size, builder.like(size, 1))
    if mode == "edge":
        return extremes.minimum(builder, end, extremes.maximum(builder, builder.like(size, 0), position))
    if mode == "wrap":
        return division.mod(builder, position, size)
    period = extremes.maximum(builder, builder.like(size, 1), elementwise.mul(builder, end, builder.like(end, 2)))
    periodic = division.mod(builder, position, period)
    return extremes.minimum(builder, periodic, elementwise.sub(builder, period, periodic))


def _known_elements(dims: Sequence[Any]) -> int:
    """Return the product of the known sizes; unknown sizes count as 1."""
    return int(np.prod([size for size in dims if isinstance(size, int)]))


def _mirrors(x: Handle, low: Sequence[int], high: Sequence[int]) -> bool:
    """Whether MIRROR_PAD, or a GATHER at known indices along each axis, can reflect x.

    `low` and `high` have the numbers of elements to add before and after each axis. True if the rank is at most 5, and
    the size of each padded axis is known and exceeds both numbers of this axis.
    """
    padded = [(max(a, b), size) for a, b, size in zip(low, high, x.dims) if a or b]
    return x.rank <= 5 and all(isinstance(size, int) and most < size for most, size in padded)

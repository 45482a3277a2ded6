"""Slices. All kernels take five axes; for more, adjacent axes that stay whole are merged."""

from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Extent, Sizes, is_equal, is_nonnegative
from onnx_compat_tflite.emitter import reshaping
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive, register
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle, Size

__all__ = [
    "add_slice",
    "add_strided_slice",
    "merge_unchanged_axes",
    "reverse",
    "slice_axis",
    "slice_known",
    "slice_tensor",
]

_OPEN_END = 2**31 - 1  # an end beyond every axis


def merge_unchanged_axes(changes: Sequence[bool]) -> List[List[int]]:
    """Return the axes in groups, in order: adjacent axes that do not change form a group.

    `changes` tells for each axis whether it changes. An axis that changes forms a group of its own:
    [False, False, True, True] -> [[0, 1], [2], [3]].
    """
    runs: List[List[int]] = []
    for axis, is_changed in enumerate(changes):
        if runs and not is_changed and not changes[runs[-1][-1]]:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def slice_tensor(builder: Builder, x: Handle, starts: Sizes, ends: Sizes, steps: Sequence[int]) -> Handle:
    """Slice x along all axes by SLICE or STRIDED_SLICE.

    `starts`, `ends` and `steps` have an entry for each axis, with the rules of numpy. Raises UnsupportedError if the
    kernel does not accept the rank, or neither x's dtype nor a wider dtype.
    """
    begin, end = starts.known, ends.known
    if x.is_constant:
        x = builder.graph.copy(x)
    if begin is not None and end is not None:
        return slice_known(builder, x, begin, end, steps)
    dims = builder.out.shape
    if begin is not None and x.rank <= 5:
        sizes = [size for size in map(_slice_size, x.dims, begin, ends.dims) if size is not None]
        if len(sizes) == x.rank and all(step == 1 for step in steps):
            return add_slice(builder, x, builder.ints(*begin), builder.ints(*sizes), dims)
        known_ends = [stop for stop in map(_slice_end, x.dims, ends.dims, steps) if stop is not None]
        if len(known_ends) == x.rank:
            return _slice_between(builder, x, begin, known_ends, steps, dims)
    return add_strided_slice(builder, x, starts.tensor, ends.tensor, steps, dims)


register("slice", slice_tensor)


def slice_known(builder: Builder, x: Handle, begin: Sequence[int], end: Sequence[int], steps: Sequence[int]) -> Handle:
    """Slice x by known bounds. `begin`, `end` and `steps` have a number for each axis, with the rules of numpy.

    The op is SLICE if x is static, all steps are 1 and no start is negative. Otherwise the op is STRIDED_SLICE. For
    SLICE, no start may lie beyond the end of its axis.

    For a static x of rank above 5, adjacent axes that are not sliced are merged first. Raises UnsupportedError if the
    kernel does not accept the rank that remains.
    """
    dims = [_slice_length(*along) for along in zip(x.dims, begin, end, steps)]
    is_changed = [not is_equal(a, b) if a is not None and b is not None else True for a, b in zip(x.dims, dims)]
    is_changed = [changes or step != 1 for changes, step in zip(is_changed, steps)]
    if x.rank > 5 and x.is_static:
        runs = merge_unchanged_axes(is_changed)
        sizes = [int(np.prod([x.dims[axis] for axis in run])) for run in runs]
        ends = [end[run[0]] if len(run) == 1 else size for run, size in zip(runs, sizes)]
        begins, strides = ([bounds[run[0]] for run in runs] for bounds in (begin, steps))
        if len(runs) < x.rank:
            merged = reshaping.reshape_to(builder, x, sizes)
            return reshaping.reshape_to(builder, slice_known(builder, merged, begins, ends, strides), dims)
    if x.is_static and all(step == 1 for step in steps) and min(begin, default=0) >= 0:
        return add_slice(builder, x, builder.ints(*begin), builder.ints(*dims), dims)
    return _slice_between(builder, x, begin, end, steps, dims)


def _slice_between(
    builder: Builder, x: Handle, begin: Sequence[int], end: Sequence[int], steps: Sequence[int], dims: Sequence[Any]
) -> Handle:
    """Emit STRIDED_SLICE with known bounds; `dims` are the sizes of the result.

    The bounds are first adjusted by `_slice_bounds`: XNNPACK of 2.14 ends the process for a bound beyond the axis.
    """
    spans = [_slice_bounds(*along) for along in zip(x.dims, begin, end, steps)]
    mask = sum(1 << axis for axis, (_, last) in enumerate(spans) if last == _OPEN_END and steps[axis] > 0)
    first, last = ([bounds[k] for bounds in spans] for k in (0, 1))
    return add_strided_slice(builder, x, builder.ints(*first), builder.ints(*last), steps, dims, end_mask=mask)


@widen_for("SLICE")
def add_slice(builder: Builder, x: Handle, begin: Handle, sizes: Handle, dims: Sequence[Any]) -> Handle:
    """Emit SLICE of x: `begin` and `sizes` are vectors with a start and a length for each axis.

    A length of -1 means up to the end of the axis. `dims` are the sizes of the result. Raises UnsupportedError if the
    kernel does not accept the rank of x, or neither x's dtype nor a wider dtype.
    """
    if x.rank > 5:
        builder.demand("SLICE", x.dtype, "rank 6")
    return builder.add_op("SLICE", [x, begin, sizes], x.dtype, dims)


@widen_for("STRIDED_SLICE")
def add_strided_slice(
    builder: Builder, x: Handle, begin: Handle, end: Handle, steps: Sequence[int], dims: Sequence[Any], **masks: int
) -> Handle:
    """Emit STRIDED_SLICE of x: `begin` and `end` are integer vectors, and `steps` has an int for each axis.

    `masks` are options, for example `end_mask`. `dims` are the sizes of the result.

    Raises UnsupportedError if the kernel does not accept the rank of x, or neither x's dtype nor a wider dtype.
    """
    if x.rank > 5:
        builder.demand("STRIDED_SLICE", x.dtype, "rank 6")
    return builder.add_op("STRIDED_SLICE", [x, begin, end, builder.ints(*steps)], x.dtype, dims, **masks)


def slice_axis(builder: Builder, x: Handle, axis: int, start: int, stop: int) -> Handle:
    """Return x[start:stop] along an axis, for 0 <= start <= stop <= length. A constant stays a constant."""
    if x.is_constant:
        return Handle.of(x.array[(slice(None),) * axis + (slice(start, stop),)])
    begin, size = [0] * x.rank, [-1] * x.rank
    begin[axis], size[axis] = start, stop - start
    dims = x.dims[:axis] + (stop - start,) + x.dims[axis + 1 :]
    return add_slice(builder, x, builder.ints(*begin), builder.ints(*size), dims)


@primitive
def reverse(builder: Builder, x: Handle, axes: Sequence[int]) -> Handle:
    """Reverse x along `axes` by a single STRIDED_SLICE with negative steps; above rank 5 by `slice_known`."""
    steps = [-1 if axis in axes else 1 for axis in range(x.rank)]
    before_start = -(2**31) + 1
    begin = [-1 if axis in axes else 0 for axis in range(x.rank)]
    end = [before_start if axis in axes else 2**31 - 1 for axis in range(x.rank)]
    if x.rank > 5:
        return slice_known(builder, x, begin, end, steps)
    return add_strided_slice(builder, x, builder.ints(*begin), builder.ints(*end), steps, x.dims)


def _slice_size(extent: Size, begin: int, end: Size) -> Optional[int]:
    """Return the length of a slice with step 1 for the op SLICE. `extent` is the length of the axis.

    - If `extent` and `end` are ints and 0 <= begin <= end <= extent, returns end - begin.
    - If `extent` is symbolic, `begin` is 0 and `end` provably equals `extent`, returns -1: the axis stays whole.
    - Otherwise returns None.
    """
    if isinstance(extent, int) and isinstance(end, int) and 0 <= begin <= end <= extent:
        return end - begin
    return -1 if begin == 0 and extent is not None and end is not None and is_equal(extent, end) else None


def _slice_end(extent: Size, end: Extent, step: int) -> Optional[int]:
    """Return the end of a slice as an int that is right for every length of the axis. `extent` is this length.

    - If `end` is an int, returns `end`.
    - If `step` is positive and `end` is `extent` less a known number, returns the negative number: n - 2 -> -2. If the
      number is 0, returns `_OPEN_END`, which stands for the end of the axis.
    - Otherwise returns None, also for a symbolic `end` that may be negative.
    """
    if isinstance(end, int):
        return end
    if step < 0 or extent is None or not is_nonnegative(end):
        return None
    remainder = extent - end
    return None if not isinstance(remainder, int) or remainder < 0 else -remainder or _OPEN_END


def _slice_bounds(size: Size, begin: int, end: int, step: int) -> Tuple[int, int]:
    """Return the bounds (begin, end) of a slice along an axis, adjusted for STRIDED_SLICE. `size` is the axis length.

    - If the step is positive and `size` is an int, the bounds are clamped to 0 ... `size`.
    - If the step is positive and the end is then 0, the slice is empty, and the bounds are (1, 1).
    - Otherwise the bounds are unchanged, also for a negative step.
    """
    if step > 0 and isinstance(size, int):
        begin, end = slice(begin, end).indices(size)[:2]
    # An empty slice: XNNPACK from LiteRT 2.0 on reads an end of 0 as the end of the axis.
    return (1, 1) if step > 0 and end == 0 else (begin, end)


def _slice_length(extent: Size, begin: int, end: int, step: int) -> Any:
    """Return the number of elements of a slice of an axis. `extent` is the length of the axis.

    - If `extent` is an int, the result is an int.
    - If `begin` is 0, `end` is 2^31 - 1 and `step` is 1, the slice is the whole axis, and the result is `extent`.
    - Otherwise the result is None.
    """
    if isinstance(extent, int):
        return len(range(*slice(begin, None if step < 0 and end < -extent else end, step).indices(extent)))
    if step == 1 and begin == 0 and end == 2**31 - 1:
        return extent
    return None

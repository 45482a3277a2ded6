"""Primitives that reshape, reorder, repeat, join or slice tensors."""

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.shim import Extent, Sizes, is_equal, is_nonnegative
from onnx_compat_tflite.emitter import narrowing
from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.broadcast import is_viewable, product
from onnx_compat_tflite.emitter.elementary_functions import ElementaryFunctions
from onnx_compat_tflite.subgraph_builder import Handle, Size

__all__ = ["Shape"]

_OPEN_END = 2**31 - 1  # an end beyond every axis


def _merge_unchanged_axes(changes: Sequence[bool]) -> List[List[int]]:
    """Group the axes: adjacent axes that do not change form a group."""
    runs: List[List[int]] = []
    for axis, is_changed in enumerate(changes):
        if runs and not is_changed and not changes[runs[-1][-1]]:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


class Shape(ElementaryFunctions):
    """Emit primitives that move elements. All kernels take five axes; for more, axes that move together are merged."""

    # -- shape and order of axes ---------------------------------------------------------------------------------------
    def reshape(self, x: Handle, sizes: Sizes) -> Handle:
        if sizes.known is not None:
            return self.reshape_to(x, sizes.known)
        if x.is_constant:
            x = self.graph.copy(x)
        fixed = sizes.with_wildcard
        shape = sizes.tensor if fixed is None else self.ints(*fixed)
        return self.add_op("RESHAPE", [x, shape], x.dtype, self.out.shape)

    def transpose(self, x: Handle, perm: Sequence[int]) -> Handle:
        if x.is_constant:
            return Handle.of(x.array.transpose(perm))
        if list(perm) == sorted(perm):
            return x
        if x.is_static and 0 in x.dims:  # nothing to move, and older kernels divide by the first size
            return self.reshape_to(x, [x.dims[axis] for axis in perm])
        if len(perm) > 5 and is_viewable(x.dims):
            return self._transpose_merged(x, perm)
        return self._add_transpose(x, tuple(perm))

    @widen_for("TRANSPOSE")
    def _add_transpose(self, x: Handle, perm: Sequence[int]) -> Handle:
        if len(perm) > 5:
            self.demand("TRANSPOSE", x.dtype, "rank %d" % len(perm))
        return self.add_op("TRANSPOSE", [x, self.ints(*perm)], x.dtype, [x.dims[axis] for axis in perm])

    def _transpose_merged(self, x: Handle, perm: Sequence[int]) -> Handle:
        """Transpose with axes of length 1 dropped, and axes that stay adjacent merged."""
        groups: List[List[int]] = []
        for axis in perm:
            if is_equal(x.dims[axis], 1):
                continue
            if (
                groups
                and all(is_equal(x.dims[k], 1) for k in range(groups[-1][-1] + 1, axis))
                and groups[-1][-1] < axis
            ):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        order = sorted(groups)
        merged = self.reshape_to(x, [product([x.dims[axis] for axis in group]) for group in order])
        order_of_groups = [order.index(group) for group in groups]
        if len(order_of_groups) > 5 and not self.accepts("TRANSPOSE", x.dtype, "rank %d" % len(order_of_groups)):
            transposed = self._transpose_stepwise(merged, order_of_groups)
        else:
            transposed = self._add_transpose(merged, tuple(order_of_groups)) if len(order_of_groups) > 1 else merged
        return self.reshape_to(transposed, [x.dims[axis] for axis in perm])

    def _transpose_stepwise(self, x: Handle, perm: Sequence[int]) -> Handle:
        """Move the axis that comes second behind the first, then transpose the rest with the two merged.

        The first step has at most four groups of axes.
        """
        first, second = perm[:2]
        order = [axis for axis in range(x.rank) if axis != second]
        order.insert(order.index(first) + 1, second)
        return self.transpose(self.transpose(x, order), [order.index(axis) for axis in perm])

    def broadcast_to(self, x: Handle, sizes: Sizes) -> Handle:
        known = sizes.known
        target = self.ints(*known) if known is not None else sizes.tensor
        if x.dtype == "string":
            return self._tile_text(x, known, target)
        if x.rank == 0 and self.accepts("FILL", x.dtype) and not (known is not None and int(np.prod(known)) <= 64):
            return self.add_op("FILL", [target, x], x.dtype, self.out.shape)
        if len(sizes) > 6 and known is not None:
            return self._broadcast_merged(x, known)
        return self.broadcast(x, target, self.out.shape if known is None else known)

    def _broadcast_merged(self, x: Handle, sizes: Sequence[int]) -> Handle:
        """Broadcast with adjacent axes merged that are not repeated."""
        full = (1,) * (len(sizes) - x.rank) + x.dims
        runs = _merge_unchanged_axes([source_size != target_size for source_size, target_size in zip(full, sizes)])
        narrow, wide = ([int(np.prod([dims[axis] for axis in run])) for run in runs] for dims in (full, sizes))
        return self.reshape_to(self.broadcast(self.reshape_to(x, narrow), self.ints(*wide), wide), sizes)

    def _tile_text(self, x: Handle, known: Optional[Sequence[int]], target: Handle) -> Handle:
        """Broadcast strings by TILE: each axis is repeated target size / size times."""
        dims = self.out.shape
        if known is None or not x.is_static:
            leading_ones = self.ints(*[1] * (len(dims) - x.rank))
            source_shape = (
                self.shape_tensor(x)
                if len(dims) == x.rank
                else self._concatenate(leading_ones, [self.shape_tensor(x)], 0)
            )
            repeats = self.elementwise("FLOOR_DIV", [target, self.maximum(self.like(source_shape, 1), source_shape)])
            return self._add_tile(
                self.add_op("RESHAPE", [x, source_shape], x.dtype, (None,) * len(dims)), repeats, dims
            )
        full = (1,) * (len(known) - x.rank) + x.dims
        repeats = self.ints(*[target_size if source_size == 1 else 1 for source_size, target_size in zip(full, known)])
        return self._add_tile(self.reshape_to(x, full), repeats, known)

    # -- joining -----------------------------------------------------------------------------------------------------------
    def concat(self, xs: Sequence[Handle], axis: int) -> Handle:
        parts = [x for x in xs if not (isinstance(x.dims[axis], int) and x.dims[axis] == 0)] or list(xs[:1])
        if len(parts) == 1:
            return parts[0]
        return self._concatenate(parts[0], parts[1:], axis)

    @widen_for("CONCATENATION")
    def _concatenate(self, first: Handle, other_parts: Sequence[Handle], axis: int) -> Handle:
        parts = [first, *other_parts]
        dims: List[Any] = list(first.dims)
        lengths = [part.dims[axis] for part in parts]
        dims[axis] = sum(lengths) if all(isinstance(length, int) for length in lengths) else None
        return self.add_op("CONCATENATION", parts, first.dtype, dims, axis=axis)

    def tile(self, x: Handle, sizes: Sizes) -> Handle:
        repeats = self.ints(*sizes.known) if sizes.known is not None else sizes.tensor
        return self._add_tile(x, repeats, self.out.shape)

    @widen_for("TILE")
    def _add_tile(self, x: Handle, repeats: Handle, dims: Sequence[Any]) -> Handle:
        return self.add_op("TILE", [x, repeats], x.dtype, dims)

    # -- slicing -------------------------------------------------------------------------------------------------------
    def slice(self, x: Handle, starts: Sizes, ends: Sizes, steps: Sequence[int]) -> Handle:
        begin, end = starts.known, ends.known
        if x.is_constant:
            x = self.graph.copy(x)
        if begin is not None and end is not None:
            return self._slice_known(x, begin, end, steps)
        dims = self.out.shape
        if begin is not None and x.rank <= 5:
            sizes = [size for size in map(_slice_size, x.dims, begin, ends.dims) if size is not None]
            if len(sizes) == x.rank and all(step == 1 for step in steps):
                return self._add_slice(x, self.ints(*begin), self.ints(*sizes), dims)
            known_ends = [stop for stop in map(_slice_end, x.dims, ends.dims, steps) if stop is not None]
            if len(known_ends) == x.rank:
                return self._slice_between(x, begin, known_ends, steps, dims)
        return self._add_strided_slice(x, starts.tensor, ends.tensor, steps, dims)

    def _slice_known(self, x: Handle, begin: Sequence[int], end: Sequence[int], steps: Sequence[int]) -> Handle:
        """Slice with known bounds, with unchanged axes merged for a rank above 5."""
        dims = [_slice_length(*along) for along in zip(x.dims, begin, end, steps)]
        is_changed = [not is_equal(a, b) if a is not None and b is not None else True for a, b in zip(x.dims, dims)]
        is_changed = [changes or step != 1 for changes, step in zip(is_changed, steps)]
        if x.rank > 5 and x.is_static:
            runs = _merge_unchanged_axes(is_changed)
            sizes = [int(np.prod([x.dims[axis] for axis in run])) for run in runs]
            ends = [end[run[0]] if len(run) == 1 else size for run, size in zip(runs, sizes)]
            parts = self.reshape_to(x, sizes), [begin[run[0]] for run in runs], ends, [steps[run[0]] for run in runs]
            if len(runs) < x.rank:
                return self.reshape_to(self._slice_known(*parts), dims)
        if x.is_static and all(step == 1 for step in steps) and min(begin, default=0) >= 0:
            return self._add_slice(x, self.ints(*begin), self.ints(*dims), dims)
        return self._slice_between(x, begin, end, steps, dims)

    def _slice_between(
        self, x: Handle, begin: Sequence[int], end: Sequence[int], steps: Sequence[int], dims: Sequence[Any]
    ) -> Handle:
        """Append STRIDED_SLICE with known bounds, clamped to known axes: XNNPACK of 2.14 ends the process otherwise."""
        spans = [_slice_bounds(*along) for along in zip(x.dims, begin, end, steps)]
        mask = sum(1 << axis for axis, (_, last) in enumerate(spans) if last == _OPEN_END and steps[axis] > 0)
        first, last = ([bounds[k] for bounds in spans] for k in (0, 1))
        return self._add_strided_slice(x, self.ints(*first), self.ints(*last), steps, dims, end_mask=mask)

    @widen_for("SLICE")
    def _add_slice(self, x: Handle, begin: Handle, sizes: Handle, dims: Sequence[Any]) -> Handle:
        if x.rank > 5:
            self.demand("SLICE", x.dtype, "rank 6")
        return self.add_op("SLICE", [x, begin, sizes], x.dtype, dims)

    @widen_for("STRIDED_SLICE")
    def _add_strided_slice(
        self, x: Handle, begin: Handle, end: Handle, steps: Sequence[int], dims: Sequence[Any], **masks: int
    ) -> Handle:
        if x.rank > 5:
            self.demand("STRIDED_SLICE", x.dtype, "rank 6")
        return self.add_op("STRIDED_SLICE", [x, begin, end, self.ints(*steps)], x.dtype, dims, **masks)

    def slice_axis(self, x: Handle, axis: int, start: int, stop: int) -> Handle:
        """Return x[start:stop] along an axis, for known bounds."""
        if x.is_constant:
            return Handle.of(x.array[(slice(None),) * axis + (slice(start, stop),)])
        begin, size = [0] * x.rank, [-1] * x.rank
        begin[axis], size[axis] = start, stop - start
        dims = x.dims[:axis] + (stop - start,) + x.dims[axis + 1 :]
        return self._add_slice(x, self.ints(*begin), self.ints(*size), dims)

    def reverse(self, x: Handle, axes: Sequence[int]) -> Handle:
        """Reverse axes by slices with negative steps: all axes at once, for every dtype that has a STRIDED_SLICE."""
        steps = [-1 if axis in axes else 1 for axis in range(x.rank)]
        before_start = -(2**31) + 1
        begin = [-1 if axis in axes else 0 for axis in range(x.rank)]
        end = [before_start if axis in axes else 2**31 - 1 for axis in range(x.rank)]
        return (
            self._slice_known(x, begin, end, steps)
            if x.rank > 5
            else self._add_strided_slice(x, self.ints(*begin), self.ints(*end), steps, x.dims)
        )

    # -- counting ------------------------------------------------------------------------------------------------------------
    def arange(self, start: Handle, stop: Handle, step: Handle) -> Handle:
        """Count the elements in int32, then scale: the kernel adds the step repeatedly, and sums up its rounding."""
        distance = stop if _is_number(start, 0) else self.sub(stop, start)
        if np.dtype(start.dtype).kind == "f":
            steps = self.ceil(self.div(distance, step))
        else:
            steps = distance if _is_number(step, 1) else self.neg(self.floordiv(self.neg(distance), step))
        if narrowing.may_overflow(steps):
            count = narrowing.narrow_checked(self, self.maximum(self.like(steps, 0), steps))
        else:
            count = self.to(steps, "int32")
            count = count if count.is_constant else self.maximum(self.like(count, 0), count)
        indices = self.count_to(count)
        scaled = (
            self.mul(self.to(indices, start.dtype), step) if not _is_number(step, 1) else self.to(indices, start.dtype)
        )
        return scaled if _is_number(start, 0) else self.add(scaled, start)

    def count_to(self, length: Union[int, Handle]) -> Handle:
        """Return 0, 1, ..., length - 1 in int32."""
        if isinstance(length, int):
            return Handle.of(np.arange(length, dtype=np.int32))
        if length.is_constant:
            return Handle.of(np.arange(max(int(length.array), 0), dtype=np.int32))
        zero, unit = (Handle.of(np.asarray(number, np.int32)) for number in (0, 1))
        return self.add_op("RANGE", [zero, length, unit], "int32", (None,))


def _is_number(x: Handle, number: int) -> bool:
    """Whether x is a constant whose elements all equal the number."""
    return x.is_constant and bool((x.array == number).all())


def _slice_size(extent: Size, begin: int, end: Size) -> Optional[int]:
    """Return the number of elements of a slice; -1 for an axis of unknown length that stays whole; None if unknown."""
    if isinstance(extent, int) and isinstance(end, int) and 0 <= begin <= end <= extent:
        return end - begin
    return -1 if begin == 0 and extent is not None and end is not None and is_equal(extent, end) else None


def _slice_end(extent: Size, end: Extent, step: int) -> Optional[int]:
    """Return the end of a slice as an integer that holds for every length of the axis; None if there is no such
    integer.
    """
    if isinstance(end, int):
        return end
    if step < 0 or extent is None or not is_nonnegative(end):
        return None
    remainder = extent - end
    return None if not isinstance(remainder, int) or remainder < 0 else -remainder or _OPEN_END


def _slice_bounds(size: Size, begin: int, end: int, step: int) -> Tuple[int, int]:
    """Return the bounds of a slice, clamped if it runs forward along an axis of known length."""
    if step > 0 and isinstance(size, int):
        begin, end = slice(begin, end).indices(size)[:2]
    # An empty slice: XNNPACK from LiteRT 2.0 on reads an end of 0 as the end of the axis.
    return (1, 1) if step > 0 and end == 0 else (begin, end)


def _slice_length(extent: Size, begin: int, end: int, step: int) -> Any:
    """Return the number of elements of a slice; None if the length of the axis is not known well enough."""
    if isinstance(extent, int):
        return len(range(*slice(begin, None if step < 0 and end < -extent else end, step).indices(extent)))
    if step == 1 and begin == 0 and end == 2**31 - 1:
        return extent
    return None

"""Primitives that move, repeat, join and slice data as ONNX operators."""

from typing import Any, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.ir.dims import is_equal, is_static
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.initializer import Constant
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.base import WRAPPING
from onnx_compat.onnx_shim.lowering.division import DivisionLowering
from onnx_compat.primitives.shape import FAR
from onnx_compat.shim.emission import Sizes

__all__ = ["ShapeLowering", "constant_of"]


class ShapeLowering(DivisionLowering):
    """The primitives of `onnx_compat.primitives.shape`."""

    def reshape(self, x: Value, shape: Sizes) -> Value:
        form = shape.with_wildcard
        if form is not None and 0 not in form:
            return self.reshape_elements(x, form, _static_sizes(shape.dims))
        if shape.known is not None:  # without elements: a size of 0 would stand for the size of x
            return self.builder.constant(np.zeros(shape.known, x.dtype.numpy), x.dtype)
        sizes = self.sizes_value(shape)
        results = self.attempt("Reshape", [x], [sizes], WRAPPING, shape=shape.dims, allowzero=1)
        return self.call("Reshape", [x], [sizes], WRAPPING, shape=shape.dims) if results is None else results

    def with_sizes(self, x: Value, sizes: Sequence[Any], shape: Sequence[Any]) -> Value:
        """Return x reshaped to `sizes`: ints and int64 scalars. One int may be -1, for the size that remains.

        `shape`: the sizes of the result, with None for each size that is not known.
        """
        vector = self.shape_vector(sizes)
        if vector.array is not None and 0 in vector.array:
            return self.builder.constant(np.zeros(vector.array, x.dtype.numpy), x.dtype)
        if vector.array is None:
            results = self.attempt("Reshape", [x], [vector], WRAPPING, shape=shape, allowzero=1)
            if results is not None:
                return results
            if any(isinstance(size, int) and size == 0 for size in sizes):  # an older Reshape copies a size of x
                return self.expand(self.scalar("" if x.dtype.kind == "s" else 0, x.dtype), sizes)
            return self.call("Reshape", [x], [vector], WRAPPING, shape=shape)
        return self.reshape_elements(x, vector.array.tolist(), shape)

    def shaped_like(self, flat: Value, x: Value) -> Value:
        """Return the elements of a vector in the shape of another value."""
        if x.rank == 1:
            return flat
        return self.with_sizes(flat, [self.dim(x, axis) for axis in range(x.rank)], x.shape)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        if x.array is not None:
            return self.builder.constant(x.array.transpose(perm), x.dtype)
        return self.call("Transpose", [x], ladder=WRAPPING, shape=[x.shape[axis] for axis in perm], perm=list(perm))

    def broadcast_to(self, x: Value, shape: Sizes) -> Value:
        return self.call("Expand", [x], [self.sizes_value(shape)], WRAPPING, shape=shape.dims)

    def expand(self, x: Value, shape: Sequence[Any]) -> Value:
        """Return a value broadcast to a shape of ints and int64 scalars."""
        sizes = [size if isinstance(size, int) else None for size in shape]
        return self.call("Expand", [x], [self.shape_vector(shape)], WRAPPING, shape=sizes)

    def shape_vector(self, sizes: Sequence[Any]) -> Value:
        """Return a list of ints and int64 scalars as a vector."""
        return self.stack([self.scalar(size, dtypes.int64) for size in sizes]) if sizes else self.vector([])

    def concat(self, xs: Sequence[Value], axis: int) -> Value:
        sizes = [x.shape[axis] for x in xs]
        shape = list(xs[0].shape)
        shape[axis] = None if None in sizes else sum(size or 0 for size in sizes)
        return self.call("Concat", list(xs), ladder=WRAPPING, shape=shape, axis=axis)

    def append_number(self, x: Value, number: Any, axis: int) -> Value:
        """Return x with one more entry at the end of an axis. `number`: the value of its elements."""
        sizes = [self.dim(x, k) if k != axis else 1 for k in range(x.rank)]
        return self.concat([x, self.expand(self.scalar(number, x.dtype), sizes)], axis)

    # -- slices --------------------------------------------------------------------------------------------------------
    def slice(self, x: Value, starts: Sizes, ends: Sizes, steps: Sequence[int]) -> Value:
        axes = [axis for axis in range(x.rank) if not self._is_whole(x, starts, ends, steps, axis)]
        if not axes:
            return x
        shape = [_length(x.shape[k], starts.dims[k], ends.dims[k], steps[k]) for k in range(x.rank)]
        bounds = [starts.also([sizes.dims[axis] for axis in axes]) for sizes in (starts, ends)]
        first, last = map(self.sizes_value, bounds)
        strides = [steps[axis] for axis in axes]
        rest = [first, last, self.vector(axes), self.vector(strides)]
        results = self.attempt("Slice", [x], rest, WRAPPING, shape=shape)
        return self._take_slices(x, starts, ends, steps, axes) if results is None else results

    def slice_axis(self, x: Value, axis: int, start: int, end: int, step: int) -> Value:
        """Return the elements from `start` to before `size + end` of an axis, in steps of `step`.

        `end` is negative, or 0 for the end of the axis. `start` and `step` are not negative.
        """
        size = x.shape[axis]
        length = None if size is None else len(range(start, size + end, step))
        rest = [self.vector([number]) for number in (start, end or 2**31 - 1, axis, step)]
        shape = [length if k == axis else n for k, n in enumerate(x.shape)]
        results = self.attempt("Slice", [x], rest, WRAPPING, shape=shape)
        if results is not None:
            return results
        if size is not None:
            return self.gather(x, self.vector(np.arange(start, size + end, step)), axis)
        first, last = (self.scalar(number, dtypes.int64) for number in (start, end or 2**31 - 1))
        length_value = self.scalar(self.dim(x, axis), dtypes.int64)
        return self.gather(x, self._indices_of_slice(length_value, first, last, step), axis)

    @staticmethod
    def _is_whole(x: Value, starts: Sizes, ends: Sizes, steps: Sequence[int], axis: int) -> bool:
        is_full = is_equal(ends.dims[axis], x.shape[axis]) and x.shape[axis] is not None
        return steps[axis] == 1 and is_equal(starts.dims[axis], 0) and is_full

    def _take_slices(self, x: Value, starts: Sizes, ends: Sizes, steps: Sequence[int], axes: Sequence[int]) -> Value:
        """Return a slice of x by a Gather along each of `axes`, for opset 9.

        The Slice of opset 9 has neither steps nor computed bounds.
        """
        for axis in axes:
            length = self.scalar(self.dim(x, axis), dtypes.int64)
            first, last = (self.scalar(sizes.scalars[axis], dtypes.int64) for sizes in (starts, ends))
            x = self.gather(x, self._indices_of_slice(length, first, last, steps[axis]), axis)
        return x

    def _indices_of_slice(self, length: Value, first: Value, last: Value, step: int) -> Value:
        """Return the indices that the slice `first:last:step` of an axis selects, by Python's rules.

        The result is an int64 vector. `length`, the length of the axis, `first` and `last` are int64 scalars.
        """
        zero, unit = self.scalar(0, dtypes.int64), self.scalar(1, dtypes.int64)
        low, high = (zero, length) if step > 0 else (self.neg(unit), self.sub(length, unit))
        bounds = []
        for bound in (first, last):
            shifted = self.where(self.less(bound, zero), self.add(bound, length), bound)
            bounds.append(self.minimum(self.maximum(shifted, low), high))
        stride = self.scalar(step, dtypes.int64)
        distance = self.sub(bounds[1], bounds[0])
        rounded = self.add(distance, self.scalar(step - (1 if step > 0 else -1), dtypes.int64))
        count = self.maximum(self.div(rounded, stride), zero)
        return self.add(self.mul(self.iota(count), stride), bounds[0])

    def gather(self, x: Value, indices: Value, axis: int) -> Value:
        """Return the slices of x at `indices` along an axis. The axes of `indices` take the place of the axis."""
        if x.dtype.kind == "s" and x.rank > 1 and not self.offer.is_reliable("Gather of texts"):
            return self.gather(self.flat(x), self.gather(self._positions(x), indices, axis), 0)
        shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
        return self.call("Gather", [x], [indices], WRAPPING, shape=shape, axis=axis)

    def _positions(self, x: Value) -> Value:
        """Return the position of each element of x among its flat elements, in the shape of x."""
        count = self.dim(self.flat(x), 0)
        positions = self.iota(self.scalar(count, dtypes.int64))
        return self.shaped_like(positions, x)

    def reverse(self, x: Value, axes: Sequence[int]) -> Value:
        axes = [axis for axis in axes if x.shape[axis] not in (0, 1)]
        count = len(axes)
        if not count:
            return x
        starts = [-1 if size is None else size - 1 for size in (x.shape[axis] for axis in axes)]
        bounds = [self.vector(starts), self.vector([-FAR] * count)]
        rest = [*bounds, self.vector(list(axes)), self.vector([-1] * count)]
        results = self.attempt("Slice", [x], rest, WRAPPING, shape=x.shape)
        if results is not None:
            return results
        for axis in axes:
            length = self.scalar(self.dim(x, axis), dtypes.int64)
            last = self.sub(length, self.scalar(1, dtypes.int64))
            x = self.gather(x, self.sub(last, self.iota(length)), axis)
        return x

    def tile(self, x: Value, repeats: Sizes) -> Value:
        shape = [_product(size, count) for size, count in zip(x.shape, repeats.dims)]
        results = self.attempt("Tile", [x], [self.sizes_value(repeats)], WRAPPING, shape=shape)
        if results is not None or x.dtype.kind != "s":
            return (
                self.call("Tile", [x], [self.sizes_value(repeats)], WRAPPING, shape=shape)
                if results is None
                else results
            )
        return self.gather(self.flat(x), self.tile(self._positions(x), repeats), 0)

    # -- padding -------------------------------------------------------------------------------------------------------
    def pad(self, x: Value, before: Sizes, after: Sizes, value: Value, mode: str) -> Value:
        shape = [_total(n, low, high) for n, low, high in zip(x.shape, before.dims, after.dims)]
        if mode == "constant":
            pads = self.sizes_value(before.also([*before.dims, *after.dims]))
            results = self._pad_numbers(x, pads, value, shape)
            return self._pad_by_joining(x, before, after, value) if results is None else results
        for axis in range(x.rank):
            if not (is_equal(before.dims[axis], 0) and is_equal(after.dims[axis], 0)):
                low, high = (self.scalar(sizes.scalars[axis], dtypes.int64) for sizes in (before, after))
                x = self.gather(x, self._source_indices(x, axis, low, high, mode), axis)
        return x

    def _pad_numbers(self, x: Value, pads: Value, value: Value, shape: Sequence[Any]) -> Optional[Value]:
        if x.dtype.kind == "s":
            return None
        for kind in self.kinds(x.dtype, WRAPPING):
            cast = [self.convert(x, kind), pads, self.convert(value, kind)]
            results = self.attempts("Pad", cast, [(kind, shape)], mode="constant")
            if results is not None:
                return self.convert(results[0], x.dtype)
        return None

    def _pad_by_joining(self, x: Value, before: Sizes, after: Sizes, value: Value) -> Value:
        """Return x padded with the scalar `value`, by Concat along each axis.

        It serves strings, dtypes without a Pad, and opset 9, whose Pad takes no computed pads or values.
        """
        for axis in range(x.rank):
            parts = [x]
            for position, sizes in ((0, before), (1, after)):
                if not is_equal(sizes.dims[axis], 0):
                    sides = [self.dim(x, k) if k != axis else sizes.scalars[axis] for k in range(x.rank)]
                    parts.insert(0 if position == 0 else len(parts), self.expand(value, sides))
            x = self.concat(parts, axis) if len(parts) > 1 else x
        return x

    def _source_indices(self, x: Value, axis: int, low: Value, high: Value, mode: str) -> Value:
        """Return, for each position of a padded axis, the index of the element of x that it copies.

        - low, high: the numbers of positions added at the beginning and at the end, as int64 scalars.
        - mode: "edge", "wrap" or "reflect".
        """
        length = self.scalar(self.dim(x, axis), dtypes.int64)
        zero, unit = self.scalar(0, dtypes.int64), self.scalar(1, dtypes.int64)
        positions = self.sub(self.iota(self.add(self.add(low, length), high)), low)
        last = self.sub(length, unit)
        if mode == "edge":
            return self.minimum(self.maximum(positions, zero), last)
        if mode == "wrap":
            return self.mod(positions, length)
        period = self.maximum(self.mul(last, self.scalar(2, dtypes.int64)), unit)
        folded = self.abs(self.sub(last, self.mod(positions, period)))
        return self.sub(last, folded)

    # -- ranges --------------------------------------------------------------------------------------------------------
    def iota(self, count: Value) -> Value:
        """Return the int64 vector 0, 1, … count - 1; the scalar `count` is not negative."""
        zero, unit = self.scalar(0, dtypes.int64), self.scalar(1, dtypes.int64)
        size = None if count.array is None else int(count.array)
        if size is not None:
            return self.vector(np.arange(size))
        results = self.attempt("Range", [zero, count, unit], shape=(None,))
        if results is not None:
            return results
        units = self.result(
            "ConstantOfShape", [self.flat(count)], dtypes.float32, (None,), value=constant_of(1, dtypes.float32)
        )
        return self.flat(self.result("NonZero", [units], dtypes.int64, (1, None)))

    def arange(self, start: Value, stop: Value, step: Value) -> Value:
        kind = dtypes.float64 if start.dtype.kind == "f" else dtypes.int64
        first, last, stride = (self.convert(value, kind) for value in (start, stop, step))
        results = self.attempt("Range", [first, last, stride], shape=(None,))
        if results is None:
            distance = self.sub(last, first)
            if kind is dtypes.float64:
                count = self.convert(self.ceil(self.div(distance, stride)), dtypes.int64)
            else:
                count = self.neg(self.floordiv(self.neg(distance), stride))
            indices = self.iota(self.maximum(count, self.scalar(0, dtypes.int64)))
            results = self.add(first, self.mul(self.convert(indices, kind), stride))
        return self.convert(results, start.dtype)


def constant_of(number: float, dtype: DType) -> Constant:
    """Return a number as the attribute `value` of ConstantOfShape."""
    return Constant(np.full(1, number, dtype.numpy), dtype)


def _static_sizes(dims: Sequence[Any]) -> Tuple[Optional[int], ...]:
    """Return sizes with None for each symbolic size."""
    return tuple(int(dim) if is_static(dim) else None for dim in dims)


def _length(size: Any, start: Any, end: Any, step: int) -> Optional[int]:
    if size is None or not is_static(start) or not is_static(end):
        return None
    return len(range(*slice(int(start), int(end), step).indices(int(size))))


def _product(size: Any, count: Any) -> Optional[int]:
    return None if size is None or not is_static(count) else int(size) * int(count)


def _total(size: Any, low: Any, high: Any) -> Optional[int]:
    return None if size is None or not is_static(low) or not is_static(high) else int(size) + int(low) + int(high)

"""Emitter methods for the reshape, transpose, concat, slice and pad primitives, on symbolic Keras tensors."""

from dataclasses import replace
from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from onnx_compat.shim import Extent, Ref, Sizes, UnsupportedError, dtypes, is_equal
from onnx_compat_keras.arrays.shape import INDEX_OF_MODE
from onnx_compat_keras.framework_types import Handle, Scalar
from onnx_compat_keras.functional.base import Known, storage
from onnx_compat_keras.functional.computed import Computed
from onnx_compat_keras.functional.sizes import Counted, Length
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Shape", "known_sizes"]

_FAR = 2**31 - 1
#: A float64 holds every integer up to this magnitude.
_EXACT_IN_FLOAT = 2**53
#: The slice of an axis; "backward" for the whole axis in reverse; "computed" for the positions of `slice_computed`.
_AxisSlice = Union[slice, str]


def known_sizes(sizes: Sizes) -> Optional[Tuple[int, ...]]:
    """Return the sizes as a tuple of ints. Returns None if a size is only known at run time."""
    values = sizes.scalars
    return tuple(map(int, values)) if all(isinstance(v, (int, np.integer)) for v in values) else None


class Shape(Computed):
    """Emitter methods for the primitives of `onnx_compat.primitives.shape` that Keras computes exactly."""

    def reshape(self, x: Handle, shape: Sizes) -> Handle:
        if isinstance(x, Known):
            sizes = known_sizes(shape)
            if sizes is not None:
                return Known(x.array.reshape(sizes), x.dtype)
        sizes = known_sizes(shape)
        if isinstance(x, Counted) and sizes is not None:
            return replace(x, shape=sizes)
        x = self.tensor(x)
        target = self._wildcard(shape)
        if target is None:
            moved = self._move_unit_axes(x, shape)
            if moved is not None:
                return moved
        batch = self._batch_stays(shape, x)
        if batch and len(shape) > 1:
            rest = self._wildcard(shape, 1)
            if rest is not None:
                if len(rest) == 1 and None not in x.shape[1:] and len(x.shape) > 2:
                    return self.layer("Flatten", x, data_format="channels_last")
                return self.layer("Reshape", x, target_shape=rest)
        if target is not None:
            return self.ops.reshape(x, target)
        return self._gather_rows(x, shape)

    def _move_unit_axes(self, x: Handle, shape: Sizes) -> Optional[Handle]:
        """Return x reshaped to `shape` by a squeeze and an expand_dims, if the shapes differ only in axes of length 1.

        Returns None for any other shape, and for a constant.
        """
        source = self.node.args[0]
        if not isinstance(source, Ref) or len(source.spec.shape) != len(x.shape):
            return None
        before = [(axis, size) for axis, size in enumerate(source.spec.shape) if not is_equal(size, 1)]
        after = [(axis, size) for axis, size in enumerate(shape.dims) if not is_equal(size, 1)]
        if len(before) != len(after) or not all(is_equal(a[1], b[1]) for a, b in zip(before, after)):
            return None
        unit_axes = tuple(axis for axis in range(len(x.shape)) if axis not in dict(before))
        x = self.ops.squeeze(x, axis=unit_axes) if unit_axes else x
        new = tuple(axis for axis in range(len(shape)) if axis not in dict(after))
        return self.ops.expand_dims(x, axis=new) if new else x

    def _batch_stays(self, shape: Sizes, x: Handle) -> bool:
        """Whether a reshape of x to `shape` keeps the first axis, and this axis has a symbolic size.

        Then the axis can be the batch of a Reshape or Flatten layer.
        """
        if not len(x.shape) or x.shape[0] is not None or not len(shape):
            return False
        source = self.node.args[0]
        return isinstance(source, Ref) and bool(source.spec.shape) and is_equal(source.spec.shape[0], shape.dims[0])

    def _wildcard(self, shape: Sizes, first: int = 0) -> Optional[Tuple[int, ...]]:
        """Return the sizes from axis `first` on, with -1 for a size that is only known at run time.

        Returns None if -1 would be ambiguous: two unknown sizes, or an unknown size and a zero.
        """
        values = [v if isinstance(v, (int, np.integer)) else -1 for v in shape.scalars[first:]]
        return None if values.count(-1) > 1 or (-1 in values and 0 in values) else tuple(map(int, values))

    def _gather_rows(self, x: Handle, shape: Sizes) -> Handle:
        """Return x reshaped to `shape`, which has at least one size that is only known at run time, by a gather.

        x is first reshaped to a table, whose rows have the known sizes after the last unknown size. A tensor of row
        numbers, which has the other sizes, then gathers the rows.

        Raises UnsupportedError if a size of the rows is 0, and on JAX for a size that is a computed number.
        """
        values = shape.scalars
        lead = max(k for k, value in enumerate(values) if not isinstance(value, (int, np.integer))) + 1
        width = tuple(int(value) for value in values[lead:])
        table = self.ops.reshape(x, (-1, *width))
        if any(size == 0 for size in width):
            raise UnsupportedError("a Keras model cannot reshape an empty tensor to several unknown sizes")
        positions: Any = None
        for value in values[:lead]:
            along = self.positions(value)
            if positions is None:
                positions = along
            else:
                size = (
                    int(value)
                    if isinstance(value, (int, np.integer))
                    else self.ops.cast(self.size_tensor(value), "int32")
                )
                # The vector is the first operand: Keras 3.15 on TensorFlow computes [n, k, 1] + [k] as a bias along the axis k.
                positions = self.ops.add(along, self.ops.multiply(self.ops.expand_dims(positions, -1), size))
        return self.ops.take(table, positions, axis=0)

    def transpose(self, x: Handle, perm: Sequence[int]) -> Handle:
        if isinstance(x, Known):
            return Known(x.array.transpose(perm), x.dtype)
        if perm[0] == 0 and len(perm) > 1:
            return self.layer("Permute", x, dims=tuple(perm[1:]))
        return self.ops.transpose(x, tuple(perm))

    def broadcast_to(self, x: Handle, shape: Sizes) -> Handle:
        sizes = known_sizes(shape)
        if sizes is not None:
            if isinstance(x, Known):
                return Known(np.broadcast_to(x.array, sizes), x.dtype)
            return self.ops.broadcast_to(x, sizes)
        grid, x = self._zeros_grid(shape.scalars), self.tensor(x)
        # TensorFlow's optimiser replaces where(c, x, x) by x, which may be smaller than the result.
        return self.ops.where(self.ops.equal(grid, 0), x, self.ops.zeros_like(x))

    def _zeros_grid(self, values: Sequence[Scalar]) -> Handle:
        """Return an int32 tensor of zeros with the shape `values`, for a broadcast by `where`.

        `values`: ints and `Length`s; at least one must be a `Length`. Raises UnsupportedError on JAX for a size that is
        a computed number (a `Length` of the operation "number").
        """
        grid: Any = None
        for k, value in enumerate(values):
            if isinstance(value, (int, np.integer)) and int(value) == 1:
                continue
            along = self.ops.multiply(self.positions(value), 0)
            along = self.ops.reshape(along, (-1, *[1] * (len(values) - 1 - k)))
            grid = along if grid is None else self.ops.add(grid, along)
        missing = len(values) - len(grid.shape)
        return self.ops.expand_dims(grid, tuple(range(missing))) if missing else grid

    def concat(self, xs: Sequence[Handle], axis: int) -> Handle:
        parts = [self.tensor(x) for x in xs]
        if self._can_concatenate(parts, axis):
            return self.layer("Concatenate", parts, axis=axis)
        return self.ops.concatenate(parts, axis=axis)

    def _can_concatenate(self, parts: List[Handle], axis: int) -> bool:
        """Whether a Concatenate layer can join the tensors `parts` along `axis`.

        It can join float tensors whose shapes are equal except along `axis`. An unknown size equals only another
        unknown size. Returns False in these cases:

        - `axis` is 0.
        - A tensor occurs twice in `parts`.
        - The tensors are not floats. A layer has a float policy, here float32, and declares it for its result.
        """
        if self.out.dtype.kind != "f" or len({id(part) for part in parts}) < len(parts) or axis == 0:
            return False
        rests = {tuple(size for k, size in enumerate(part.shape) if k != axis) for part in parts}
        return len(rests) == 1

    def slice(self, x: Handle, starts: Sizes, ends: Sizes, steps: Sequence[int]) -> Handle:
        x = self.tensor(x)
        key: List[Handle] = []
        for axis, (start, end, step) in enumerate(zip(starts.scalars, ends.scalars, steps)):
            if all(isinstance(bound, (int, np.integer)) for bound in (start, end)):
                part = self._axis_slice(x, axis, int(start), int(end), step)
                key.append(slice(None) if part == "computed" else part)
                if part == "computed":
                    x = self.slice_computed(x, axis, start, end, step)
                continue
            key.append(slice(None))
            from_start = is_equal(starts.dims[axis], 0) and step == 1
            if from_start and self._is_axis_length(x, axis, ends.dims[axis]):
                continue
            has_static_start = isinstance(start, (int, np.integer)) and start >= 0 and step == 1
            if has_static_start and isinstance(end, Length) and end.operation != "number":
                x = self.ops.take(x, self.positions(end), axis=axis)
                key[-1] = slice(int(start) or None, None)
            else:
                count = self.out.shape[axis] if self.node.primitive == "slice" else None
                x = self.slice_computed(x, axis, start, end, step, count if isinstance(count, int) else None)
        backward = [axis for axis, part in enumerate(key) if part == "backward"]
        key = [slice(None) if part == "backward" else part for part in key]
        x = self._flip(x, backward)
        return x if all(part == slice(None) for part in key) else cut(self.ops, x, tuple(key))

    def _is_axis_length(self, x: Handle, axis: int, end: Extent) -> bool:
        """Whether `end`, the end of a slice, is provably the length of `axis` of the node's first argument.

        Returns False if this argument is a constant.
        """
        source = self.node.args[0]
        return isinstance(source, Ref) and is_equal(source.spec.shape[axis], end)

    def _axis_slice(self, x: Handle, axis: int, start: int, end: int, step: int) -> _AxisSlice:
        """Return the slice of an axis with known bounds.

        - The whole axis in order: slice(None).
        - The whole axis in reverse order: "backward".
        - Any other negative step: "computed". The caller then uses `slice_computed`.
        - Otherwise: slice(start, end, step).
        """
        size = x.shape[axis]
        if step < 0:
            if step == -1 and (start == -1 or (size is not None and start >= size - 1)) and end <= -_FAR:
                return "backward"
            return "computed"
        if start == 0 and step == 1 and (end >= _FAR or end == size):
            return slice(None)
        return slice(start or None, None if end >= _FAR else end, None if step == 1 else step)

    def reverse(self, x: Handle, axes: Sequence[int]) -> Handle:
        return self._flip(self.tensor(x), axes)

    def _flip(self, x: Handle, axes: Sequence[int]) -> Handle:
        """Return x reversed along axes, by a flip for each axis: Keras 3.0 on TensorFlow accepts no tuple of axes."""
        for axis in axes:
            x = self.ops.flip(x, axis)
        return x

    def tile(self, x: Handle, repeats: Sizes) -> Handle:
        counts, x = known_sizes(repeats), self.tensor(x)
        if counts is not None:
            return self.ops.tile(x, counts)
        for axis, count in enumerate(repeats.scalars):
            if not isinstance(count, (int, np.integer)) or count != 1:
                x = self.tile_computed(x, axis, count)
        return x

    def pad(self, x: Handle, before: Sizes, after: Sizes, value: Handle, mode: str) -> Handle:
        low, high = known_sizes(before), known_sizes(after)
        x = self.tensor(x)
        if low is not None and high is not None and mode == "constant" and isinstance(value, Known):
            return self.pad_constant(x, list(zip(low, high)), value)
        for axis, around in enumerate(zip(before.scalars, after.scalars)):
            if any(not isinstance(size, (int, np.integer)) or size for size in around):
                size = x.shape[axis]
                if size is None or low is None or high is None or mode == "constant":
                    x = self.pad_computed(x, axis, *around, value, mode)
                    continue
                positions = INDEX_OF_MODE[mode](np.arange(-around[0], size + around[1]), size).astype(np.int32)
                x = self.ops.take(x, self.operand(Known(positions, dtypes.int32)), axis=axis)
        return x

    def pad_constant(self, x: Handle, around: Sequence[Tuple[int, int]], value: Known) -> Handle:
        """Return x with axis k padded by around[k] = (before, after) with the constant scalar `value`.

        A ZeroPadding layer pads a float image with zeros along one to three spatial axes, if the first and the last
        axis are not padded. Otherwise `keras.ops.pad` is used. Integers of any magnitude stay exact.
        """
        number = value.array.item()
        space = len(x.shape) - 2
        if not number and space in (1, 2, 3) and not any(around[0]) and not any(around[-1]) and value.dtype.kind == "f":
            inner = [tuple(map(int, pair)) for pair in around[1:-1]]
            options: Any = {} if space == 1 else {"data_format": "channels_last"}
            return self.layer("ZeroPadding%dD" % space, x, padding=inner[0] if space == 1 else tuple(inner), **options)
        widths = [tuple(map(int, pair)) for pair in around]
        if self.back_end == "torch" and isinstance(number, int) and abs(number) > _EXACT_IN_FLOAT:
            shifted = self.ops.subtract(x, self.operand(value))  # torch pads by way of a float64
            return self.ops.add(self.ops.pad(shifted, widths, constant_values=0), self.operand(value))
        return self.ops.pad(x, widths, constant_values=number)

    def arange(self, start: Handle, stop: Handle, step: Handle) -> Handle:
        plain = (
            isinstance(start, Known) and isinstance(step, Known) and (start.array.item(), step.array.item()) == (0, 1)
        )
        dtype = self.out.dtype
        if plain and isinstance(stop, Counted) and isinstance(stop.sizes[0], Length):
            return self.ops.cast(self.positions(stop.sizes[0]), storage(dtype))
        ops = self.ops
        start, stop, step = (ops.reshape(self.tensor(number), ()) for number in (start, stop, step))
        span = ops.subtract(stop, start)
        if dtype.kind == "f":
            count = ops.cast(ops.ceil(ops.divide(span, step)), "int64")
        else:
            span, stride = ops.cast(span, "int64"), ops.cast(step, "int64")
            down = ops.negative(ops.floor_divide(ops.negative(span), ops.where(ops.equal(stride, 0), 1, stride)))
            count = ops.cast(down, "int64")
        positions = self.ops.cast(self.positions(Length("number", (count,))), storage(dtype))
        return self.restore_dtype(ops.add(ops.multiply(positions, step), start))

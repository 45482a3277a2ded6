"""Moving, repeating, joining and cutting, on symbolic tensors."""

from dataclasses import replace
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Ref, UnsupportedError, dtypes, is_equal
from onnx_compat_keras.arrays.shape import PLACES
from onnx_compat_keras.functional.base import Known
from onnx_compat_keras.functional.sizes import Counted, Length, Sizing
from onnx_compat_keras.functional.slicing import cut

__all__ = ["Shape", "fixed"]

_FAR = 2**31 - 1


def fixed(sizes: Any) -> Optional[Tuple[int, ...]]:
    """Sizes as numbers, where all of them are."""
    values = sizes.scalars
    return tuple(map(int, values)) if all(isinstance(v, (int, np.integer)) for v in values) else None


class Shape(Sizing):
    """The primitives of `onnx_compat.primitives.shape`."""

    def reshape(self, x: Any, shape: Any) -> Any:
        if isinstance(x, Known):
            sizes = fixed(shape)
            if sizes is not None:
                return Known(x.array.reshape(sizes), x.dtype)
        sizes = fixed(shape)
        if isinstance(x, Counted) and sizes is not None:
            return replace(x, shape=sizes)
        x = self.tensor(x)
        target = self._wildcard(shape)
        batch = self._batch_stays(shape, x)
        if batch and len(shape) > 1:
            rest = self._wildcard(shape, 1)
            if rest is not None:
                if len(rest) == 1 and None not in x.shape[1:] and len(x.shape) > 2:
                    return self.layer("Flatten", x, data_format="channels_last")
                return self.layer("Reshape", x, target_shape=rest)
        if target is not None:
            return self.ops.reshape(x, target)
        return self._rows(x, shape)

    def _batch_stays(self, shape: Any, x: Any) -> bool:
        """Whether the first axis is the same one, of unknown length."""
        if not len(x.shape) or x.shape[0] is not None or not len(shape):
            return False
        source = self.node.args[0]
        return isinstance(source, Ref) and bool(source.spec.shape) and is_equal(source.spec.shape[0], shape.dims[0])

    def _wildcard(self, shape: Any, first: int = 0) -> Optional[Tuple[int, ...]]:
        """The sizes from one on, with -1 for at most one that is unknown; None if that cannot be told."""
        values = [v if isinstance(v, (int, np.integer)) else -1 for v in shape.scalars[first:]]
        return None if values.count(-1) > 1 or (-1 in values and 0 in values) else tuple(map(int, values))

    def _rows(self, x: Any, shape: Any) -> Any:
        """A reshape to several unknown sizes: the rows of the known trailing sizes, picked in order."""
        values = shape.scalars
        lead = max(k for k, value in enumerate(values) if not isinstance(value, (int, np.integer))) + 1
        width = tuple(int(value) for value in values[lead:])
        table = self.ops.reshape(x, (-1, *width))
        if any(size == 0 for size in width):
            raise UnsupportedError("an empty tensor is not reshaped to several unknown sizes in a Keras model")
        places: Any = None
        for value in values[:lead]:
            along = self.places(value)
            if places is None:
                places = along
            else:
                size = (
                    int(value) if isinstance(value, (int, np.integer)) else self.ops.cast(self.counted(value), "int32")
                )
                places = self.ops.add(self.ops.multiply(self.ops.expand_dims(places, -1), size), along)
        return self.ops.take(table, places, axis=0)

    def transpose(self, x: Any, perm: Sequence[int]) -> Any:
        if isinstance(x, Known):
            return Known(x.array.transpose(perm), x.dtype)
        if perm[0] == 0 and len(perm) > 1:
            return self.layer("Permute", x, dims=tuple(perm[1:]))
        return self.ops.transpose(x, tuple(perm))

    def broadcast_to(self, x: Any, shape: Any) -> Any:
        sizes = fixed(shape)
        if sizes is not None:
            if isinstance(x, Known):
                return Known(np.broadcast_to(x.array, sizes), x.dtype)
            return self.ops.broadcast_to(x, sizes)
        grid = self._grid(shape.scalars)
        return self.ops.where(self.ops.equal(grid, 0), self.tensor(x), self.tensor(x))

    def _grid(self, values: Sequence[Any]) -> Any:
        """int32 zeros of these sizes."""
        grid: Any = None
        for k, value in enumerate(values):
            if isinstance(value, (int, np.integer)) and int(value) == 1:
                continue
            along = self.ops.multiply(self.places(value), 0)
            along = self.ops.reshape(along, (-1, *[1] * (len(values) - 1 - k)))
            grid = along if grid is None else self.ops.add(grid, along)
        missing = len(values) - len(grid.shape)
        return self.ops.expand_dims(grid, tuple(range(missing))) if missing else grid

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        parts = [self.tensor(x) for x in xs]
        if self._mergeable(parts, axis):
            return self.layer("Concatenate", parts, axis=axis)
        return self.ops.concatenate(parts, axis=axis)

    def _mergeable(self, parts: List[Any], axis: int) -> bool:
        """What a Concatenate layer takes: it insists on equal shapes, as far as they are known."""
        if len({id(part) for part in parts}) < len(parts) or axis == 0:
            return False
        rests = {tuple(size for k, size in enumerate(part.shape) if k != axis) for part in parts}
        return len(rests) == 1

    def slice(self, x: Any, starts: Any, ends: Any, steps: Sequence[int]) -> Any:
        x = self.tensor(x)
        key: List[Any] = []
        for axis, (start, end, step) in enumerate(zip(starts.scalars, ends.scalars, steps)):
            if all(isinstance(bound, (int, np.integer)) for bound in (start, end)):
                key.append(self._part(x, axis, int(start), int(end), step))
                continue
            key.append(slice(None))
            if not is_equal(starts.dims[axis], 0) or step != 1:
                raise UnsupportedError("a Keras model does not cut at computed places")
            if not self._whole(x, axis, ends.dims[axis]):
                x = self.ops.take(x, self.places(end), axis=axis)
        backward = [axis for axis, part in enumerate(key) if part == "backward"]
        key = [slice(None) if part == "backward" else part for part in key]
        x = self._turned(x, backward)
        return x if all(part == slice(None) for part in key) else cut(self.ops, x, tuple(key))

    def _whole(self, x: Any, axis: int, end: Any) -> bool:
        """Whether this is the length of the axis itself."""
        source = self.node.args[0]
        return isinstance(source, Ref) and is_equal(source.spec.shape[axis], end)

    def _part(self, x: Any, axis: int, start: int, end: int, step: int) -> Any:
        """One axis of a slice with known bounds."""
        size = x.shape[axis]
        if step < 0:
            if step == -1 and (start == -1 or (size is not None and start >= size - 1)) and end <= -_FAR:
                return "backward"
            if size is None:
                raise UnsupportedError("a Keras model does not cut an unknown axis backwards")
            raise UnsupportedError("a Keras model does not cut part of an axis backwards")
        if start == 0 and step == 1 and (end >= _FAR or end == size):
            return slice(None)
        return slice(start or None, None if end >= _FAR else end, None if step == 1 else step)

    def reverse(self, x: Any, axes: Sequence[int]) -> Any:
        return self._turned(self.tensor(x), axes)

    def _turned(self, x: Any, axes: Sequence[int]) -> Any:
        """Each axis by itself: Keras 3.0 on TensorFlow takes no tuple."""
        for axis in axes:
            x = self.ops.flip(x, axis)
        return x

    def tile(self, x: Any, repeats: Any) -> Any:
        counts = fixed(repeats)
        if counts is None:
            raise UnsupportedError("a Keras model repeats a known number of times only")
        return self.ops.tile(self.tensor(x), counts)

    def pad(self, x: Any, before: Any, after: Any, value: Any, mode: str) -> Any:
        low, high = fixed(before), fixed(after)
        if low is None or high is None:
            raise UnsupportedError("a Keras model pads by known sizes only")
        x = self.tensor(x)
        if mode == "constant":
            return self.surrounded(x, list(zip(low, high)), value)
        for axis, around in enumerate(zip(low, high)):
            if any(around):
                size = x.shape[axis]
                if size is None:
                    raise UnsupportedError("a Keras model repeats the edge of known axes only")
                places = PLACES[mode](np.arange(-around[0], size + around[1]), size).astype(np.int32)
                x = self.ops.take(x, self.operand(Known(places, dtypes.int32)), axis=axis)
        return x

    def surrounded(self, x: Any, around: Sequence[Tuple[int, int]], value: Any) -> Any:
        """x with a scalar around it: a layer where it is zeros around an image."""
        if not isinstance(value, Known):
            raise UnsupportedError("a Keras model pads with a known number only")
        number = value.array.item()
        space = len(x.shape) - 2
        if not number and space in (1, 2, 3) and not any(around[0]) and not any(around[-1]) and value.dtype.kind == "f":
            inner = [tuple(map(int, pair)) for pair in around[1:-1]]
            options: Any = {} if space == 1 else {"data_format": "channels_last"}
            return self.layer("ZeroPadding%dD" % space, x, padding=inner[0] if space == 1 else tuple(inner), **options)
        return self.ops.pad(x, [tuple(map(int, pair)) for pair in around], constant_values=number)

    def arange(self, start: Any, stop: Any, step: Any) -> Any:
        plain = (
            isinstance(start, Known) and isinstance(step, Known) and (start.array.item(), step.array.item()) == (0, 1)
        )
        if plain and isinstance(stop, Counted) and isinstance(stop.sizes[0], Length):
            return self.ops.cast(self.places(stop.sizes[0]), self.out.dtype.name)
        raise UnsupportedError("a Keras model counts from zero to the length of an axis only")

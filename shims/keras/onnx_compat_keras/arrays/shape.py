"""Emitter methods for the reshape, transpose, concat, slice and pad primitives, by functions of `xp` (JAX or torch)."""

import math
from typing import Any, Callable, Dict, Sequence

import numpy as np

from onnx_compat.shim import InvalidModelError, Sizes, dtypes
from onnx_compat_keras.arrays.sizes import numbers
from onnx_compat_keras.framework_types import Array, Pads

__all__ = ["INDEX_OF_MODE", "Shape"]

#: Padding mode -> a function of (position i, length n of the axis) that returns the source index. i is 0 at the first element
#: of the unpadded axis, and negative before it.
INDEX_OF_MODE: Dict[str, Callable[[Any, int], Any]] = {
    "edge": lambda i, n: np.clip(i, 0, n - 1),
    "reflect": lambda i, n: n - 1 - np.abs(n - 1 - i % max(2 * (n - 1), 1)),
    "wrap": lambda i, n: i % n,
}


class Shape:
    """Emitter methods for the primitives of `onnx_compat.primitives.shape`."""

    xp: Any
    out: Any
    array: Any
    number: Any
    take: Any

    def reshape(self, x: Array, shape: Sizes) -> Array:
        return self.xp.reshape(x, numbers(shape))

    def transpose(self, x: Array, perm: Sequence[int]) -> Array:
        return self.xp.permute_dims(x, tuple(perm))

    def broadcast_to(self, x: Array, shape: Sizes) -> Array:
        return self.xp.broadcast_to(x, numbers(shape))

    def concat(self, xs: Sequence[Array], axis: int) -> Array:
        return self.xp.concatenate(list(xs), axis)

    def slice(self, x: Array, starts: Sizes, ends: Sizes, steps: Sequence[int]) -> Array:
        key = []
        backward = []
        for axis, (start, end, step) in enumerate(zip(numbers(starts), numbers(ends), steps)):
            if step < 0:  # take the same elements forwards, then reverse them
                selected = range(*slice(start, end, step).indices(int(x.shape[axis])))
                backward.append(axis)
                start, end, step = (selected[-1], selected[0] + 1, -step) if len(selected) else (0, 0, 1)
            key.append(slice(start, end, step))
        part = x[tuple(key)]
        return self.xp.flip(part, tuple(backward)) if backward else part

    def reverse(self, x: Array, axes: Sequence[int]) -> Array:
        return self.xp.flip(x, tuple(axes))

    def tile(self, x: Array, repeats: Sizes) -> Array:
        return self.xp.tile(x, numbers(repeats))

    def pad(self, x: Array, before: Sizes, after: Sizes, value: Array, mode: str) -> Array:
        around = list(zip(numbers(before), numbers(after)))
        if mode == "constant":
            return self.pad_constant(x, around, value)
        for axis, (low, high) in enumerate(around):
            if low or high:
                size = int(x.shape[axis])
                if size == 0:
                    raise InvalidModelError("an empty axis has no element to pad it with (mode %s)" % mode)
                positions = self.array(INDEX_OF_MODE[mode](np.arange(-low, size + high), size), dtypes.int64)
                x = self.take(x, positions, axis)
        return x

    def pad_constant(self, x: Array, around: Pads, value: Array) -> Array:
        """Return x padded with the scalar tensor `value`. `around`: for each axis the counts (before, after)."""
        raise NotImplementedError

    def arange(self, start: Array, stop: Array, step: Array) -> Array:
        dtype = self.out.dtype
        first, last, stride = self.number(start), self.number(stop), self.number(step)
        if stride == 0:
            raise InvalidModelError("a range has the step 0")
        if dtype.kind != "f":
            return self.array(np.arange(first, last, stride, dtype=dtype.numpy), dtype)
        count = max(math.ceil((last - first) / stride), 0)
        return self.array((first + np.arange(count) * stride).astype(dtype.numpy), dtype)

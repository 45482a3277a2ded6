"""Primitives in numpy that move, repeat, join and slice data of any dtype, also strings and symbolic sizes."""

import math
from typing import Any, Sequence

import numpy as np

from onnx_compat.errors import InvalidModelError
from onnx_compat.reference.arrays import Array, SizesArg

__all__ = ["Shape"]

# Padding mode -> the index of the source element at offset i of a padded axis with n elements.
_SOURCE_INDICES = {
    "edge": lambda i, n: np.clip(i, 0, n - 1),
    "reflect": lambda i, n: n - 1 - np.abs(n - 1 - i % max(2 * (n - 1), 1)),
    "wrap": lambda i, n: i % n,
}


class Shape:
    """The primitives of `onnx_compat.primitives.shape` in numpy."""

    def reshape(self, x: Array, shape: SizesArg) -> Any:
        return np.reshape(x, shape.known)

    def transpose(self, x: Array, perm: Sequence[int]) -> Any:
        return np.transpose(x, perm)

    def broadcast_to(self, x: Array, shape: SizesArg) -> Any:
        return np.broadcast_to(x, shape.known)

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return np.concatenate(xs, axis)

    def slice(self, x: Array, starts: SizesArg, ends: SizesArg, steps: Sequence[int]) -> Any:
        return x[tuple(map(slice, starts.known, ends.known, steps))]

    def reverse(self, x: Array, axes: Sequence[int]) -> Any:
        return np.flip(x, tuple(axes))

    def tile(self, x: Array, repeats: SizesArg) -> Any:
        return np.tile(x, repeats.known)

    def pad(self, x: Array, before: SizesArg, after: SizesArg, value: Array, mode: str) -> Any:
        if mode == "constant":
            shape = [low + size + high for low, size, high in zip(before.known, x.shape, after.known)]
            out = np.full(shape, value, x.dtype)
            out[tuple(slice(low, low + size) for low, size in zip(before.known, x.shape))] = x
            return out
        for axis, (low, high) in enumerate(zip(before.known, after.known)):
            if low or high:
                size = x.shape[axis]
                if size == 0:
                    raise InvalidModelError("an empty axis has no element to pad it with (mode %s)" % mode)
                x = np.take(x, _SOURCE_INDICES[mode](np.arange(-low, size + high), size), axis)
        return x

    def arange(self, start: Array, stop: Array, step: Array) -> Any:
        first, last, stride = start.item(), stop.item(), step.item()
        if stride == 0:
            raise InvalidModelError("a range has the step 0")
        if start.dtype.kind != "f":
            return np.arange(first, last, stride, dtype=start.dtype)
        count = max(math.ceil((last - first) / stride), 0)
        return (first + np.arange(count) * stride).astype(start.dtype)

"""Moving, repeating, joining and cutting."""

import math
from typing import Any, Callable, Dict, Sequence

import numpy as np

from onnx_compat.shim import InvalidModelError, dtypes
from onnx_compat_keras.arrays.sizes import numbers

__all__ = ["PLACES", "Shape"]

#: Which element stands at place i of a padded axis of length n, counted from its own first element.
PLACES: Dict[str, Callable[[Any, int], Any]] = {
    "edge": lambda i, n: np.clip(i, 0, n - 1),
    "reflect": lambda i, n: n - 1 - np.abs(n - 1 - i % max(2 * (n - 1), 1)),
    "wrap": lambda i, n: i % n,
}


class Shape:
    """The primitives of `onnx_compat.primitives.shape`."""

    xp: Any
    out: Any
    array: Any
    number: Any
    take: Any

    def reshape(self, x: Any, shape: Any) -> Any:
        return self.xp.reshape(x, numbers(shape))

    def transpose(self, x: Any, perm: Sequence[int]) -> Any:
        return self.xp.permute_dims(x, tuple(perm))

    def broadcast_to(self, x: Any, shape: Any) -> Any:
        return self.xp.broadcast_to(x, numbers(shape))

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return self.xp.concatenate(list(xs), axis)

    def slice(self, x: Any, starts: Any, ends: Any, steps: Sequence[int]) -> Any:
        key = []
        backward = []
        for axis, (start, end, step) in enumerate(zip(numbers(starts), numbers(ends), steps)):
            if step < 0:  # what a forward slice holds too, turned round
                taken = range(*slice(start, end, step).indices(int(x.shape[axis])))
                backward.append(axis)
                start, end, step = (taken[-1], taken[0] + 1, -step) if len(taken) else (0, 0, 1)
            key.append(slice(start, end, step))
        part = x[tuple(key)]
        return self.xp.flip(part, tuple(backward)) if backward else part

    def reverse(self, x: Any, axes: Sequence[int]) -> Any:
        return self.xp.flip(x, tuple(axes))

    def tile(self, x: Any, repeats: Any) -> Any:
        return self.xp.tile(x, numbers(repeats))

    def pad(self, x: Any, before: Any, after: Any, value: Any, mode: str) -> Any:
        around = list(zip(numbers(before), numbers(after)))
        if mode == "constant":
            return self.surrounded(x, around, value)
        for axis, (low, high) in enumerate(around):
            if low or high:
                size = int(x.shape[axis])
                if size == 0:
                    raise InvalidModelError("an empty axis has no element to pad it with (mode %s)" % mode)
                places = self.array(PLACES[mode](np.arange(-low, size + high), size), dtypes.int64)
                x = self.take(x, places, axis)
        return x

    def surrounded(self, x: Any, around: Sequence[Any], value: Any) -> Any:
        """x with a scalar of its dtype around it."""
        raise NotImplementedError

    def arange(self, start: Any, stop: Any, step: Any) -> Any:
        dtype = self.out.dtype
        first, last, stride = self.number(start), self.number(stop), self.number(step)
        if stride == 0:
            raise InvalidModelError("a range has the step 0")
        if dtype.kind != "f":
            return self.array(np.arange(first, last, stride, dtype=dtype.numpy), dtype)
        count = max(math.ceil((last - first) / stride), 0)
        return self.array((first + np.arange(count) * stride).astype(dtype.numpy), dtype)

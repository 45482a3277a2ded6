"""Moving, repeating, joining and cutting data."""

from typing import Any, List, Sequence

import numpy as np

from onnx_compat.shim import InvalidModelError, is_equal
from onnx_compat_tensorflow.base import Base

__all__ = ["Shape"]


class Shape(Base):
    """The primitives of `onnx_compat.primitives.shape`."""

    def reshape(self, x: Any, shape: Any) -> Any:
        sizes = shape.with_wildcard
        return self.raw.Reshape(tensor=x, shape=shape.tensor if sizes is None else self.vector(sizes))

    def transpose(self, x: Any, perm: Sequence[int]) -> Any:
        return self.op("Transpose", x, perm=self.vector(perm, self.tf.int32))

    def broadcast_to(self, x: Any, shape: Any) -> Any:
        return self.op("BroadcastTo", x, shape=shape.tensor)

    def concat(self, xs: Sequence[Any], axis: int) -> Any:
        return self.raw.ConcatV2(values=list(xs), axis=axis)

    def slice(self, x: Any, starts: Any, ends: Any, steps: Sequence[int]) -> Any:
        """What goes to the edge is said by the masks, so that only true bounds are computed."""
        sizes = self.node.args[0].spec.shape  # type: ignore[union-attr]
        begin_mask = end_mask = 0
        begin: List[Any] = [0] * len(steps)
        end: List[Any] = [0] * len(steps)
        for axis, step in enumerate(steps):
            if step > 0 and is_equal(starts.dims[axis], 0):
                begin_mask |= 1 << axis
            else:
                begin[axis] = starts.scalars[axis]
            if step > 0 and is_equal(ends.dims[axis], sizes[axis]):
                end_mask |= 1 << axis
            else:
                end[axis] = ends.scalars[axis]
        return self.raw.StridedSlice(
            input=x,
            begin=self.vector(begin),
            end=self.vector(end),
            strides=self.vector(steps),
            begin_mask=begin_mask,
            end_mask=end_mask,
        )

    def reverse(self, x: Any, axes: Sequence[int]) -> Any:
        return self.op("ReverseV2", x, axis=self.vector(axes, self.tf.int32))

    def tile(self, x: Any, repeats: Any) -> Any:
        return self.op("Tile", x, multiples=repeats.tensor)

    def pad(self, x: Any, before: Any, after: Any, value: Any, mode: str) -> Any:
        if mode == "constant":
            return self.pad_with(x, before.scalars, after.scalars, value)
        for axis, (low, high) in enumerate(zip(before.scalars, after.scalars)):
            if not (is_equal(before.dims[axis], 0) and is_equal(after.dims[axis], 0)):
                x = self._mirrored(x, axis, low, high, mode)
        return x

    def pad_with(self, x: Any, before: Sequence[Any], after: Sequence[Any], value: Any) -> Any:
        """x with so much of one value around it."""
        pairs = [size for pair in zip(before, after) for size in pair]
        paddings = self.raw.Reshape(tensor=self.vector(pairs), shape=[-1, 2])
        if all(isinstance(size, (int, np.integer)) for size in pairs):
            paddings = self.tf.constant(np.asarray(pairs, np.int32).reshape(-1, 2))
        return self.op("PadV2", x, value, paddings=paddings)

    def _mirrored(self, x: Any, axis: int, low: Any, high: Any, mode: str) -> Any:
        """An axis lengthened by copies of its own elements: at place i stands the element of an index that i gives."""
        size = self.dim(x, axis)
        if isinstance(size, int) and size == 0:
            raise InvalidModelError("an empty axis has no element to pad it with (mode %s)" % mode)
        if all(isinstance(length, (int, np.integer)) for length in (size, low, high)):
            index = self.tf.constant(_PLACES[mode](np, np.arange(-low, size + high), size))
        else:
            size, low, high = [self.vector([length])[0] for length in (size, low, high)]
            places = self.tf.range(self.raw.Neg(x=low), self.raw.AddV2(x=size, y=high))
            index = _PLACES[mode](self.tf, places, size)
        return self.raw.GatherV2(params=x, indices=index, axis=axis)

    def arange(self, start: Any, stop: Any, step: Any) -> Any:
        if not start.dtype.is_floating:
            return self.op("Range", start, stop, step)
        raw, tf = self.raw, self.tf
        first, last, stride = [raw.Cast(x=scalar, DstT=tf.float64) for scalar in (start, stop, step)]
        count = raw.Ceil(x=raw.RealDiv(x=raw.Sub(x=last, y=first), y=stride))
        zero, one = self.number(0, tf.float64), self.number(1, tf.float64)
        places = raw.Range(start=zero, limit=raw.Maximum(x=count, y=zero), delta=one)
        return raw.Cast(x=raw.AddV2(x=first, y=raw.Mul(x=places, y=stride)), DstT=start.dtype)


# Which element stands at place i of a padded axis of length n, counted from its own first element; by numpy or by tf.
_PLACES = {
    "edge": lambda xp, i, n: xp.minimum(xp.maximum(i, 0), n - 1),
    "reflect": lambda xp, i, n: n - 1 - xp.abs(n - 1 - i % xp.maximum(2 * (n - 1), 1)),
    "wrap": lambda xp, i, n: i % n,
}

"""Emitter methods for the reshape, transpose, concat, slice and pad primitives, on TensorFlow tensors."""

from typing import List, Sequence

import numpy as np

from onnx_compat.shim import Const, Extent, InvalidModelError, Ref, Sizes, atoms_of, is_equal
from onnx_compat_tensorflow.base import Base
from onnx_compat_tensorflow.framework_types import Size, TfTensor

__all__ = ["Shape"]

#: A tensor with more elements exceeds the 2**47 bytes that a process on 64-bit processors can address.
_MOST_ELEMENTS = 2.0**47


class Shape(Base):
    """Emitter methods for the primitives of `onnx_compat.primitives.shape`."""

    def reshape(self, x: TfTensor, shape: Sizes) -> TfTensor:
        sizes = shape.with_wildcard
        return self.raw.Reshape(tensor=x, shape=shape.tensor if sizes is None else self.vector(sizes))

    def transpose(self, x: TfTensor, perm: Sequence[int]) -> TfTensor:
        return self.op("Transpose", x, perm=self.vector(perm, self.tf.int32))

    def broadcast_to(self, x: TfTensor, shape: Sizes) -> TfTensor:
        return self.op("BroadcastTo", x, shape=shape.tensor)

    def concat(self, xs: Sequence[TfTensor], axis: int) -> TfTensor:
        return self.raw.ConcatV2(values=list(xs), axis=axis)

    def slice(self, x: TfTensor, starts: Sizes, ends: Sizes, steps: Sequence[int]) -> TfTensor:
        """Slice x, the first argument of the current node, by StridedSlice.

        For positive steps, a start of 0 becomes a bit of begin_mask, and an end at the size becomes a bit of end_mask.
        TensorFlow then computes no symbolic size for a bound at the edge.
        """
        (source, *_) = self.node.args
        assert isinstance(source, (Ref, Const))
        sizes = source.spec.shape
        begin_mask = end_mask = 0
        begin: List[Size] = [0] * len(steps)
        end: List[Size] = [0] * len(steps)
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

    def reverse(self, x: TfTensor, axes: Sequence[int]) -> TfTensor:
        return self.op("ReverseV2", x, axis=self.vector(axes, self.tf.int32))

    def tile(self, x: TfTensor, repeats: Sizes) -> TfTensor:
        counts = repeats.tensor
        if _depends_on_values(repeats.dims):
            factors = self.raw.Cast(x=counts, DstT=self.tf.float64)
            counts = self._refuse_giant(counts, self.raw.Mul(x=self._float_sizes(x), y=factors))
        return self.op("Tile", x, multiples=counts)

    def pad(self, x: TfTensor, before: Sizes, after: Sizes, value: TfTensor, mode: str) -> TfTensor:
        if mode == "constant":
            if _depends_on_values((*before.dims, *after.dims)):
                return self._pad_by_values(x, before, after, value)
            return self.pad_with(x, before.scalars, after.scalars, value)
        for axis, (low, high) in enumerate(zip(before.scalars, after.scalars)):
            if not (is_equal(before.dims[axis], 0) and is_equal(after.dims[axis], 0)):
                x = self._pad_axis_by_mode(x, axis, low, high, mode)
        return x

    def _pad_by_values(self, x: TfTensor, before: Sizes, after: Sizes, value: TfTensor) -> TfTensor:
        """Pad x with the scalar `value` by counts that depend on run-time tensors.

        A run with counts for which no process can address the result raises an error of the kernel.
        """
        paddings = self.raw.Pack(values=[before.tensor, after.tensor], axis=1)
        added = self.raw.Sum(input=self.raw.Cast(x=paddings, DstT=self.tf.float64), axis=[1])
        paddings = self._refuse_giant(paddings, self.raw.AddV2(x=self._float_sizes(x), y=added))
        return self.op("PadV2", x, value, paddings=paddings)

    def _float_sizes(self, x: TfTensor) -> TfTensor:
        return self.raw.Cast(x=self.sizes(x), DstT=self.tf.float64)

    def _refuse_giant(self, counts: TfTensor, sizes: TfTensor) -> TfTensor:
        """Return `counts`, or -1 for each count if the result has more elements than a process can address.

        `sizes`: the sizes of the result, as a float64 tensor. The kernels refuse -1. For a count that is too large,
        Tile and PadV2 of TensorFlow 1.15 end the process.
        """
        raw, tf = self.raw, self.tf
        elements = raw.Prod(input=raw.Maximum(x=sizes, y=self.number(1, tf.float64)), axis=[0])
        is_small = raw.LessEqual(x=elements, y=self.number(_MOST_ELEMENTS, tf.float64))
        return raw.SelectV2(condition=is_small, t=counts, e=self.number(-1, counts.dtype))

    def pad_with(self, x: TfTensor, before: Sequence[Size], after: Sequence[Size], value: TfTensor) -> TfTensor:
        """Pad axis k of x by before[k] elements at its start and after[k] at its end: copies of the scalar `value`."""
        pairs = [size for pair in zip(before, after) for size in pair]
        paddings = self.raw.Reshape(tensor=self.vector(pairs), shape=[-1, 2])
        if all(isinstance(size, (int, np.integer)) for size in pairs):
            paddings = self.tf.constant(np.asarray(pairs, np.int32).reshape(-1, 2))
        return self.op("PadV2", x, value, paddings=paddings)

    def _pad_axis_by_mode(self, x: TfTensor, axis: int, low: Size, high: Size, mode: str) -> TfTensor:
        """Pad an axis by `low` and `high` elements in the mode "edge", "reflect" or "wrap", as a gather along the axis.

        Raises InvalidModelError for an axis of the static length 0. A length that is known at run time only is not
        checked.
        """
        size = self.dim(x, axis)
        if isinstance(size, int) and size == 0:
            raise InvalidModelError("an empty axis has no element to pad it with (mode %s)" % mode)
        if all(isinstance(length, (int, np.integer)) for length in (size, low, high)):
            index = self.tf.constant(_INDEX_OF_MODE[mode](np, np.arange(-low, size + high), size))
        else:
            size, low, high = [self.vector([length])[0] for length in (size, low, high)]
            positions = self.tf.range(self.raw.Neg(x=low), self.raw.AddV2(x=size, y=high))
            index = _INDEX_OF_MODE[mode](self.tf, positions, size)
        return self.raw.GatherV2(params=x, indices=index, axis=axis)

    def arange(self, start: TfTensor, stop: TfTensor, step: TfTensor) -> TfTensor:
        if not start.dtype.is_floating:
            return self.op("Range", start, self._limit_ahead(start, stop, step), step)
        raw, tf = self.raw, self.tf
        first, last, stride = [raw.Cast(x=scalar, DstT=tf.float64) for scalar in (start, stop, step)]
        count = raw.Ceil(x=raw.RealDiv(x=raw.Sub(x=last, y=first), y=stride))
        zero, unit = self.number(0, tf.float64), self.number(1, tf.float64)
        positions = raw.Range(start=zero, limit=raw.Maximum(x=count, y=zero), delta=unit)
        return raw.Cast(x=raw.AddV2(x=first, y=raw.Mul(x=positions, y=stride)), DstT=start.dtype)

    def _limit_ahead(self, start: TfTensor, stop: TfTensor, step: TfTensor) -> TfTensor:
        """Return the limit for Range: `stop`, or `start` if the step leads away from `stop`.

        The kernel refuses a `stop` from which the step leads away. With the limit `start`, the range is empty.
        """
        stride = self.tf.get_static_value(step)
        above = None if stride is not None and stride < 0 else self.op("Maximum", start, stop)
        below = None if stride is not None and stride > 0 else self.op("Minimum", start, stop)
        if above is None or below is None:
            return below if above is None else above
        is_ascending = self.op("Greater", step, self.number(0, step.dtype))
        return self.op("SelectV2", above, below, condition=is_ascending)


def _depends_on_values(dims: Sequence[Extent]) -> bool:
    """Whether any of the sizes depends on elements of run-time tensors. Sizes that depend on axes alone stay small."""
    return any(atom.kind == "element" for dim in dims for atom in atoms_of(dim))


#: Mode -> a function of (numpy or TensorFlow, position i, length n of the axis) that returns the source index. i is 0 at the
#: first element of the unpadded axis, and negative before it.
_INDEX_OF_MODE = {
    "edge": lambda xp, i, n: xp.minimum(xp.maximum(i, 0), n - 1),
    "reflect": lambda xp, i, n: n - 1 - xp.abs(n - 1 - i % xp.maximum(2 * (n - 1), 1)),
    "wrap": lambda xp, i, n: i % n,
}

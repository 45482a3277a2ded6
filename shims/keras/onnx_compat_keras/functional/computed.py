"""Slices, pads, repeats and ranges whose sizes only the run tells: `take` at computed positions."""

from typing import Any, Callable, Dict, Optional

import numpy as np

from onnx_compat_keras.framework_types import Handle, Scalar, SymbolicTensor
from onnx_compat_keras.functional.base import Known
from onnx_compat_keras.functional.sizes import Length, Sizing

__all__ = ["Computed"]

#: Beyond every axis; the sum with a length fits int32.
_FAR = 2**30


class Computed(Sizing):
    """Emitter helpers that compute positions along an axis, as int32 vectors, and take the elements there.

    On JAX, they raise UnsupportedError if the number of positions is a `Length` of the operation "number".
    """

    def int32(self, size: Scalar) -> Handle:
        """Return a size as an operand: an int, or an int32 scalar tensor."""
        if isinstance(size, (int, np.integer)):
            return int(size)
        return self.unchecked_ops.cast(self.size_tensor(size), "int32")

    def slice_computed(
        self, x: SymbolicTensor, axis: int, start: Scalar, end: Scalar, step: int, known_count: Optional[int] = None
    ) -> Handle:
        """Return x[start:end:step] along an axis, by Python's rules for negative bounds and bounds out of range.

        `known_count`: the number of elements of the result, or None if it is not known. On JAX, None raises
        UnsupportedError.
        """
        ops, size = self.unchecked_ops, self.int32(self.dim(x, axis))
        low, high = (0, size) if step > 0 else (-1, size - 1 if isinstance(size, int) else ops.subtract(size, 1))

        first, last = (self._clamp(self._from_front(bound, size), low, high) for bound in (start, end))
        span = ops.subtract(last, first) if step > 0 else ops.subtract(first, last)
        count = ops.floor_divide(ops.add(span, abs(step) - 1), abs(step)) if abs(step) != 1 else span
        total = Length("number", (ops.cast(ops.maximum(count, 0), "int64"),)) if known_count is None else known_count
        positions = self.positions(total)
        return self.ops.take(x, ops.add(ops.multiply(positions, step), first), axis=axis)

    def _from_front(self, bound: Scalar, size: Handle) -> Handle:
        """Return a bound of a slice, counted from the front of an axis of the length `size`: an int or an int32 tensor.

        A negative bound counts from the end: -2 with size 5 -> 3; -7 with size 5 -> -2. A bound of 0 or more is
        returned unchanged. Bounds are first clamped to -2**30 and 2**30.
        """
        ops = self.unchecked_ops
        if isinstance(bound, (int, np.integer)):
            bound = max(-_FAR, min(int(bound), _FAR))
            return bound if bound >= 0 else size + bound if isinstance(size, int) else ops.add(size, bound)
        number = ops.cast(ops.maximum(ops.minimum(self.size_tensor(bound), _FAR), -_FAR), "int32")
        return ops.where(ops.less(number, 0), ops.add(number, size), number)

    def _clamp(self, bound: Handle, low: int, high: Handle) -> Handle:
        if isinstance(bound, int) and isinstance(high, int):
            return max(low, min(bound, high))
        return self.unchecked_ops.minimum(self.unchecked_ops.maximum(bound, low), high)

    def pad_computed(
        self, x: SymbolicTensor, axis: int, before: Scalar, after: Scalar, value: Handle, mode: str
    ) -> Handle:
        """Pad x along an axis by `before` elements at its start and `after` elements at its end.

        `mode`: "constant" pads with the scalar `value`. "edge", "reflect" and "wrap" copy elements of x, and do not
        read `value`. Raises UnsupportedError on JAX if `before` or `after` is a computed number.
        """
        ops = self.unchecked_ops
        size = self.dim(x, axis)
        total = self._plus(self._plus(before, size), after)
        source = ops.subtract(self.positions(total), self.int32(before))
        length = self.int32(size)
        if mode != "constant":
            return self.ops.take(x, _SOURCES[mode](ops, source, length), axis=axis)
        inside = ops.logical_and(ops.less_equal(0, source), ops.less(source, length))
        widths = [(int(k == axis), 0) for k in range(len(x.shape))]  # an element in front: the axis may be empty
        with_front = self.ops.pad(x, widths, constant_values=value.array.item() if isinstance(value, Known) else 0)
        padded = self.ops.take(with_front, ops.where(inside, ops.add(source, 1), 0), axis=axis)
        if isinstance(value, Known):
            return padded
        mask = ops.reshape(inside, (*[1] * axis, -1, *[1] * (len(x.shape) - 1 - axis)))
        return self.ops.where(mask, padded, self.tensor(value))

    def _plus(self, a: Scalar, b: Scalar) -> Scalar:
        if isinstance(a, (int, np.integer)) and isinstance(b, (int, np.integer)):
            return int(a) + int(b)
        return self.combine_sizes("add", a, b)

    def tile_computed(self, x: SymbolicTensor, axis: int, count: Scalar) -> Handle:
        """Return x, repeated `count` times along an axis.

        Raises UnsupportedError on JAX if `count` is a computed number.
        """
        ops, size = self.unchecked_ops, self.dim(x, axis)
        positions = self.positions(self.combine_sizes("mul", size, count))
        length = self.int32(size)
        length = max(length, 1) if isinstance(length, int) else ops.maximum(length, 1)
        return self.ops.take(x, ops.mod(positions, length), axis=axis)


def _reflect(ops: Any, source: Handle, length: Handle) -> Handle:
    """Return the indices of the elements that are copied to the positions `source`, in the mode "reflect" of `pad`.

    source: positions along the axis, relative to its first element before padding: negative in front of it.
    length: the length of the axis before padding.
    """
    last = length - 1 if isinstance(length, int) else ops.subtract(length, 1)
    period = max(2 * last, 1) if isinstance(last, int) else ops.maximum(ops.multiply(last, 2), 1)
    around = ops.mod(source, period)
    return ops.minimum(around, ops.subtract(period, around))


def _wrap(ops: Any, source: Handle, length: Handle) -> Handle:
    """Return the indices of the elements that are copied to the positions `source`, in the mode "wrap" of `pad`.

    The arguments are positions relative to the first element of the axis, and the length of the axis before padding.
    """
    return ops.mod(source, length)


def _edge(ops: Any, source: Handle, length: Handle) -> Handle:
    """Return the indices of the elements that are copied to the positions `source`, in the mode "edge" of `pad`.

    The arguments are positions relative to the first element of the axis, and the length of the axis before padding.
    """
    last = length - 1 if isinstance(length, int) else ops.subtract(length, 1)
    return ops.minimum(ops.maximum(source, 0), last)


#: Mode of `pad` -> the index of the source of each element, from its position before element 0 of the axis.
_SOURCES: Dict[str, Callable[[Any, Handle, Handle], Handle]] = {"edge": _edge, "reflect": _reflect, "wrap": _wrap}

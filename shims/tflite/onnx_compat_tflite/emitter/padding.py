"""Primitives that add elements at the ends of axes."""

from typing import Any, List, Optional, Sequence, Union

import numpy as np

from onnx_compat.shim import Sizes
from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.shape import Shape
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Padding"]


#: The elements up to which MIRROR_PAD is used. It computes each index: forty times slower than copying rows.
_MIRROR_PAD_ELEMENTS = 256
_ROW_ELEMENTS = 8  # from here on a row is long enough that GATHER copies it fast


class Padding(Shape):
    """Emit padding: constants by PADV2, a small reflection by MIRROR_PAD, everything else by GATHER along each axis."""

    def pad(self, x: Handle, before: Sizes, after: Sizes, value: Handle, mode: str) -> Handle:
        low, high = before.known, after.known
        if mode == "constant":
            if low is not None and high is not None:
                return self.pad_known(x, list(zip(low, high)), value)
            dims = (len(before), 2)
            ends = self.add_op("PACK", [before.tensor, after.tensor], "int32", dims, values_count=2, axis=1)
            return self._add_padv2(x, value, ends, self.out.shape)
        dims = self.out.shape
        if mode == "reflect" and low is not None and high is not None and _mirrors(x, low, high):
            if _known_elements(dims) <= _MIRROR_PAD_ELEMENTS:
                return self._add_mirror_pad(x, Handle.of(np.asarray([low, high], np.int32).T), dims)
            for axis in range(x.rank):
                x = self._mirror_axis(x, axis, low[axis], high[axis])
            return x
        for axis, (first, last) in enumerate(zip(before.scalars, after.scalars)):
            if not (first == 0 and last == 0 and isinstance(first, int) and isinstance(last, int)):
                indices = self._source_indices(self.dim(x, axis), first, last, mode)
                x = self.gather(x, indices, axis)
        return x

    def pad_known(self, x: Handle, pads: Sequence[Any], value: Optional[Handle] = None) -> Handle:
        """Pad x with known (before, after) numbers of elements at each axis: with the value, or with zeros."""
        if not any(low or high for low, high in pads):
            return x
        dims = [size + low + high if isinstance(size, int) else None for size, (low, high) in zip(x.dims, pads)]
        if x.rank > 5 and x.is_static:
            return self._pad_merged(x, pads, value, dims)
        ends = Handle.of(np.asarray(pads, np.int32).reshape(-1, 2))
        if value is None or (value.is_constant and not value.array.any() and not np.signbit(value.array).any()):
            return self._add_pad(x, ends, dims)
        return self._add_padv2(x, value, ends, dims)

    def _pad_merged(self, x: Handle, pads: Sequence[Any], value: Optional[Handle], dims: Sequence[Any]) -> Handle:
        """Pad with adjacent axes merged that are not padded."""
        sizes: List[int] = []
        ends: List[Any] = []
        for size, pair in zip(x.dims, pads):
            if ends and not any(pair) and not any(ends[-1]):
                sizes[-1] *= size
            else:
                sizes.append(size)
                ends.append(pair)
        if len(sizes) > 5:
            raise self.kernel_error("PADV2", x.dtype, "rank %d" % x.rank)
        return self.reshape_to(self.pad_known(self.reshape_to(x, sizes), ends, value), dims)

    @widen_for("PAD")
    def _add_pad(self, x: Handle, ends: Handle, dims: Sequence[Any]) -> Handle:
        return self.add_op("PAD", [x, ends], x.dtype, dims)

    @widen_for("PADV2")
    def _add_padv2(self, x: Handle, value: Handle, ends: Handle, dims: Sequence[Any]) -> Handle:
        return self.add_op("PADV2", [x, ends, value], x.dtype, dims)

    @widen_for("MIRROR_PAD reflect")
    def _add_mirror_pad(self, x: Handle, ends: Handle, dims: Sequence[Any]) -> Handle:
        return self.add_op("MIRROR_PAD", [x, ends], x.dtype, dims, mode="REFLECT")

    def _mirror_axis(self, x: Handle, axis: int, before: int, after: int) -> Handle:
        """Reflect x at the ends of an axis: by gathering all rows if they are long, else only the reflected rows.

        Each row that is gathered takes the same time, however short it is.
        """
        if not before and not after:
            return x
        indices = self._source_indices(x.dims[axis], before, after, "reflect").array
        if _known_elements(x.dims[axis + 1 :]) >= _ROW_ELEMENTS:
            return self.gather(x, Handle.of(indices), axis)
        reflected_indices = (indices[:before], indices[len(indices) - after :])
        first, last = ([self.gather(x, Handle.of(part), axis)] if part.size else [] for part in reflected_indices)
        parts = [*first, x, *last]
        return self._concatenate(parts[0], parts[1:], axis)

    @widen_for("GATHER")
    def gather(self, x: Handle, indices: Handle, axis: int) -> Handle:
        """Return the slices of x at indices of an axis."""
        dims = x.dims[:axis] + indices.dims + x.dims[axis + 1 :]
        return self.add_op("GATHER", [x, indices], x.dtype, dims, axis=axis)

    def _source_indices(
        self, length: Union[int, Handle], before: Union[int, Handle], after: Union[int, Handle], mode: str
    ) -> Handle:
        """Return the index of the source element for each position of a padded axis."""
        if isinstance(length, int) and isinstance(before, int) and isinstance(after, int):
            numpy_mode: Any = mode  # numpy has the same names of modes
            return Handle.of(np.pad(np.arange(length, dtype=np.int32), (before, after), numpy_mode))
        size, first, last = (self.scalar(value) for value in (length, before, after))
        position = self.sub(self.count_to(self.add(self.add(first, size), last)), first)
        end = self.sub(size, self.like(size, 1))
        if mode == "edge":
            return self.minimum(end, self.maximum(self.like(size, 0), position))
        if mode == "wrap":
            return self.mod(position, size)
        period = self.maximum(self.like(size, 1), self.mul(end, self.like(end, 2)))
        periodic = self.mod(position, period)
        return self.minimum(periodic, self.sub(period, periodic)) if mode == "reflect" else periodic


def _known_elements(dims: Sequence[Any]) -> int:
    """Return the product of the known sizes."""
    return int(np.prod([size for size in dims if isinstance(size, int)]))


def _mirrors(x: Handle, low: Sequence[int], high: Sequence[int]) -> bool:
    """Whether each reflection fits its axis, and the rank fits the kernel. The size of an axis without padding may be
    unknown.
    """
    padded = [(max(a, b), size) for a, b, size in zip(low, high, x.dims) if a or b]
    return x.rank <= 5 and all(isinstance(size, int) and most < size for most, size in padded)

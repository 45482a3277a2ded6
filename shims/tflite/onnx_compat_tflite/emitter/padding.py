"""Elements added at the ends of axes."""

from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat_tflite.emitter.base import widen_for
from onnx_compat_tflite.emitter.shape import Shape
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Padding"]


#: The elements of a mirror image that MIRROR_PAD may have to find, one by one: forty times as slow as to copy rows.
_FEW = 256
_LONG = 8  # elements of a row that is worth to be copied


class Padding(Shape):
    """A constant by PADV2, a small mirror image by MIRROR_PAD where it fits; everything else by gathering along each axis."""

    def pad(self, x: Handle, before: Any, after: Any, value: Handle, mode: str) -> Handle:
        low, high = before.known, after.known
        if mode == "constant":
            if low is not None and high is not None:
                return self.pad_known(x, list(zip(low, high)), value)
            dims = (len(before), 2)
            ends = self.add_op("PACK", [before.tensor, after.tensor], "int32", dims, values_count=2, axis=1)
            return self._add_padv2(x, value, ends, self.out.shape)
        dims = self.out.shape
        if mode == "reflect" and low is not None and high is not None and _mirrors(x, low, high):
            if _known_elements(dims) <= _FEW:
                return self._add_mirror_pad(x, Handle.of(np.asarray([low, high], np.int32).T), dims)
            for axis in range(x.rank):
                x = self._mirror_axis(x, axis, low[axis], high[axis])
            return x
        for axis, (first, last) in enumerate(zip(before.scalars, after.scalars)):
            if not (first == 0 and last == 0 and isinstance(first, int) and isinstance(last, int)):
                places = self._source_indices(self.dim(x, axis), first, last, mode)
                x = self.gather(x, places, axis)
        return x

    def pad_known(self, x: Handle, pads: Sequence[Any], value: Optional[Handle] = None) -> Handle:
        """x with (before, after) known numbers of elements at each axis; of zeros without a value."""
        if not any(low or high for low, high in pads):
            return x
        dims = [size + low + high if isinstance(size, int) else None for size, (low, high) in zip(x.dims, pads)]
        if x.rank > 5 and x.is_static:
            return self._pad_merged(x, pads, value, dims)
        ends = Handle.of(np.asarray(pads, np.int32).reshape(-1, 2))
        if value is None or (value.is_constant and not value.array.any() and not np.signbit(value.array).any()):
            return self._add_pad(x, ends, dims)
        return self._add_padv2(x, value, ends, dims)

    def _pad_merged(self, x: Handle, pads: Sequence[Any], value: Any, dims: Sequence[Any]) -> Handle:
        """Axes that are not padded are one with their neighbours."""
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
        """Whole rows are gathered; of short ones only those of the images, since each takes as long as a long one."""
        if not before and not after:
            return x
        places = self._source_indices(x.dims[axis], before, after, "reflect").array
        if _known_elements(x.dims[axis + 1 :]) >= _LONG:
            return self.gather(x, Handle.of(places), axis)
        images = (places[:before], places[len(places) - after :])
        first, last = ([self.gather(x, Handle.of(part), axis)] if part.size else [] for part in images)
        parts = [*first, x, *last]
        return self._concatenate(parts[0], parts[1:], axis)

    @widen_for("GATHER")
    def gather(self, x: Handle, places: Handle, axis: int) -> Handle:
        """The slices of x at these places of an axis."""
        dims = x.dims[:axis] + places.dims + x.dims[axis + 1 :]
        return self.add_op("GATHER", [x, places], x.dtype, dims, axis=axis)

    def _source_indices(self, length: Any, before: Any, after: Any, mode: str) -> Handle:
        """Which element stands at each place of a padded axis."""
        if all(isinstance(size, int) for size in (length, before, after)):
            named: Any = mode  # as numpy names them too
            return Handle.of(np.pad(np.arange(length, dtype=np.int32), (before, after), named))
        size, first, last = (self.scalar(value) for value in (length, before, after))
        place = self.sub(self.count_to(self.add(self.add(first, size), last)), first)
        end = self.sub(size, self.like(size, 1))
        if mode == "edge":
            return self.minimum(end, self.maximum(self.like(size, 0), place))
        if mode == "wrap":
            return self.mod(place, size)
        period = self.maximum(self.like(size, 1), self.mul(end, self.like(end, 2)))
        turned = self.mod(place, period)
        return self.minimum(turned, self.sub(period, turned)) if mode == "reflect" else turned


def _known_elements(dims: Sequence[Any]) -> int:
    return int(np.prod([size for size in dims if isinstance(size, int)]))


def _mirrors(x: Handle, low: Sequence[int], high: Sequence[int]) -> bool:
    """Whether every mirror image is within its axis (and the kernel's tensors have few axes). A batch may be open."""
    padded = [(max(a, b), size) for a, b, size in zip(low, high, x.dims) if a or b]
    return x.rank <= 5 and all(isinstance(size, int) and most < size for most, size in padded)

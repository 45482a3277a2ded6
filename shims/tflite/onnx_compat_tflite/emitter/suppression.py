"""NonMaxSuppression by its kernel, which does one class of one image.

What the kernel does otherwise than ONNX, on every runtime from 2.7 to 2.3, and what is made of it:

- Of equal scores any may come first. So boxes are sorted before, and their scores are told apart by their rank.
- An overlap that equals the threshold suppresses. So the threshold is the next larger number.
- A box that does not overlap with itself is chosen over and over again: one without an area, or with one that is not
  finite. ONNX suppresses by no such box, and none of them: all are chosen beside those of the kernel. (From 2^127 on,
  half of the greatest number, the area of two such boxes together is infinite, and these are taken for none as well.)
- Boxes given by their centre are made corners; one of negative size has no area then, and suppresses nothing either.

No more boxes of a class are sorted than the most that any class has above the threshold of scores: in what a trained
detector gives these are few.
"""

from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat.shim import is_static, native
from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Suppression"]

_ROWS = 1024  # as many classes of images have a kernel each
_RANKS = 2**24  # whole numbers that a float32 tells apart
_NO_AREA = 2.0**127
_FEW = 8  # of as many, one is found faster than all are sorted


def _one(x: Any) -> Any:
    """The number in a tensor that is known and has just one."""
    return x.value.reshape(-1)[0] if x is not None and x.known and x.size == 1 else None


def _takes(_node: Any, inputs: Sequence[Any], _attributes: Any) -> bool:
    boxes, scores, limit, overlap, threshold = [*inputs, None, None, None][:5]
    sizes = [*scores.shape, boxes.shape[1]]
    if not all(map(is_static, sizes)) or 0 in sizes or sizes[0] * sizes[1] > _ROWS or sizes[2] > _RANKS:
        return False
    known = _one(limit), 0 if overlap is None else _one(overlap)
    return None not in known and known[0] > 0 and 0 <= known[1] < 1 and (threshold is None or threshold.size == 1)


class Suppression(Control):
    """Of known sizes, limit and overlap; all else is composed."""

    @native("NonMaxSuppression", _takes)
    def suppress_boxes(
        self,
        boxes: Handle,
        scores: Handle,
        limit: Handle,
        overlap: Optional[Handle] = None,
        threshold: Optional[Handle] = None,
        center_point_box: int = 0,
    ) -> Handle:
        batch, count = int(scores.dims[0]), int(scores.dims[2])
        most = min(int(limit.array.reshape(-1)[0]), count)
        least = None if threshold is None else self.reshape_to(threshold, ())
        corners = self._to_corners(boxes) if center_point_box else boxes
        ranked, order = self._sort_scores(scores, least)
        above = None if least is None else self.less(least, ranked)
        places = self.add(order, Handle.of(np.arange(batch, dtype=np.int32).reshape(-1, 1, 1) * np.int32(count)))
        whole = self.gather(self.reshape_to(self._has_area(corners), (batch * count,)), places, 0)
        down = self.sub(self.like(ranked, count), self.to(self.grid(ranked, 2), "float32"))
        keys = self.where(self._and_optional(whole, above), down, self.like(ranked, 0))
        found = self.gather(self.reshape_to(corners, (batch * count, 4)), places, 0)
        chosen = self._suppress_classes(found, keys, most, 0 if overlap is None else overlap.array.reshape(-1)[0])
        chosen = self.logical_or(chosen, self._and_optional(self.logical_not(whole), above))
        if most < count:
            so_far = self.cumsum(self.to(chosen, "int32"), axis=2, exclusive=False, reverse=False)
            chosen = self.logical_and(chosen, self.less_equal(so_far, self.like(so_far, most)))
        there = self._add_where(chosen)
        box = self._append_axis(self.to(self._add_gather_nd(order, there, (None,)), "int64"))
        return self._concatenate(self.slice_axis(there, 1, 0, 2), [box], 1)

    def _and_optional(self, one: Handle, other: Optional[Handle]) -> Handle:
        return one if other is None else self.logical_and(one, other)

    def _to_corners(self, boxes: Handle) -> Handle:
        """The lower ends, and the upper ones that are not below them."""
        half = self.like(boxes, 0.5)
        middle, size = self.slice_axis(boxes, 2, 0, 2), self.mul(self.slice_axis(boxes, 2, 2, 4), half)
        low, high = self.sub(middle, size), self.add(middle, size)
        return self._concatenate(low, [self.elementwise("MAXIMUM", [high, low])], 2)

    def _has_area(self, corners: Handle) -> Handle:
        """Whether it overlaps with itself. Some kernels make the greatest number of infinity."""
        sides = self.abs(self.sub(self.slice_axis(corners, 2, 2, 4), self.slice_axis(corners, 2, 0, 2)))
        area = self.mul(self.slice_axis(sides, 2, 0, 1), self.slice_axis(sides, 2, 1, 2))
        finite = self.less(sides, self.like(sides, np.finfo(np.float32).max))
        whole = self.logical_and(self.less(self.like(area, 0), area), self.less(area, self.like(area, _NO_AREA)))
        return self.logical_and(whole, self.reduce_axes("REDUCE_ALL", finite, [2], True))

    def _sort_scores(self, scores: Handle, threshold: Optional[Handle]) -> List[Handle]:
        """The scores in order, and where they were: those above the threshold, and some more in most classes."""
        k = self.scalar(scores.dims[2])
        if threshold is not None:
            above = self.less(threshold, scores)
            counts = self.reduce_axes("SUM", self.to(above, "int32"), [2], False)
            few = self.maximum(self.scalar(1), self.reduce_axes("REDUCE_MAX", counts, [0, 1], False))
            k = self.where(self.less(self.scalar(scores.dims[2] // _FEW), few), k, few)
            scores = self.where(above, scores, self.like(scores, -np.inf))
        return list(self._add_top_k(scores, k))

    def _unpack_classes(self, x: Handle, rows: int) -> List[Handle]:
        dims = (rows, *x.dims[2:])
        sizes = [size if isinstance(size, int) else -1 for size in dims]
        flat = self.add_op("RESHAPE", [x, self.ints(*sizes)], x.dtype, dims)
        return self.add_ops("UNPACK", [flat], [(x.dtype, dims[1:])] * rows, num=rows, axis=0)

    def _suppress_classes(self, boxes: Handle, keys: Handle, most: int, overlap: Any) -> Handle:
        """Which boxes the kernels choose, in the shape of the keys."""
        rows = int(keys.dims[0] * keys.dims[1])
        larger = np.nextafter(np.float32(overlap), np.float32(1))
        fixed = [self.scalar(most), Handle.of(larger), Handle.of(np.float32(0))]
        pairs = [
            self.add_ops("NON_MAX_SUPPRESSION_V4", [*row, *fixed], [("int32", (most,)), ("int32", ())])
            for row in zip(self._unpack_classes(boxes, rows), self._unpack_classes(keys, rows))
        ]
        ranks, counts = (self._pack(column[0], column[1:]) for column in zip(*pairs))
        valid = self.to(self.less(Handle.of(np.arange(most, dtype=np.int32)), self._append_axis(counts)), "int32")
        width = self.scalar(self.dim(keys, 2))
        starts = self._fold_op("MUL", width, Handle.of(np.arange(rows, dtype=np.int32).reshape(-1, 1)))
        places = self.reshape_to(self.add(ranks, starts), (rows * most, 1))
        size = self.stack([width]) if rows == 1 else self._fold_op("MUL", width, self.ints(rows))
        dims = (int(size.array[0]) if size.is_constant else None,)
        marks = self.add_op("SCATTER_ND", [places, self.reshape_to(valid, (rows * most,)), size], "int32", dims)
        shape = self.ints(*[axis if isinstance(axis, int) else -1 for axis in keys.dims])
        return self.add_op("RESHAPE", [self.less(self.like(marks, 0), marks), shape], "bool", keys.dims)

"""Native NonMaxSuppression by its kernel, which handles a class of an image.

The kernel differs from ONNX on every runtime from 2.7 to LiteRT 2.3:

- Equal scores have no defined order. So the boxes are sorted first, and the kernel gets their ranks as scores.
- An overlap that equals the threshold suppresses. So the kernel gets the next larger number as threshold.
- A box that does not overlap with itself is selected repeatedly: a box without an area, or with an infinite area.
  In ONNX such a box neither suppresses nor is suppressed, so all of them are selected beside those of the kernel.
  From 2^127 on, half of the largest float32, the sum of two areas is infinite. Boxes of that area are treated alike.
- Boxes that are given by their centre are converted to corners. A box of negative size then has no area, and
  suppresses no box either.

The number of boxes that are sorted is the largest number of boxes above the score threshold in any class. It is small
for the output of a trained detector.
"""

from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat.shim import GraphNode, Tensor, is_static, native
from onnx_compat_tflite.emitter.base import Attributes
from onnx_compat_tflite.emitter.control import Control
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Suppression"]

_LARGEST_KERNEL_COUNT = 1024  # each class of each image has its own kernel
_LARGEST_RANK = 2**24  # the integers that float32 represents exactly
_LARGEST_AREA = 2.0**127
_SORTED_SHARE = 8  # up to 1/8 of the boxes, selecting the first k is faster than sorting all


def _known_scalar(x: Optional[Tensor]) -> Any:
    """Return the number in a known tensor of a single element; None for another tensor."""
    if x is None or x.value is None or not x.known or x.size != 1:
        return None
    return x.value.reshape(-1)[0]


def _accepts_suppression(_node: GraphNode, inputs: Sequence[Any], _attributes: Attributes) -> bool:
    """Whether sizes, limit and overlap are known, and the kernel supports them."""
    boxes, scores, limit, overlap, threshold = [*inputs, None, None, None][:5]
    sizes = [*scores.shape, boxes.shape[1]]
    if (
        not all(map(is_static, sizes))
        or 0 in sizes
        or sizes[0] * sizes[1] > _LARGEST_KERNEL_COUNT
        or sizes[2] > _LARGEST_RANK
    ):
        return False
    known = _known_scalar(limit), 0 if overlap is None else _known_scalar(overlap)
    return None not in known and known[0] > 0 and 0 <= known[1] < 1 and (threshold is None or threshold.size == 1)


class Suppression(Control):
    """Emit native NonMaxSuppression. The composed meaning serves cases that the kernel does not support."""

    @native("NonMaxSuppression", _accepts_suppression)
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
        largest_count = min(int(limit.array.reshape(-1)[0]), count)
        score_threshold = None if threshold is None else self.reshape_to(threshold, ())
        corners = self._to_corners(boxes) if center_point_box else boxes
        ranked, order = self._sort_scores(scores, score_threshold)
        is_above = None if score_threshold is None else self.less(score_threshold, ranked)
        box_indices = self.add(order, Handle.of(np.arange(batch, dtype=np.int32).reshape(-1, 1, 1) * np.int32(count)))
        has_area = self.gather(self.reshape_to(self._has_area(corners), (batch * count,)), box_indices, 0)
        descending_ranks = self.sub(self.like(ranked, count), self.to(self.grid(ranked, 2), "float32"))
        keys = self.where(self._and_optional(has_area, is_above), descending_ranks, self.like(ranked, 0))
        sorted_boxes = self.gather(self.reshape_to(corners, (batch * count, 4)), box_indices, 0)
        is_selected = self._suppress_classes(
            sorted_boxes, keys, largest_count, 0 if overlap is None else overlap.array.reshape(-1)[0]
        )
        is_selected = self.logical_or(is_selected, self._and_optional(self.logical_not(has_area), is_above))
        if largest_count < count:
            selected_so_far = self.cumsum(self.to(is_selected, "int32"), axis=2, exclusive=False, reverse=False)
            is_selected = self.logical_and(
                is_selected, self.less_equal(selected_so_far, self.like(selected_so_far, largest_count))
            )
        selected_positions = self._add_where(is_selected)
        box_column = self._append_axis(self.to(self._add_gather_nd(order, selected_positions, (None,)), "int64"))
        return self._concatenate(self.slice_axis(selected_positions, 1, 0, 2), [box_column], 1)

    def _and_optional(self, lhs: Handle, rhs: Optional[Handle]) -> Handle:
        """Return the logical AND, or the first operand without a second."""
        return lhs if rhs is None else self.logical_and(lhs, rhs)

    def _to_corners(self, boxes: Handle) -> Handle:
        """Convert boxes of a centre and a size to corners, of which the upper is not below the lower."""
        half = self.like(boxes, 0.5)
        middle, size = self.slice_axis(boxes, 2, 0, 2), self.mul(self.slice_axis(boxes, 2, 2, 4), half)
        low, high = self.sub(middle, size), self.add(middle, size)
        return self._concatenate(low, [self.elementwise("MAXIMUM", [high, low])], 2)

    def _has_area(self, corners: Handle) -> Handle:
        """Return where a box overlaps with itself. Some kernels clamp infinity to the largest number."""
        sides = self.abs(self.sub(self.slice_axis(corners, 2, 2, 4), self.slice_axis(corners, 2, 0, 2)))
        area = self.mul(self.slice_axis(sides, 2, 0, 1), self.slice_axis(sides, 2, 1, 2))
        has_finite_sides = self.less(sides, self.like(sides, np.finfo(np.float32).max))
        is_finite_area = self.logical_and(
            self.less(self.like(area, 0), area), self.less(area, self.like(area, _LARGEST_AREA))
        )
        return self.logical_and(is_finite_area, self.reduce_axes("REDUCE_ALL", has_finite_sides, [2], True))

    def _sort_scores(self, scores: Handle, threshold: Optional[Handle]) -> List[Handle]:
        """Return the k highest scores in order, and their indices, where k covers all scores above the threshold."""
        k = self.scalar(scores.dims[2])
        if threshold is not None:
            above = self.less(threshold, scores)
            counts = self.reduce_axes("SUM", self.to(above, "int32"), [2], False)
            largest_count = self.maximum(self.scalar(1), self.reduce_axes("REDUCE_MAX", counts, [0, 1], False))
            k = self.where(self.less(self.scalar(scores.dims[2] // _SORTED_SHARE), largest_count), k, largest_count)
            scores = self.where(above, scores, self.like(scores, -np.inf))
        return list(self._add_top_k(scores, k))

    def _unpack_classes(self, x: Handle, rows: int) -> List[Handle]:
        """Split a tensor into the tensors of each class of each image."""
        dims = (rows, *x.dims[2:])
        sizes = [size if isinstance(size, int) else -1 for size in dims]
        flat = self.add_op("RESHAPE", [x, self.ints(*sizes)], x.dtype, dims)
        return self.add_ops("UNPACK", [flat], [(x.dtype, dims[1:])] * rows, num=rows, axis=0)

    def _suppress_classes(self, boxes: Handle, keys: Handle, largest_count: int, overlap: float) -> Handle:
        """Return which boxes the kernels select, in the shape of the keys."""
        rows = int(keys.dims[0] * keys.dims[1])
        next_threshold = np.nextafter(np.float32(overlap), np.float32(1))
        options = [self.scalar(largest_count), Handle.of(next_threshold), Handle.of(np.float32(0))]
        pairs = [
            self.add_ops("NON_MAX_SUPPRESSION_V4", [*row, *options], [("int32", (largest_count,)), ("int32", ())])
            for row in zip(self._unpack_classes(boxes, rows), self._unpack_classes(keys, rows))
        ]
        ranks, counts = (self._pack(column[0], column[1:]) for column in zip(*pairs))
        valid = self.to(
            self.less(Handle.of(np.arange(largest_count, dtype=np.int32)), self._append_axis(counts)), "int32"
        )
        width = self.scalar(self.dim(keys, 2))
        starts = self._fold_op("MUL", width, Handle.of(np.arange(rows, dtype=np.int32).reshape(-1, 1)))
        flat_indices = self.reshape_to(self.add(ranks, starts), (rows * largest_count, 1))
        size = self.stack([width]) if rows == 1 else self._fold_op("MUL", width, self.ints(rows))
        dims = (int(size.array[0]) if size.is_constant else None,)
        is_marked = self.add_op(
            "SCATTER_ND", [flat_indices, self.reshape_to(valid, (rows * largest_count,)), size], "int32", dims
        )
        shape = self.ints(*[axis if isinstance(axis, int) else -1 for axis in keys.dims])
        return self.add_op("RESHAPE", [self.less(self.like(is_marked, 0), is_marked), shape], "bool", keys.dims)

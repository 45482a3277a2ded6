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
for the output of a trained detector. If it exceeds an eighth of the boxes, all boxes are sorted.
"""

from typing import Any, List, Optional, Sequence

import numpy as np

from onnx_compat.shim import GraphNode, Tensor, is_static
from onnx_compat_tflite.emitter import (
    broadcasting,
    casting,
    comparison,
    counting,
    elementwise,
    extremes,
    gathering,
    joining,
    means,
    reductions,
    reshaping,
    runtime_sizes,
    slicing,
    sorting,
)
from onnx_compat_tflite.emitter.builder import Attributes, Builder
from onnx_compat_tflite.emitter.registry import native
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["suppress_boxes"]

_LARGEST_KERNEL_COUNT = 1024  # each class of each image has its own kernel
_LARGEST_RANK = 2**24  # the integers that float32 represents exactly
_LARGEST_AREA = 2.0**127
_SORTED_SHARE = 8  # up to 1/8 of the boxes, selecting the first k is faster than sorting all


def _known_scalar(x: Optional[Tensor]) -> Any:
    """Return the number in a known tensor of a single element. Returns None for any other tensor."""
    if x is None or x.value is None or not x.known or x.size != 1:
        return None
    return x.value.reshape(-1)[0]


def _accepts_suppression(_node: GraphNode, inputs: Sequence[Any], _attributes: Attributes) -> bool:
    """Whether the kernel computes this NonMaxSuppression. All of these conditions must hold:

    - The sizes of the scores and the number of boxes are known and not 0.
    - The number of images times the number of classes is at most `_LARGEST_KERNEL_COUNT`.
    - The number of boxes is at most `_LARGEST_RANK`.
    - The limit (max_output_boxes_per_class) is known and above 0.
    - The overlap (iou_threshold) is absent, or known, at least 0 and below 1.
    - The threshold (score_threshold) is absent, or has one element.
    """
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


@native("NonMaxSuppression", _accepts_suppression)
def suppress_boxes(
    builder: Builder,
    boxes: Handle,
    scores: Handle,
    limit: Handle,
    overlap: Optional[Handle] = None,
    threshold: Optional[Handle] = None,
    center_point_box: int = 0,
) -> Handle:
    """Emit NonMaxSuppression: return int64 rows of (image, class, box), by descending score within each class.

    The arguments are those of ONNX, in its order: `boxes` [image, box, 4], `scores` [image, class, box], `limit`
    (max_output_boxes_per_class), `overlap` (iou_threshold) and `threshold` (score_threshold). With `center_point_box`,
    the boxes have a centre and sizes, else two corners. `_accepts_suppression` must hold.
    """
    batch, count = int(scores.dims[0]), int(scores.dims[2])
    largest_count = min(int(limit.array.reshape(-1)[0]), count)
    score_threshold = None if threshold is None else reshaping.reshape_to(builder, threshold, ())
    corners = _to_corners(builder, boxes) if center_point_box else boxes
    ranked, order = _sort_scores(builder, scores, score_threshold)
    is_above = None if score_threshold is None else comparison.less(builder, score_threshold, ranked)
    first_boxes = Handle.of(np.arange(batch, dtype=np.int32).reshape(-1, 1, 1) * np.int32(count))
    box_indices = elementwise.add(builder, order, first_boxes)
    has_area = reshaping.reshape_to(builder, _has_area(builder, corners), (batch * count,))
    has_area = gathering.gather(builder, has_area, box_indices, 0)
    ranks = casting.to(builder, counting.grid(builder, ranked, 2), "float32")
    descending_ranks = elementwise.sub(builder, builder.like(ranked, count), ranks)
    is_candidate = _and_optional(builder, has_area, is_above)
    keys = comparison.where(builder, is_candidate, descending_ranks, builder.like(ranked, 0))
    sorted_boxes = gathering.gather(builder, reshaping.reshape_to(builder, corners, (batch * count, 4)), box_indices, 0)
    largest_overlap = 0 if overlap is None else overlap.array.reshape(-1)[0]
    is_selected = _suppress_classes(builder, sorted_boxes, keys, largest_count, largest_overlap)
    is_always_selected = _and_optional(builder, comparison.logical_not(builder, has_area), is_above)
    is_selected = comparison.logical_or(builder, is_selected, is_always_selected)
    if largest_count < count:
        is_selected = _limit_count(builder, is_selected, largest_count)
    selected_positions = gathering.add_where(builder, is_selected)
    boxes_of_positions = gathering.add_gather_nd(builder, order, selected_positions, (None,))
    box_column = reshaping.append_axis(builder, casting.to(builder, boxes_of_positions, "int64"))
    return joining.concatenate(builder, slicing.slice_axis(builder, selected_positions, 1, 0, 2), [box_column], 1)


def _limit_count(builder: Builder, is_selected: Handle, largest_count: int) -> Handle:
    """Return `is_selected` [image, class, box], true only for the first `largest_count` selected boxes of a class."""
    selections = casting.to(builder, is_selected, "int32")
    selected_so_far = reductions.cumsum(builder, selections, axis=2, exclusive=False, reverse=False)
    is_within_count = comparison.less_equal(builder, selected_so_far, builder.like(selected_so_far, largest_count))
    return comparison.logical_and(builder, is_selected, is_within_count)


def _and_optional(builder: Builder, lhs: Handle, rhs: Optional[Handle]) -> Handle:
    """Return the logical AND of two tensors; `lhs` itself if `rhs` is None."""
    return lhs if rhs is None else comparison.logical_and(builder, lhs, rhs)


def _to_corners(builder: Builder, boxes: Handle) -> Handle:
    """Convert boxes [image, box, 4] from centres and sizes to corners.

    The last axis changes from (centre x, centre y, width, height) to (low x, low y, high x, high y). For a negative
    size, high equals low.
    """
    half = builder.like(boxes, 0.5)
    middle = slicing.slice_axis(builder, boxes, 2, 0, 2)
    size = elementwise.mul(builder, slicing.slice_axis(builder, boxes, 2, 2, 4), half)
    low, high = elementwise.sub(builder, middle, size), elementwise.add(builder, middle, size)
    return joining.concatenate(builder, low, [broadcasting.add_op(builder, "MAXIMUM", [high, low])], 2)


def _has_area(builder: Builder, corners: Handle) -> Handle:
    """Return booleans [image, box, 1]: true for a box with a positive area below 2^127 and with finite sides.

    `corners` [image, box, 4] has two opposite corners of each box, in any order. A side counts as finite if it is below
    the largest float32, because some kernels clamp infinity to this number. The kernel of NonMaxSuppression computes an
    overlap of a box with itself only if the box is true here.
    """
    high, low = slicing.slice_axis(builder, corners, 2, 2, 4), slicing.slice_axis(builder, corners, 2, 0, 2)
    sides = elementwise.abs(builder, elementwise.sub(builder, high, low))
    height, width = slicing.slice_axis(builder, sides, 2, 0, 1), slicing.slice_axis(builder, sides, 2, 1, 2)
    area = elementwise.mul(builder, height, width)
    has_finite_sides = comparison.less(builder, sides, builder.like(sides, np.finfo(np.float32).max))
    is_positive = comparison.less(builder, builder.like(area, 0), area)
    is_small = comparison.less(builder, area, builder.like(area, _LARGEST_AREA))
    has_finite_area = comparison.logical_and(builder, is_positive, is_small)
    has_finite_sides = means.reduce_axes(builder, "REDUCE_ALL", has_finite_sides, [2], True)
    return comparison.logical_and(builder, has_finite_area, has_finite_sides)


def _sort_scores(builder: Builder, scores: Handle, threshold: Optional[Handle]) -> List[Handle]:
    """Return [scores, box indices], each [image, class, k]: the k highest scores of each class in descending order.

    k is the same for all classes.

    - Without a threshold, k is the number of boxes.
    - With a threshold, the scores above it are counted in each class. k is the highest of these counts, at least 1. If
      k would exceed the number of boxes / `_SORTED_SHARE`, k is the number of boxes.

    A score that is not above the threshold becomes -inf.
    """
    k = runtime_sizes.scalar(builder, scores.dims[2])
    if threshold is not None:
        above = comparison.less(builder, threshold, scores)
        counts = means.reduce_axes(builder, "SUM", casting.to(builder, above, "int32"), [2], False)
        largest_count = means.reduce_axes(builder, "REDUCE_MAX", counts, [0, 1], False)
        largest_count = extremes.maximum(builder, runtime_sizes.scalar(builder, 1), largest_count)
        share = runtime_sizes.scalar(builder, scores.dims[2] // _SORTED_SHARE)
        k = comparison.where(builder, comparison.less(builder, share, largest_count), k, largest_count)
        scores = comparison.where(builder, above, scores, builder.like(scores, -np.inf))
    return list(sorting.add_top_k(builder, scores, k))


def _unpack_classes(builder: Builder, x: Handle, rows: int) -> List[Handle]:
    """Split a tensor [image, class, ...] into a list of tensors [...]: for all classes of image 0, then of image 1, ...

    `rows` is the number of images times the number of classes.
    """
    dims = (rows, *x.dims[2:])
    sizes = [size if isinstance(size, int) else -1 for size in dims]
    flat = builder.add_op("RESHAPE", [x, builder.ints(*sizes)], x.dtype, dims)
    return builder.add_ops("UNPACK", [flat], [(x.dtype, dims[1:])] * rows, num=rows, axis=0)


def _suppress_classes(builder: Builder, boxes: Handle, keys: Handle, largest_count: int, overlap: float) -> Handle:
    """Return which boxes the kernels select, as booleans in the shape of `keys` [image, class, box].

    `boxes` [image, class, box, 4] has the corners of the box of each key. The kernels read the keys as scores. For each
    class of each image, a kernel selects at most `largest_count` boxes with a key above 0. A box is suppressed if it
    overlaps with a selected box by more than `overlap`.
    """
    rows = int(keys.dims[0] * keys.dims[1])
    next_threshold = np.nextafter(np.float32(overlap), np.float32(1))
    options = [runtime_sizes.scalar(builder, largest_count), Handle.of(next_threshold), Handle.of(np.float32(0))]
    pairs = [
        builder.add_ops("NON_MAX_SUPPRESSION_V4", [*row, *options], [("int32", (largest_count,)), ("int32", ())])
        for row in zip(_unpack_classes(builder, boxes, rows), _unpack_classes(builder, keys, rows))
    ]
    ranks, counts = (joining.pack(builder, column[0], column[1:]) for column in zip(*pairs))
    positions = Handle.of(np.arange(largest_count, dtype=np.int32))
    valid = comparison.less(builder, positions, reshaping.append_axis(builder, counts))
    valid = casting.to(builder, valid, "int32")
    width = runtime_sizes.scalar(builder, builder.dim(keys, 2))
    starts = runtime_sizes.fold_op(builder, "MUL", width, Handle.of(np.arange(rows, dtype=np.int32).reshape(-1, 1)))
    flat_indices = reshaping.reshape_to(builder, elementwise.add(builder, ranks, starts), (rows * largest_count, 1))
    if rows == 1:
        size = runtime_sizes.stack(builder, [width])
    else:
        size = runtime_sizes.fold_op(builder, "MUL", width, builder.ints(rows))
    dims = (int(size.array[0]) if size.is_constant else None,)
    flat_valid = reshaping.reshape_to(builder, valid, (rows * largest_count,))
    marks = builder.add_op("SCATTER_ND", [flat_indices, flat_valid, size], "int32", dims)
    is_marked = comparison.less(builder, builder.like(marks, 0), marks)
    shape = builder.ints(*[axis if isinstance(axis, int) else -1 for axis in keys.dims])
    return builder.add_op("RESHAPE", [is_marked, shape], "bool", keys.dims)

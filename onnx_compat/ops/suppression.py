"""NonMaxSuppression: selection of boxes of object detection."""

import math
from typing import Any, List, Optional

from onnx_compat import primitives as p
from onnx_compat.ir.dims import maximum, minimum
from onnx_compat.ir.dtypes import bool_, float32, int64
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, as_sizes, lift


@op("NonMaxSuppression", since=(10, 11))
def non_max_suppression(
    boxes: Tensor,
    scores: Tensor,
    max_output_boxes_per_class: Optional[Tensor] = None,
    iou_threshold: Optional[Tensor] = None,
    score_threshold: Optional[Tensor] = None,
    *,
    center_point_box: int = 0,
) -> Tensor:
    """Return an int64 row [batch, class, box] for each selected box: a tensor [rows, 3].

    For each batch and class, the boxes with the best scores are selected. A box that overlaps a better selected box is
    left out. The rows are sorted by batch and class, then by descending score.

    - boxes: [batch, boxes, 4]: two opposite corners. If center_point_box is nonzero: the centre on both axes, then
      the size on both axes.
    - scores: [batch, classes, boxes].
    - max_output_boxes_per_class: the most boxes that are selected for a batch and class. If it is absent, 0 or
      negative, no box is selected.
    - iou_threshold: a box is left out if its intersection over union (IoU) with a better selected box is larger; by
      default 0.
    - score_threshold: boxes with this score, a lower score or NaN are left out; by default no box is left out.
    """
    if max_output_boxes_per_class is None:
        return p.full((0, 3), 0, int64)
    count = scores.shape[2]
    limit = minimum(maximum(as_sizes(p.reshape(max_output_boxes_per_class, (1,)))[0], 0), count)
    slots = maximum(limit, 1)  # some frameworks reject an empty tensor here
    candidates = p.full(scores.shape, True, bool_)
    if score_threshold is None:
        ranked, order = p.top_k(scores, count, 2)
    else:
        minimum_score = p.reshape(score_threshold, ())
        ranked, order = p.top_k(
            p.where(p.greater(scores, minimum_score), scores, -math.inf), count, 2
        )  # NaN has no order
        candidates = p.greater(ranked, minimum_score)
    threshold = lift(0, float32) if iou_threshold is None else p.reshape(iou_threshold, ())
    edges = [
        p.take_along(p.broadcast_to(p.unsqueeze(edge, [1]), scores.shape), order, 2)
        for edge in _box_edges(boxes, bool(center_point_box))
    ]

    def has_candidates(k: Tensor, candidates: Tensor, selected: Tensor) -> Tensor:
        return p.logical_and(p.less(k, lift(limit, int64)), p.reduce_max(candidates))

    def select_next(k: Tensor, candidates: Tensor, selected: Tensor) -> List[Tensor]:
        best = p.unsqueeze(p.argmax(p.cast(candidates, float32), 2), [2])
        is_candidate = p.take_along(candidates, best, 2)
        suppressed = p.logical_or(p.equal(p.iota(count), best), _overlaps(edges, best, threshold))
        box = p.where(is_candidate, p.take_along(order, best, 2), -1)
        return [
            k + 1,
            p.logical_and(candidates, p.logical_not(suppressed)),
            p.where(p.equal(p.iota(slots), k), box, selected),
        ]

    no_boxes = p.full((*scores.shape[:2], slots), -1, int64)
    _, _, selected = p.while_loop(has_candidates, select_next, [lift(0, int64), candidates, no_boxes])
    positions = p.transpose(p.nonzero(p.greater_equal(selected, 0)), [1, 0])
    box_indices = p.unsqueeze(p.gather_nd(selected, positions), [1])
    return p.concat([p.slice_axis(positions, 1, 0, 2), box_indices], 1)


def _box_edges(boxes: Tensor, centered: bool) -> List[Any]:
    """Return the edges of the boxes on two axes as [lower, upper, lower, upper], each [batches, boxes].

    `boxes` is [batches, boxes, 4]: (centre, centre, size, size) if `centered`, else two opposite corners in any order.
    """
    a, b, c, d = (p.squeeze(part, [2]) for part in p.split(boxes, 2, [1] * 4))
    if centered:
        return [a - c / 2, a + c / 2, b - d / 2, b + d / 2]
    return [p.minimum(a, c), p.maximum(a, c), p.minimum(b, d), p.maximum(b, d)]


def _overlaps(edges: List[Any], best: Tensor, threshold: Tensor) -> Any:
    """Return whether the intersection over union (IoU) of each box with the best box exceeds the threshold.

    The result is a bool tensor [batch, classes, boxes]. It is False for an empty intersection.

    - edges: the edges on two axes, [lower, upper, lower, upper], each [batch, classes, boxes] and sorted by score.
    - best: the position of the best box in this order, [batch, classes, 1].
    """
    low_a, high_a, low_b, high_b = edges
    best_edges = [p.take_along(edge, best, 2) for edge in edges]
    intersection = p.mul(
        p.relu(p.sub(p.minimum(high_a, best_edges[1]), p.maximum(low_a, best_edges[0]))),
        p.relu(p.sub(p.minimum(high_b, best_edges[3]), p.maximum(low_b, best_edges[2]))),
    )
    areas = p.add(
        (high_a - low_a) * (high_b - low_b), (best_edges[1] - best_edges[0]) * (best_edges[3] - best_edges[2])
    )
    union = p.sub(areas, intersection)
    return p.logical_and(p.greater(intersection, 0), p.greater(p.div(intersection, union), threshold))

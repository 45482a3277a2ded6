"""NonMaxSuppression: of boxes that overlap, only the best."""

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
    """Round by round, for all batches and classes at once: the best box that is left is chosen, and takes out those
    that overlap it. `chosen` has a box for each round, or -1; what is there at the end is the result, in order.
    """
    if max_output_boxes_per_class is None:
        return p.full((0, 3), 0, int64)
    count = scores.shape[2]
    limit = minimum(maximum(as_sizes(p.reshape(max_output_boxes_per_class, (1,)))[0], 0), count)
    room = maximum(limit, 1)  # not every framework looks for nothing in an empty tensor
    left = p.full(scores.shape, True, bool_)
    if score_threshold is None:
        ranked, order = p.top_k(scores, count, 2)
    else:
        least = p.reshape(score_threshold, ())
        ranked, order = p.top_k(p.where(p.greater(scores, least), scores, -math.inf), count, 2)  # NaN has no rank
        left = p.greater(ranked, least)
    threshold = lift(0, float32) if iou_threshold is None else p.reshape(iou_threshold, ())
    edges = [
        p.take_along(p.broadcast_to(p.unsqueeze(edge, [1]), scores.shape), order, 2)
        for edge in _box_edges(boxes, bool(center_point_box))
    ]

    def another(k: Any, left: Any, chosen: Any) -> Tensor:
        return p.logical_and(p.less(k, lift(limit, int64)), p.reduce_max(left))

    def chosen_next(k: Any, left: Any, chosen: Any) -> List[Tensor]:
        best = p.unsqueeze(p.argmax(p.cast(left, float32), 2), [2])
        there = p.take_along(left, best, 2)
        taken = p.logical_or(p.equal(p.iota(count), best), _overlaps(edges, best, threshold))
        box = p.where(there, p.take_along(order, best, 2), -1)
        return [k + 1, p.logical_and(left, p.logical_not(taken)), p.where(p.equal(p.iota(room), k), box, chosen)]

    nothing = p.full((*scores.shape[:2], room), -1, int64)
    _, _, chosen = p.while_loop(another, chosen_next, [lift(0, int64), left, nothing])
    places = p.transpose(p.nonzero(p.greater_equal(chosen, 0)), [1, 0])
    found = p.unsqueeze(p.gather_nd(chosen, places), [1])
    return p.concat([p.slice_axis(places, 1, 0, 2), found], 1)


def _box_edges(boxes: Tensor, centered: bool) -> List[Any]:
    """The lower and upper ends on both axes: y, x (or x, y, which is as good), each [batches, boxes]."""
    a, b, c, d = (p.squeeze(part, [2]) for part in p.split(boxes, 2, [1] * 4))
    if centered:
        return [a - c / 2, a + c / 2, b - d / 2, b + d / 2]
    return [p.minimum(a, c), p.maximum(a, c), p.minimum(b, d), p.maximum(b, d)]


def _overlaps(edges: List[Any], best: Any, threshold: Any) -> Any:
    """Whether the boxes share more than the threshold with the best one, of what both cover together."""
    low_a, high_a, low_b, high_b = edges
    own = [p.take_along(edge, best, 2) for edge in edges]
    shared = p.mul(
        p.relu(p.sub(p.minimum(high_a, own[1]), p.maximum(low_a, own[0]))),
        p.relu(p.sub(p.minimum(high_b, own[3]), p.maximum(low_b, own[2]))),
    )
    areas = p.add((high_a - low_a) * (high_b - low_b), (own[1] - own[0]) * (own[3] - own[2]))
    together = p.sub(areas, shared)
    return p.logical_and(p.greater(shared, 0), p.greater(p.div(shared, together), threshold))

"""Depthwise convolutions with more taps than XNNPACK has a kernel for, as the sum of several with fewer.

Beyond 25 taps XNNPACK treats each channel as a convolution of its own, which takes about seven times as long a tap. Taps
that lie evenly about the middle are a convolution with a dilation, whose SAME padding is that of the whole. (What is not finite
reaches a few pixels further than it should, as with every filter of other than 3, 4, 9 or 25 taps: XNNPACK fills those up
with pixels nearby, times zero.)
"""

from functools import lru_cache
from typing import List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["share_taps"]

_TAPS = 25
_MOST = 16  # operators that one may become

_Part = Tuple[Sequence[int], Sequence[int]]


def share_taps(graph: fb.SubGraph) -> None:
    view = View(graph)
    result: List[fb.OperatorSpec] = []
    for operator in graph.operators:
        parts = _parts(view, operator)
        result += [operator] if parts is None else _sum(view, operator, parts)
    graph.operators = result


def _parts(view: View, operator: fb.OperatorSpec) -> Optional[List[_Part]]:
    """Which rows and columns of the filter go together, where there are too many."""
    options = operator.options
    if operator.builtin != "DEPTHWISE_CONV_2D" or options.get("padding") != "SAME":
        return None
    weights = view.constant(operator.inputs[1])
    if weights is None or np.asarray(weights).dtype != np.float32 or options.get("depth_multiplier", 1) != 1:
        return None
    steps = [options.get(name, 1) for name in ("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor")]
    _, height, width, _ = np.shape(weights)
    if steps != [1, 1, 1, 1] or height * width <= _TAPS:
        return None
    sizes = [(rows, columns) for rows in range(1, _TAPS + 1) for columns in range(1, _TAPS // rows + 1)]
    ways = [[(a, b) for a in _even(height, rows) for b in _even(width, columns)] for rows, columns in sizes]
    best = min((way for way in ways if way), key=len)
    return best if len(best) <= _MOST else None


@lru_cache(maxsize=None)
def _even(length: int, most: int) -> List[Sequence[int]]:
    """The places of an axis in rows of `most` at most, evenly spaced and as far from either end; none if that cannot be."""
    found: List[Sequence[int]] = []
    left = set(range(length)) if most > 1 or length == 1 else set()
    while left:
        rows = [
            range(start, length - start, step)
            for start in range((length + 1) // 2)
            for step in range(1, length + 1)
            if (length - 1 - 2 * start) % step == 0
        ]
        found.append(max((row for row in rows if len(row) <= most and left.issuperset(row)), key=len))
        left.difference_update(found[-1])
    return found


def _sum(view: View, operator: fb.OperatorSpec, parts: Sequence[_Part]) -> List[fb.OperatorSpec]:
    """The bias goes with the first part, the activation to the sum of all."""
    graph = view.graph
    x, filter_, bias = operator.inputs
    (place,) = operator.outputs
    result, weights = graph.tensors[place], np.asarray(view.constant(filter_))
    zeros = np.zeros(weights.shape[3:], np.float32)
    nothing = graph.add(fb.TensorSpec(result.name + "/zeros", "float32", zeros.shape, zeros))

    def another(end: str) -> int:
        spec = fb.TensorSpec(result.name + end, "float32", result.shape, shape_signature=result.shape_signature)
        return graph.add(spec)

    made: List[fb.OperatorSpec] = []
    total = -1
    for k, (rows, columns) in enumerate(parts):
        taps = np.ascontiguousarray(weights[:, rows][:, :, columns])
        own = graph.add(fb.TensorSpec("%s/taps%d" % (result.name, k), "float32", taps.shape, taps))
        apart = {"dilation_h_factor": _step(rows), "dilation_w_factor": _step(columns)}
        options = dict(operator.options, fused_activation_function="NONE", **apart)
        part = another("/part%d" % k)
        made.append(fb.OperatorSpec("DEPTHWISE_CONV_2D", [x, own, nothing if k else bias], [part], options))
        if k:
            last = k == len(parts) - 1
            bound = operator.options.get("fused_activation_function", "NONE") if last else "NONE"
            sum_ = place if last else another("/sum%d" % k)
            made.append(fb.OperatorSpec("ADD", [total, part], [sum_], {"fused_activation_function": bound}))
            part = sum_
        total = part
    return made


def _step(places: Sequence[int]) -> int:
    return places[1] - places[0] if len(places) > 1 else 1

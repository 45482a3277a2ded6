"""DEPTHWISE_CONV_2D(x, w), of more than 25 taps  =>  DEPTHWISE_CONV_2D(x, w1) + DEPTHWISE_CONV_2D(x, w2) + ...

A part takes evenly spaced taps, symmetric about the centre: a smaller filter with a dilation, centred by SAME padding as w is.
For filters of more than 25 taps, XNNPACK runs a separate convolution for each channel, about seven times slower per tap.

Conditions: padding SAME, strides, dilations and depth multiplier 1, constant float32 filters, and at most 16 parts.

XNNPACK pads filters to 3, 4, 9 or 25 taps with zeros. So an infinite pixel makes some pixels NaN that the filter does not
reach, as for any filter of another size.
"""

from functools import lru_cache
from typing import List, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["depthwise_splitting"]

_MAX_TAPS = 25
_MAX_PARTS = 16

_Part = Tuple[Sequence[int], Sequence[int]]


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 9, 9, 2))
    shape = (1, 9, 9, 2)
    return graph.model(graph.conv(graph.inputs[0], graph.filters(1, 7, 7, 2), shape, "DEPTHWISE_CONV_2D", "SAME"))


@graph_pass(
    "depthwise_splitting", "DEPTHWISE_CONV_2D of > 25 taps => ADD of several with fewer taps", _example,
    after=("activation_fusion", "bias_folding", "channel_shuffles", "channel_scales"),
)  # fmt: skip
def depthwise_splitting(graph: GraphRewriter, context: Context) -> int:
    """Split each depthwise convolution of more than 25 taps into a sum of depthwise convolutions of at most 25 taps.

    Applies to padding SAME, strides, dilations and a depth multiplier of 1, and constant float32 filters that at most
    16 parts cover. Returns the number of split convolutions.
    """
    count = 0
    result: List[fb.OperatorSpec] = []
    for op in graph.operators:
        parts = _find_parts(graph, op)
        result += [op] if parts is None else _build_sum(graph, op, parts)
        count += parts is not None
    if count:
        graph.reorder(result)
    return count


def _find_parts(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[List[_Part]]:
    """Return the fewest parts of at most 25 taps into which the filter of `op` can be split: a list of (rows, columns).

    The rows and the columns of a part are ranges of positions in the filter. Returns None for another op, for a filter
    of at most 25 taps, or if a condition of the module docstring fails.
    """
    options = op.options
    if op.builtin != "DEPTHWISE_CONV_2D" or options.get("padding") != "SAME":
        return None
    weights = graph.constant(op.inputs[1])
    if weights is None or np.asarray(weights).dtype != np.float32 or options.get("depth_multiplier", 1) != 1:
        return None
    steps = [options.get(name, 1) for name in ("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor")]
    _, height, width, _ = np.shape(weights)
    if steps != [1, 1, 1, 1] or height * width <= _MAX_TAPS:
        return None
    sizes = [(rows, columns) for rows in range(1, _MAX_TAPS + 1) for columns in range(1, _MAX_TAPS // rows + 1)]
    ways = [[(a, b) for a in _split_axis(height, rows) for b in _split_axis(width, columns)] for rows, columns in sizes]
    best = min((way for way in ways if way), key=len)
    return best if len(best) <= _MAX_PARTS else None


@lru_cache(maxsize=None)
def _split_axis(length: int, most: int) -> List[Sequence[int]]:
    """Split range(length) into ranges of at most `most` positions, each symmetric about the centre.

    Example: length 5 with at most 3 positions gives range(0, 5, 2) and range(1, 4, 2). Returns [] only if `most` is 1
    and the length is not 1. The list is cached: do not change it.
    """
    parts: List[Sequence[int]] = []
    left = set(range(length)) if most > 1 or length == 1 else set()
    while left:
        ranges = [
            range(start, length - start, step)
            for start in range((length + 1) // 2)
            for step in range(1, length + 1)
            if (length - 1 - 2 * start) % step == 0
        ]
        parts.append(max((part for part in ranges if len(part) <= most and left.issuperset(part)), key=len))
        left.difference_update(parts[-1])
    return parts


def _build_sum(graph: GraphRewriter, op: fb.OperatorSpec, parts: Sequence[_Part]) -> List[fb.OperatorSpec]:
    """Return the convolutions of `parts` and the ADDs of their sum, which replace `op`, in the order of execution.

    The first convolution has the bias. The last ADD has the fused activation, and writes the result of `op`. Constants
    and tensors are appended to the subgraph, but the operators are not inserted.
    """
    x, filter_, bias = op.inputs
    (output,) = op.outputs
    name, weights = graph.tensor(output).name, np.asarray(graph.constant(filter_))
    zeros = graph.add_constant(name + "/zeros", np.zeros(weights.shape[3:], np.float32))
    built: List[fb.OperatorSpec] = []
    total = -1
    for k, (rows, columns) in enumerate(parts):
        taps = graph.add_constant("%s/taps%d" % (name, k), np.ascontiguousarray(weights[:, rows][:, :, columns]))
        dilations = {"dilation_h_factor": _step(rows), "dilation_w_factor": _step(columns)}
        options = dict(op.options, fused_activation_function="NONE", **dilations)
        part = graph.add_like(output, "%s/part%d" % (name, k), "float32")
        built.append(fb.OperatorSpec("DEPTHWISE_CONV_2D", [x, taps, zeros if k else bias], [part], options))
        if k:
            is_last = k == len(parts) - 1
            activation = op.options.get("fused_activation_function", "NONE") if is_last else "NONE"
            partial_sum = output if is_last else graph.add_like(output, "%s/sum%d" % (name, k), "float32")
            built.append(
                fb.OperatorSpec("ADD", [total, part], [partial_sum], {"fused_activation_function": activation})
            )
            part = partial_sum
        total = part
    return built


def _step(positions: Sequence[int]) -> int:
    return positions[1] - positions[0] if len(positions) > 1 else 1

"""TRANSPOSE_CONV(x), stride = filter size  =>  DEPTH_TO_SPACE(CONV_2D(x)) with 1x1 filters
TRANSPOSE_CONV(x), a single row          =>  RESHAPE(CONV_2D(x)) with 1x1 filters

The windows do not overlap, so each pixel becomes a block of its own. A 1x1 convolution computes the elements of the
block as channels. The TRANSPOSE_CONV kernel of XNNPACK takes two to nine times as long. An activation that is the only
reader is fused into the CONV_2D. If the stride is 1, the CONV_2D alone computes the row.

Conditions: padding VALID, strides equal to the filter sizes, constant float32 filters and, if any, a constant bias. The
filters are squares of 2x2 or more, or filters and result have height 1 and static sizes.
"""

from typing import List, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.activation_fusion import CLAMPS
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["disjoint_transpose_conv"]


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 2, 3, 2))
    shape = graph.constant([1, 4, 6, 3], np.int32)
    inputs = [shape, graph.filters(3, 2, 2, 2), graph.inputs[0]]
    return graph.model(graph.op("TRANSPOSE_CONV", inputs, (1, 4, 6, 3), padding="VALID", stride_h=2, stride_w=2))


@graph_pass(
    "disjoint_transpose_conv", "TRANSPOSE_CONV of disjoint windows => DEPTH_TO_SPACE(CONV_2D(x))", _example,
    after=("activation_fusion", "bias_folding"),
)  # fmt: skip
def disjoint_transpose_conv(graph: GraphRewriter, context: Context) -> int:
    """Replace each TRANSPOSE_CONV whose stride is its filter size by a 1x1 CONV_2D and a DEPTH_TO_SPACE or RESHAPE.

    A TRANSPOSE_CONV of stride 1 needs no operator behind the CONV_2D.

    Applies under the conditions of this module. The CONV_2D gets the fused activation of the TRANSPOSE_CONV. If the
    TRANSPOSE_CONV has none, and its only reader is a RELU, RELU6 or RELU_N1_TO_1, the reader is erased. The CONV_2D
    then gets this activation. Returns the number of replaced TRANSPOSE_CONVs.
    """
    count = 0
    result: List[fb.OperatorSpec] = []
    fused = set()
    for op in graph.operators:
        block = _block_sizes(graph, op)
        if block is None:
            result.append(op)
            continue
        reader = graph.only_reader(op.outputs[0])
        own = op.options.get("fused_activation_function", "NONE")
        if reader is not None and reader.builtin in CLAMPS and own == "NONE":
            fused.add(id(reader))
            result += _build_product(graph, op, block, reader.outputs[0], reader.builtin)
        else:
            result += _build_product(graph, op, block, op.outputs[0], own)
        count += 1
    if count:
        graph.reorder([op for op in result if id(op) not in fused])
    return count


def _block_sizes(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[Tuple[int, int]]:
    """Return the (height, width) of the block of results that a TRANSPOSE_CONV computes from each pixel.

    The blocks do not overlap, and each is complete, because the emitter requests the whole result. The filters must

    - be a float32 constant, with a bias that is constant or missing,
    - have the size of the strides,
    - be squares of 2x2 or more, or have height 1. With height 1, the result must have height 1 and static sizes.

    Returns None for other filters, for the padding SAME, and for another op.
    """
    if op.builtin != "TRANSPOSE_CONV" or op.options["padding"] != "VALID":
        return None
    weights, *bias = (graph.constant(index) for index in [op.inputs[1], *op.inputs[3:]])
    if weights is None or any(array is None for array in bias) or np.asarray(weights).dtype != np.float32:
        return None
    height, width = np.shape(weights)[1:3]
    if (height, width) != (op.options["stride_h"], op.options["stride_w"]):
        return None
    sizes = graph.sizes(op.outputs[0])
    is_row = height == 1 and all(size >= 0 for size in sizes) and sizes[1] == 1
    return (height, width) if is_row or height == width > 1 else None


def _build_product(
    graph: GraphRewriter, op: fb.OperatorSpec, block: Tuple[int, int], output: int, activation: str
) -> List[fb.OperatorSpec]:
    _, weights, x, *bias = op.inputs
    name, filter_ = graph.tensor(output).name, np.asarray(graph.constant(weights))
    count, filters, channels = block[0] * block[1], filter_.shape[0], filter_.shape[3]
    pixel_filters = filter_.transpose(1, 2, 0, 3).reshape(count * filters, 1, 1, channels)
    kernel = graph.add_constant(name + "/block", np.ascontiguousarray(pixel_filters))
    old_bias = graph.constant(bias[0]) if bias else np.zeros(filters, np.float32)
    new_bias = graph.add_constant(name + "/bias", np.tile(np.asarray(old_bias), count))
    options = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "fused_activation_function": activation}
    options.update(dilation_h_factor=1, dilation_w_factor=1)
    if count == 1:  # a block is a single pixel
        return [fb.OperatorSpec("CONV_2D", [x, kernel, new_bias], [output], options)]
    sizes = (*list(graph.sizes(x or 0))[:3], count * filters)
    depth = graph.add_tensor(name + "/depth", "float32", sizes)
    conv = fb.OperatorSpec("CONV_2D", [x, kernel, new_bias], [depth], options)
    if block[0] == block[1]:
        return [conv, fb.OperatorSpec("DEPTH_TO_SPACE", [depth], [output], {"block_size": block[0]})]
    shape = graph.add_constant(name + "/shape", np.asarray(graph.sizes(output), np.int32))
    return [conv, fb.OperatorSpec("RESHAPE", [depth, shape], [output])]

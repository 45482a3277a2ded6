"""ADD(MUL(x, scale), shift)  =>  DEPTHWISE_CONV_2D(x, scale, shift) with 1x1 filters

Batch normalization has this form if no layer precedes it, but a CONCATENATION or a RELU. With XNNPACK the depthwise
convolution takes a quarter to three quarters of the time.

Conditions: x has rank 4 (NHWC) and a known number of channels. scale and shift are float32 constants with one number,
or a number for each channel. No other operator reads the product, which has no activation. The activation of the ADD,
if any, is RELU or RELU6. The sum is no output, and all its readers are ops of `_WINDOWS`.

XNNPACK pads small filters with zeros, so an infinite pixel makes adjacent pixels NaN. Windows mix these pixels anyway.
"""

from typing import Optional, Tuple

import numpy as np

from onnx_compat.passes import channel_vector
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["channel_scales"]

_WINDOWS = ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MEAN")
_ACTIVATIONS = ("NONE", "RELU", "RELU6")


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 4, 4, 2))
    x = graph.op("MUL", [graph.inputs[0], graph.constant([2, 4])], (1, 4, 4, 2))
    x = graph.op("ADD", [x, graph.constant([1, -1])], (1, 4, 4, 2), fused_activation_function="RELU")
    return graph.model(graph.conv(x, graph.filters(3, 3, 3, 2), (1, 2, 2, 3)))


@graph_pass(
    "channel_scales", "ADD(MUL(x, scale), shift) => DEPTHWISE_CONV_2D(x, scale, shift), before windows", _example,
    after=("affine_after_layer", "affine_before_layer", "activation_fusion", "bias_folding"),
)  # fmt: skip
def channel_scales(graph: GraphRewriter, context: Context) -> int:
    """Replace a MUL and the ADD that reads its result, both by constants per channel, by a 1x1 DEPTHWISE_CONV_2D.

    Applies under the conditions of this module. The DEPTHWISE_CONV_2D gets the activation of the ADD. Returns the
    number of rewrites.
    """
    count = 0
    for op in graph.operators:
        total = _image_and_vector(graph, op, "ADD")
        product = None if total is None else graph.producer(total[0], "MUL")
        scaled = None if product is None else _image_and_vector(graph, product, "MUL")
        if total is None or product is None or scaled is None or not _can_replace(graph, op, product):
            continue
        name = graph.tensor(op.outputs[0]).name
        filters = graph.add_constant(name + "/filters", scaled[1].reshape(1, 1, 1, -1))
        bias = graph.add_constant(name + "/bias", total[1])
        activation = op.options.get("fused_activation_function", "NONE")
        steps = dict.fromkeys(("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor", "depth_multiplier"), 1)
        inputs = [scaled[0], filters, bias]
        graph.replace_op(
            op, "DEPTHWISE_CONV_2D", inputs, padding="VALID", fused_activation_function=activation, **steps
        )
        graph.erase(product)
        count += 1
    return count


def _image_and_vector(graph: GraphRewriter, op: fb.OperatorSpec, builtin: str) -> Optional[Tuple[int, np.ndarray]]:
    """Return (index of the NHWC tensor, vector with a number for each channel), the operands of `op`.

    One operand is a float32 constant with a number for each channel, or a single number, which is repeated. The other
    operand is no constant, and has rank 4 and a known number of channels.

    Returns None for other operands, and if `op` is not the op `builtin`.
    """
    if op.builtin != builtin:
        return None
    for x, constant in (op.inputs, op.inputs[::-1]):
        array = graph.constant(constant)
        if array is None or x is None or graph.constant(x) is not None or np.asarray(array).dtype != np.float32:
            continue
        sizes = graph.sizes(x)
        vector = channel_vector(array, 3, 4, sizes[3]) if len(sizes) == 4 and sizes[3] >= 1 else None
        if vector is not None:
            return x, np.ascontiguousarray(np.broadcast_to(vector, sizes[3:]))
    return None


def _can_replace(graph: GraphRewriter, total: fb.OperatorSpec, product: fb.OperatorSpec) -> bool:
    """Whether only `total` (ADD) reads the result of `product` (MUL), and only ops of `_WINDOWS` read the sum.

    Neither result may be an output, and the sum needs a reader. The product must have no activation, and the sum none
    or one that DEPTHWISE_CONV_2D can fuse.
    """
    readers = graph.readers(total.outputs[0])
    return (
        is_unfused(product)
        and total.options.get("fused_activation_function", "NONE") in _ACTIVATIONS
        and graph.is_only_read_by(product.outputs[0], total)
        and not graph.is_output(total.outputs[0])
        and bool(readers)
        and all(reader.builtin in _WINDOWS for reader in readers)
    )

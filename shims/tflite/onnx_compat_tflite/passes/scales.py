"""A factor and a summand for each channel of an image as one depthwise convolution of a single tap.

They are what is left of a normalisation that no layer could take: it stands behind a CONCATENATION, or a RELU between it and
its layer. XNNPACK takes three quarters of the time for it at most, and a quarter for few channels, which it multiplies pixel
by pixel. As it fills filters up with pixels nearby, times zero, what is not finite would reach these. So all that reads the
result has to look at windows itself.
"""

from typing import Any, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["scale_channels"]

_WINDOWS = ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D", "MEAN")
_BOUNDS = ("NONE", "RELU", "RELU6")


def scale_channels(graph: fb.SubGraph) -> None:
    """MUL and ADD as DEPTHWISE_CONV_2D."""
    view = View(graph)
    for operator in list(graph.operators):
        sum_ = _by_channel(view, operator, "ADD")
        product = None if sum_ is None else view.writer(sum_[0], "MUL")
        scaled = None if product is None else _by_channel(view, product, "MUL")
        if sum_ is None or product is None or scaled is None or not _taken(view, operator, product):
            continue
        name = graph.tensors[operator.outputs[0]].name
        filters = scaled[1].reshape(1, 1, 1, -1)
        tensors = [
            graph.add(fb.TensorSpec("%s/%s" % (name, kind), "float32", array.shape, array))
            for kind, array in (("filters", filters), ("bias", sum_[1]))
        ]
        bound = operator.options.get("fused_activation_function", "NONE")
        steps = dict.fromkeys(("stride_h", "stride_w", "dilation_h_factor", "dilation_w_factor", "depth_multiplier"), 1)
        inputs = [scaled[0], *tensors]
        view.turn_into(operator, "DEPTHWISE_CONV_2D", inputs, padding="VALID", fused_activation_function=bound, **steps)
        view.remove(product)


def _by_channel(view: View, operator: fb.OperatorSpec, builtin: str) -> Optional[Tuple[int, Any]]:
    """The image, and a number for each of its channels."""
    if operator.builtin != builtin:
        return None
    for x, other in (operator.inputs, operator.inputs[::-1]):
        array = view.constant(other)
        if array is None or x is None or view.constant(x) is not None or np.asarray(array).dtype != np.float32:
            continue
        sizes, array = view.sizes(x), np.asarray(array)
        if len(sizes) != 4 or sizes[3] < 1 or array.ndim > 4 or array.size not in (1, sizes[3]):
            continue
        if array.size == max(array.shape[-1:], default=1):
            return x, np.ascontiguousarray(np.broadcast_to(array.reshape(-1), sizes[3:]))
    return None


def _taken(view: View, sum_: fb.OperatorSpec, product: fb.OperatorSpec) -> bool:
    """Whether nobody needs the product, and only what looks at windows the sum."""
    readers = view.readers(sum_.outputs[0])
    return (
        product.options.get("fused_activation_function", "NONE") == "NONE"
        and sum_.options.get("fused_activation_function", "NONE") in _BOUNDS
        and view.only_read_by(product.outputs[0], sum_)
        and sum_.outputs[0] not in view.graph.outputs
        and bool(readers)
        and all(reader.builtin in _WINDOWS for reader in readers)
    )

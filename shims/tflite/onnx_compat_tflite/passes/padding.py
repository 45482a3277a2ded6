"""A PAD of zeros before a convolution, where it is what that convolution calls SAME."""

from typing import Any, Optional, Sequence

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.emitter.windows import padding_of
from onnx_compat_tflite.passes.view import View

__all__ = ["fold_padding"]


def fold_padding(graph: fb.SubGraph) -> None:
    """The convolution then reads what the PAD did; the PAD is swept away if nobody else needs it."""
    view = View(graph)
    for operator in graph.operators:
        if operator.builtin in ("CONV_2D", "DEPTHWISE_CONV_2D") and operator.options.get("padding") == "VALID":
            pad = view.writer(operator.inputs[0], "PAD")
            if pad is not None and pad.inputs[0] is not None and _is_same(view, pad, operator):
                view.read_instead(operator, 0, pad.inputs[0])
                operator.options["padding"] = "SAME"


def _is_same(view: View, pad: fb.OperatorSpec, conv: fb.OperatorSpec) -> bool:
    ends: Optional[Any] = view.constant(pad.inputs[1])
    if ends is None or np.any(ends[0]) or np.any(ends[3]):
        return False
    kernel = view.sizes(conv.inputs[1] or 0)[1:3]
    strides = [conv.options["stride_h"], conv.options["stride_w"]]
    dilations = [conv.options.get("dilation_h_factor", 1), conv.options.get("dilation_w_factor", 1)]
    space: Sequence[Any] = [size if size >= 0 else None for size in view.sizes(pad.inputs[0] or 0)[1:3]]
    pads = [(int(low), int(high)) for low, high in ends[1:3]]
    return padding_of(space, kernel, strides, dilations, pads) == "SAME"

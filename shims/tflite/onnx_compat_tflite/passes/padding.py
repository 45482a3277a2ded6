"""A PAD of zeros before a convolution, where it is what that convolution calls SAME; and one behind a TRANSPOSE."""

from typing import Any, Optional, Sequence

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.emitter.windows import padding_of
from onnx_compat_tflite.passes.view import View

__all__ = ["fold_padding", "pad_rows"]


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


def pad_rows(graph: fb.SubGraph) -> None:
    """A PAD copies row by row: of an image that comes with its channels first, before they are put last, which makes rows
    of three numbers.
    """
    view = View(graph)
    for pad in list(graph.operators):
        transpose = view.writer(pad.inputs[0], "TRANSPOSE") if pad.builtin == "PAD" else None
        if transpose is None or not view.only_read_by(transpose.outputs[0], pad):
            continue
        order, ends = view.constant(transpose.inputs[1]), view.constant(pad.inputs[1])
        source = transpose.inputs[0] or 0
        if order is None or ends is None or graph.tensors[source].dtype != "float32":
            continue
        row, other = view.sizes(source)[-1], view.sizes(pad.inputs[0] or 0)[-1]
        if other > 0 and (row < 0 or row > other):
            _swap(view, transpose, pad, np.asarray(order), np.asarray(ends))


def _swap(view: View, transpose: fb.OperatorSpec, pad: fb.OperatorSpec, order: Any, ends: Any) -> None:
    graph, back = view.graph, np.argsort(order)
    name, sizes = graph.tensors[pad.outputs[0]].name, view.sizes(pad.outputs[0])
    around = graph.add(fb.TensorSpec(name + "/ends", ends.dtype.name, ends.shape, ends[back]))
    padded = graph.add(fb.TensorSpec(name + "/rows", "float32", [sizes[place] for place in back]))
    source, permutation, result = transpose.inputs[0], transpose.inputs[1], pad.outputs[0]
    transpose.builtin, transpose.inputs, transpose.outputs = "PAD", [source, around], [padded]
    pad.builtin, pad.inputs, pad.outputs = "TRANSPOSE", [padded, permutation], [result]
    transpose.options, pad.options = pad.options, transpose.options

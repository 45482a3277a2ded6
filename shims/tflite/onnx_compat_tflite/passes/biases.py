"""A number for each channel that is added later than it could be, as the bias of what made the channels.

Exporters add it behind a reshape, which leaves the last axis as it is, or to the sum of two products, as in the gates of a
recurrent cell. What is added directly was folded before anything was emitted.
"""

from typing import Any, List, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["join_biases"]

_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_RESHAPES = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")


def join_biases(graph: fb.SubGraph) -> None:
    """The ADD is gone; what was before it writes its result, and what bounds it bounds what made it."""
    view = View(graph)
    for operator in list(graph.operators):
        found = _found(view, operator) if operator.builtin == "ADD" else None
        if found is None:
            continue
        x, vector, layer = found
        bound = operator.options.get("fused_activation_function", "NONE")
        if bound != "NONE":
            maker = _maker(view, x)
            maker.options = dict(maker.options, fused_activation_function=bound)
        _add(view, layer, vector)
        _rename(view, layer.outputs[0], x)
        view.written(x).outputs = list(operator.outputs)
        graph.operators.remove(operator)
        view = View(graph)


def _found(view: View, operator: fb.OperatorSpec) -> Optional[Tuple[int, Any, fb.OperatorSpec]]:
    """The tensor, the number for each place of its last axis that is added, and the layer that may add it."""
    for x, constant in (operator.inputs, list(operator.inputs)[::-1]):
        vector = _vector(view, operator, constant)
        layer = None if x is None or vector is None else _layer(view, x, operator, vector.size)
        if x is not None and layer is not None:
            return x, vector, layer
    return None


def _vector(view: View, operator: fb.OperatorSpec, index: Optional[int]) -> Any:
    sizes, array = view.sizes(operator.outputs[0]), view.constant(index)
    if array is None or not sizes or sizes[-1] < 1:
        return None
    array, count = np.asarray(array), sizes[-1]
    alone = array.size == 1 or (array.size == count and array.shape[-1] == count)
    return np.broadcast_to(array.reshape(-1), (count,)) if alone else None


def _layer(view: View, index: int, reader: fb.OperatorSpec, count: int) -> Optional[fb.OperatorSpec]:
    """What makes so many channels for this reader alone, in as many numbers as the reader gives, directly or behind
    reshapes and sums.
    """
    sizes, wanted = view.sizes(index), view.sizes(reader.outputs[0])
    if not view.only_read_by(index, reader) or not sizes or sizes[-1] != count:
        return None
    if reader.builtin == "ADD" and tuple(sizes) != tuple(wanted):
        return None
    layer = view.writer(index, *_LAYERS)
    if layer is not None:
        return layer if _takes(view, layer) else None
    inner = view.writer(index, "ADD", *_RESHAPES)
    if inner is None or inner.options.get("fused_activation_function", "NONE") != "NONE":
        return None
    if len(set(inner.inputs)) < len(inner.inputs):  # a number that is added to itself
        return None
    found = (None if place is None else _layer(view, place, inner, count) for place in inner.inputs)
    return next((one for one in found if one is not None), None)


def _takes(view: View, layer: fb.OperatorSpec) -> bool:
    weights, bias = (view.constant(index) for index in [*layer.inputs[1:], None][:2])
    told = len(layer.inputs) < 3 or layer.inputs[2] is None or bias is not None
    unbound = layer.options.get("fused_activation_function", "NONE") == "NONE"
    return bool(told and unbound and np.asarray(weights).dtype == np.float32)  # of None it is another one


def _maker(view: View, index: int) -> fb.OperatorSpec:
    """What makes the numbers of a tensor that are only reshaped since."""
    inner = view.written(index)
    while inner.builtin in _RESHAPES:
        inner = view.written(inner.inputs[0] or 0)
    return inner


def _rename(view: View, index: int, last: int) -> None:
    """A tensor bears the name of the model's value that it holds, and these hold another now."""
    view.graph.tensors[index].name += "/with_bias"
    if index != last:
        (reader,) = view.readers(index)
        _rename(view, reader.outputs[0], last)


def _add(view: View, layer: fb.OperatorSpec, vector: Any) -> None:
    inputs: List[Optional[int]] = [*layer.inputs, None][:3]
    bias = view.constant(inputs[2])
    total = vector if bias is None else np.asarray(bias) + vector
    name = view.graph.tensors[layer.outputs[0]].name + "/bias"
    array = np.ascontiguousarray(total, np.float32)
    inputs[2] = view.graph.add(fb.TensorSpec(name, "float32", array.shape, array))
    layer.inputs = inputs

"""Factors and summands of channels behind a layer, as part of its filters and its bias."""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["fold_into_filters"]

#: The axis of the filters along which the channels of the result are.
_LAYERS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
_LARGE = 1 << 16  # bytes of filters that are not written once more because others read them too


class _Change(NamedTuple):
    factor: Any
    summand: Any


_Made = Dict[Tuple[int, int, bytes], int]


def fold_into_filters(graph: fb.SubGraph) -> None:
    """Where nobody else reads what is in between: what comes of a normalisation that is spelt out, or of a change of sign."""
    view = View(graph)
    made: _Made = {}
    for layer in list(graph.operators):
        while layer.builtin in _LAYERS and _folded(view, layer, made):
            pass


def _folded(view: View, layer: fb.OperatorSpec, made: _Made) -> bool:
    """Whether the operator behind a layer went into it."""
    readers = view.readers(layer.outputs[0])
    if len(readers) != 1 or layer.outputs[0] in view.graph.outputs:
        return False
    if layer.options.get("fused_activation_function", "NONE") != "NONE":
        return False
    change = _change(view, readers[0], layer.outputs[0])
    if change is None or not _applied(view, layer, change, made):
        return False
    layer.options = dict(
        layer.options, fused_activation_function=readers[0].options.get("fused_activation_function", "NONE")
    )
    view.take_over(layer, readers[0])
    return True


def _change(view: View, operator: fb.OperatorSpec, source: int) -> Optional[_Change]:
    """What an operator multiplies with and then adds to each channel."""
    if operator.builtin == "NEG":
        return _Change(np.float32(-1), np.float32(0))
    if operator.builtin not in ("ADD", "DIV", "MUL", "SUB") or len(operator.inputs) != 2:
        return None
    other = operator.inputs[1 - list(operator.inputs).index(source)]
    array, channels = view.constant(other), view.sizes(source)[-1]
    if array is None or np.asarray(array).dtype != np.float32 or other == source:
        return None
    array = np.asarray(array)
    if (
        array.ndim > len(view.sizes(source))
        or array.size not in (1, channels)
        or array.size != max(array.shape[-1:], default=1)
    ):
        return None
    array, first = array.reshape(-1), operator.inputs[0] == source
    if operator.builtin == "MUL":
        return _Change(array, np.float32(0))
    if operator.builtin == "DIV":
        return _Change(1 / array, np.float32(0)) if first and array.all() else None
    if operator.builtin == "ADD" or first:
        return _Change(np.float32(1), array if operator.builtin == "ADD" else -array)
    return _Change(np.float32(-1), array)


def _applied(view: View, layer: fb.OperatorSpec, change: _Change, made: _Made) -> bool:
    """Whether the layer could be given other filters and another bias."""
    place = layer.inputs[1]
    filters = view.constant(place)
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    before = np.float32(0) if bias is None else view.constant(bias)
    if place is None or filters is None or before is None or np.asarray(filters).dtype != np.float32:
        return False
    filters, axis = np.asarray(filters), _LAYERS[layer.builtin]
    if len(view.readers(place)) > 1 and filters.nbytes > _LARGE and not np.all(change.factor == 1):
        return False
    along = [1] * filters.ndim
    along[axis] = -1
    with np.errstate(all="ignore"):
        scaled = filters * np.asarray(change.factor).reshape(along)
        moved = np.asarray(before) * change.factor + change.summand
    moved = np.broadcast_to(moved, filters.shape[axis : axis + 1]).astype(np.float32)
    if not (_held(scaled, filters) and np.isfinite(moved).all()):
        return False
    name = view.graph.tensors[layer.outputs[0]].name
    if not np.all(change.factor == 1):
        key = (place, axis, np.asarray(change.factor).tobytes())
        if key not in made:
            made[key] = view.graph.add(fb.TensorSpec(name + "/filters", "float32", filters.shape, scaled))
        place = made[key]
    bias = view.graph.add(fb.TensorSpec(name + "/bias", "float32", moved.shape, moved))
    view.turn_into(layer, layer.builtin, [layer.inputs[0] or 0, place, bias], **layer.options)
    return True


def _held(scaled: Any, filters: Any) -> bool:
    """Whether a product is still exact to its last digits."""
    small = (np.abs(scaled) < np.finfo(np.float32).tiny) & (filters != 0)
    return bool(np.isfinite(scaled).all() and not small.any())

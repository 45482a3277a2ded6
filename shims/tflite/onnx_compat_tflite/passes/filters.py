"""Factors and summands of channels behind a layer or before it, as part of its filters and its bias.

A layer is linear: (W x + b) * f + s is (f W) x + (f b + s), and W (x * f + s) + b is (W f) x + (W s + b).
"""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["fold_into_filters", "fold_into_next_filters", "scale_layer"]

#: The axis of the filters along which the channels of the result are.
_LAYERS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
_LARGE = 1 << 16  # bytes of filters that are not written once more because others read them too


class _Change(NamedTuple):
    factor: Any
    summand: Any


_Made = Dict[Tuple[int, int, bytes], int]


def fold_into_filters(graph: fb.SubGraph) -> None:
    """What multiplies or adds behind a layer goes into it, if nobody else reads what is in between: a normalisation that
    is spelt out, or a change of sign.
    """
    view = View(graph)
    made: _Made = {}
    for layer in list(graph.operators):
        while layer.builtin in _LAYERS and _folded(view, layer, made):
            pass


def fold_into_next_filters(graph: fb.SubGraph) -> None:
    """What multiplies or adds before layers goes into them, if they are all that read it and look at one pixel each (a
    larger window would see borders that are not changed): the last steps of a normalisation.
    """
    view = View(graph)
    for operator in graph.operators[::-1]:
        source = next((index for index in operator.inputs if index is not None and view.constant(index) is None), None)
        readers = view.readers(operator.outputs[0])
        if source is None or not view.sizes(source) or operator.outputs[0] in graph.outputs or not readers:
            continue
        if operator.options.get("fused_activation_function", "NONE") != "NONE":
            continue
        change = _change(view, operator, source)
        made = [None if change is None else _before(view, reader, operator.outputs[0], change) for reader in readers]
        if all(one is not None for one in made):
            for reader, one in zip(readers, made):
                if one is not None:
                    _give(view, reader, source, *one)
            view.remove(operator)


def _before(view: View, layer: fb.OperatorSpec, source: int, change: _Change) -> Any:
    """The filters and the bias of a layer that gives the same of what was not changed."""
    if layer.builtin not in ("CONV_2D", "FULLY_CONNECTED") or list(layer.inputs).count(source) != 1:
        return None
    filters, bias = (view.constant(index) for index in [*layer.inputs, None][1:3])
    lacking = len(layer.inputs) < 3 or layer.inputs[2] is None
    if filters is None or (bias is None and not lacking) or np.asarray(filters).dtype != np.float32:
        return None
    filters, pixel = np.asarray(filters), np.asarray(filters).shape[1:-1]
    if filters.shape[-1] != view.sizes(source)[-1] or any(size != 1 for size in pixel):
        return None
    if len(view.readers(layer.inputs[1] or 0)) > 1 and filters.nbytes > _LARGE:
        return None
    with np.errstate(all="ignore"):
        scaled = filters * change.factor
        summand = np.broadcast_to(np.asarray(change.summand, np.float64), filters.shape[-1:])
        moved = filters.reshape(-1, filters.shape[-1]) @ summand + (0 if bias is None else np.asarray(bias, np.float64))
        moved = moved.astype(np.float32)
    return (scaled, moved) if _held(scaled, filters) and np.isfinite(moved).all() else None


def _give(view: View, layer: fb.OperatorSpec, source: int, filters: Any, bias: Any) -> None:
    name = view.graph.tensors[layer.outputs[0]].name
    places = [
        view.graph.add(fb.TensorSpec("%s/%s" % (name, kind), "float32", array.shape, array))
        for kind, array in (("filters", filters), ("bias", bias))
    ]
    view.turn_into(layer, layer.builtin, [source, *places], **layer.options)


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


def scale_layer(view: View, layer: fb.OperatorSpec, factor: float) -> bool:
    """Whether a layer could be made to give so much more."""
    return _applied(view, layer, _Change(np.float32(factor), np.float32(0)), {})


def _change(view: View, operator: fb.OperatorSpec, source: int) -> Optional[_Change]:
    """What an operator multiplies each channel with and then adds to it, if both are known and give it no more axes."""
    if operator.builtin == "NEG":
        return _Change(np.float32(-1), np.float32(0))
    if operator.builtin not in ("ADD", "DIV", "MUL", "SUB"):
        return None
    other = operator.inputs[1 - list(operator.inputs).index(source)]
    array, channels = view.constant(other), view.sizes(source)[-1]
    if array is None:
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

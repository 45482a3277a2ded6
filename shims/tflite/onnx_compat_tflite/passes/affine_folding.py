"""CONV_2D(x, w, b) * f + s    =>  CONV_2D(x, f * w, f * b + s)
    CONV_2D(x * f + s, w, b)    =>  CONV_2D(x, w * f, w @ s + b), for 1x1 filters

Both rewrites apply to FULLY_CONNECTED too, the first also to DEPTHWISE_CONV_2D.

Conditions: f and s are constants with a number for each channel, and the weights keep their precision. No other operator
reads the values in between, which have no activation.
"""

from typing import Any, Dict, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["affine_after_layer", "affine_before_layer", "scale_layer"]

#: The axis of the filters along which the channels of the result are.
_LAYERS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
_MAX_COPIED = 1 << 16  # bytes of filters that are duplicated because another layer reads them too


Array = Any  # An array or a scalar of numpy.


class _Affine(NamedTuple):
    """x * factor + summand, for each channel."""

    factor: Array
    summand: Array


_Scaled = Dict[Tuple[int, int, bytes], int]


def _after_example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 4, 4, 2))
    x = graph.conv(graph.inputs[0], graph.filters(3, 1, 1, 2), (1, 4, 4, 3))
    return graph.model(graph.op("MUL", [x, graph.constant([1, 2, 4])], (1, 4, 4, 3)))


# Before activations are fused: the first operator behind a layer has to be the affine one.
@graph_pass(
    "affine_after_layer", "CONV_2D(x, w, b) * f + s => CONV_2D(x, f*w, f*b + s); also FULLY_CONNECTED", _after_example,
    after=("attention_scale", "dead_code"), before=("activation_fusion",),
)  # fmt: skip
def affine_after_layer(graph: GraphRewriter, context: Context) -> int:
    """Fold the factors, summands and negations behind a layer into its filters and its bias."""
    count = 0
    scaled: _Scaled = {}
    for layer in graph.operators:
        while layer.builtin in _LAYERS and _fold_reader(graph, layer, scaled):
            count += 1
    return count


def _before_example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 4, 4, 2))
    x = graph.op("MUL", [graph.inputs[0], graph.constant([2, 4])], (1, 4, 4, 2))
    return graph.model(graph.conv(x, graph.filters(3, 1, 1, 2), (1, 4, 4, 3)))


@graph_pass(
    "affine_before_layer", "CONV_2D(x * f + s, w, b) => CONV_2D(x, w*f, w @ s + b), for 1x1 filters", _before_example,
    after=("affine_after_layer",), before=("activation_fusion",),
)  # fmt: skip
def affine_before_layer(graph: GraphRewriter, context: Context) -> int:
    """Fold a factor or a summand into the layers that read it, if all its readers are layers with 1x1 filters.

    A larger window would read padding, which is not scaled.
    """
    count = 0
    for op in graph.operators[::-1]:
        source = next((index for index in op.inputs if index is not None and graph.constant(index) is None), None)
        readers = graph.readers(op.outputs[0])
        if source is None or not graph.sizes(source) or graph.is_output(op.outputs[0]) or not readers:
            continue
        affine = _find_affine(graph, op, source) if is_unfused(op) else None
        weights = [None if affine is None else _fold_into(graph, reader, op.outputs[0], affine) for reader in readers]
        if all(pair is not None for pair in weights):
            for reader, pair in zip(readers, weights):
                if pair is not None:
                    _set_weights(graph, reader, source, *pair)
            graph.erase(op)
            count += 1
    return count


def _fold_into(
    graph: GraphRewriter, layer: fb.OperatorSpec, source: int, affine: _Affine
) -> Optional[Tuple[Array, Array]]:
    """Return the filters and the bias that replace the affine operator before a layer. None if it cannot be folded."""
    if layer.builtin not in ("CONV_2D", "FULLY_CONNECTED") or list(layer.inputs).count(source) != 1:
        return None
    filters, bias = (graph.constant(index) for index in [*layer.inputs, None][1:3])
    has_no_bias = len(layer.inputs) < 3 or layer.inputs[2] is None
    if filters is None or (bias is None and not has_no_bias) or np.asarray(filters).dtype != np.float32:
        return None
    filters, pixel = np.asarray(filters), np.asarray(filters).shape[1:-1]
    if filters.shape[-1] != graph.sizes(source)[-1] or any(size != 1 for size in pixel):
        return None
    if len(graph.readers(layer.inputs[1] or 0)) > 1 and filters.nbytes > _MAX_COPIED:
        return None
    with np.errstate(all="ignore"):
        scaled = filters * affine.factor
        summand = np.broadcast_to(np.asarray(affine.summand, np.float64), filters.shape[-1:])
        shift = filters.reshape(-1, filters.shape[-1]) @ summand
        moved = (shift + (0 if bias is None else np.asarray(bias, np.float64))).astype(np.float32)
    return (scaled, moved) if _is_precise(scaled, filters) and np.isfinite(moved).all() else None


def _set_weights(graph: GraphRewriter, layer: fb.OperatorSpec, source: int, filters: Array, bias: Array) -> None:
    name = graph.tensor(layer.outputs[0]).name
    weights = [
        graph.add_constant("%s/%s" % (name, kind), array) for kind, array in (("filters", filters), ("bias", bias))
    ]
    graph.set_inputs(layer, [source, *weights])


def _fold_reader(graph: GraphRewriter, layer: fb.OperatorSpec, scaled: _Scaled) -> bool:
    """Fold the operator behind a layer into it. Returns whether that could be done."""
    reader = graph.only_reader(layer.outputs[0])
    if reader is None or not is_unfused(layer):
        return False
    affine = _find_affine(graph, reader, layer.outputs[0])
    if affine is None or not _apply_affine(graph, layer, affine, scaled):
        return False
    graph.set_options(layer, fused_activation_function=reader.options.get("fused_activation_function", "NONE"))
    graph.take_outputs(layer, reader)
    return True


def scale_layer(graph: GraphRewriter, layer: fb.OperatorSpec, factor: float) -> bool:
    """Multiply the filters and the bias of a layer by a number. Returns whether that could be done."""
    return _apply_affine(graph, layer, _Affine(np.float32(factor), np.float32(0)), {})


def _find_affine(graph: GraphRewriter, op: fb.OperatorSpec, source: int) -> Optional[_Affine]:
    """Return the affine map of an operator on the channels of `source`. None if it is not affine, not constant, or adds axes."""
    if op.builtin == "NEG":
        return _Affine(np.float32(-1), np.float32(0))
    if op.builtin not in ("ADD", "DIV", "MUL", "SUB"):
        return None
    operand = op.inputs[1 - list(op.inputs).index(source)]
    array, channels = graph.constant(operand), graph.sizes(source)[-1]
    if array is None:
        return None
    array = np.asarray(array)
    if (
        array.ndim > len(graph.sizes(source))
        or array.size not in (1, channels)
        or array.size != max(array.shape[-1:], default=1)
    ):
        return None
    array, is_first = array.reshape(-1), op.inputs[0] == source
    if op.builtin == "MUL":
        return _Affine(array, np.float32(0))
    if op.builtin == "DIV":
        return _Affine(1 / array, np.float32(0)) if is_first and array.all() else None
    if op.builtin == "ADD" or is_first:
        return _Affine(np.float32(1), array if op.builtin == "ADD" else -array)
    return _Affine(np.float32(-1), array)


def _apply_affine(graph: GraphRewriter, layer: fb.OperatorSpec, affine: _Affine, scaled: _Scaled) -> bool:
    """Give a layer other filters and another bias. Returns whether they are known and keep their precision.

    scaled: the filters that were added already, by the tensor, the axis and the factor.
    """
    index = layer.inputs[1]
    filters = graph.constant(index)
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    old_bias = np.float32(0) if bias is None else graph.constant(bias)
    if index is None or filters is None or old_bias is None or np.asarray(filters).dtype != np.float32:
        return False
    filters, axis, keeps_filters = np.asarray(filters), _LAYERS[layer.builtin], np.all(affine.factor == 1)
    if len(graph.readers(index)) > 1 and filters.nbytes > _MAX_COPIED and not keeps_filters:
        return False
    along = [1] * filters.ndim
    along[axis] = -1
    with np.errstate(all="ignore"):
        product = filters * np.asarray(affine.factor).reshape(along)
        moved = np.asarray(old_bias) * affine.factor + affine.summand
    moved = np.broadcast_to(moved, filters.shape[axis : axis + 1]).astype(np.float32)
    if not (_is_precise(product, filters) and np.isfinite(moved).all()):
        return False
    name = graph.tensor(layer.outputs[0]).name
    if not keeps_filters:
        key = (index, axis, np.asarray(affine.factor).tobytes())
        if key not in scaled:
            scaled[key] = graph.add_constant(name + "/filters", product)
        index = scaled[key]
    graph.set_inputs(layer, [layer.inputs[0] or 0, index, graph.add_constant(name + "/bias", moved)])
    return True


def _is_precise(scaled: Array, filters: Array) -> bool:
    """Whether products are finite, and normal numbers unless a filter is zero."""
    is_lost = (np.abs(scaled) < np.finfo(np.float32).tiny) & (filters != 0)
    return bool(np.isfinite(scaled).all() and not is_lost.any())

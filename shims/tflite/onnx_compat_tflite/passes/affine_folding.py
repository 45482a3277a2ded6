"""CONV_2D(x, w, b) * f + s => CONV_2D(x, f * w, f * b + s): fold constant factors and summands into layers.

    CONV_2D(x, w, b) * f + s    =>  CONV_2D(x, f * w, f * b + s)
    CONV_2D(x * f + s, w, b)    =>  CONV_2D(x, w * f, w @ s + b), for 1x1 filters

Both rewrites apply to FULLY_CONNECTED too, the first also to DEPTHWISE_CONV_2D. A SUB, DIV or NEG is folded like a MUL
or ADD.

Conditions: f and s are constants with one number, or a number for each channel. w is a float32 constant and b, if any,
a constant. The new filters and bias are finite, and no nonzero filter becomes zero or denormal. Only the folded
operator reads the layer's result, and only layers read a product or sum that is folded into them. The operators that
write these tensors have no activation. Filters of more than `_MAX_COPIED` bytes that another layer reads too stay.

The pass `weight_folding` does the same in programs, for the scales and shifts of the model. These passes serve the
factors and summands that the emission and other passes create, and those before a layer. Both share the arithmetic in
`onnx_compat.passes.channels`. They differ in the graph that they edit, and in the axes of its filters.
"""

from typing import Any, Dict, Optional, Tuple

import numpy as np

from onnx_compat.passes import ChannelMap, channel_map, channel_vector, scale_channels
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["affine_after_layer", "affine_before_layer", "scale_layer"]

#: Layer -> the axis of its filters that holds the output channels.
_LAYERS = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0}
_MAX_COPIED = 1 << 16  # filters that another layer reads too are copied up to this size, in bytes


Array = Any  # An array or a scalar of numpy.

_Scaled = Dict[Tuple[int, int, bytes], int]


def _after_example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 4, 4, 2))
    x = graph.conv(graph.inputs[0], graph.filters(3, 1, 1, 2), (1, 4, 4, 3))
    return graph.model(graph.op("MUL", [x, graph.constant([1, 2, 4])], (1, 4, 4, 3)))


# It runs before activation_fusion: an activation between a layer and the affine operator prevents the folding.
@graph_pass(
    "affine_after_layer", "CONV_2D(x, w, b) * f + s => CONV_2D(x, f*w, f*b + s); also FULLY_CONNECTED", _after_example,
    after=("attention_scale", "dead_code"), before=("activation_fusion",),
)  # fmt: skip
def affine_after_layer(graph: GraphRewriter, context: Context) -> int:
    """Fold ADD, SUB, MUL and DIV by constants, and NEG, into the layer that computes their operand.

    Applies under the conditions of this module. The folded operator is erased, and the layer writes its result. The
    layer gets a new bias, the fused activation of the folded operator and, for a factor other than 1, new filters.
    Returns the number of folds.
    """
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
    """Fold an ADD, SUB, MUL or DIV by a constant, or a NEG, into the layers that read its result.

    Applies under the conditions of this module. The folded operator is erased. All readers must be FULLY_CONNECTED, or
    CONV_2D with 1x1 filters. Larger filters read padding, to which the folded operator does not apply. Returns the
    number of folded operators.
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
    graph: GraphRewriter, layer: fb.OperatorSpec, source: int, affine: ChannelMap
) -> Optional[Tuple[Array, Array]]:
    """Return the (filters, bias) with which `layer` gives the same result if it reads x instead of `source`.

    `source` is a tensor that the layer reads now: x * factor + summand. `affine` has the factor and the summand. A
    layer without a bias gets a bias. Returns None if

    - the layer is no CONV_2D or FULLY_CONNECTED, or does not read `source` exactly once,
    - its filters are no constant float32 1x1 filters, or it has a bias that is no constant,
    - its filters do not have the number of channels of `source`, as in a convolution with groups,
    - filters of more than `_MAX_COPIED` bytes have other readers,
    - a new filter or bias is not finite, or a nonzero filter becomes zero or denormal.
    """
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
        new_bias = (shift + (0 if bias is None else np.asarray(bias, np.float64))).astype(np.float32)
    return (scaled, new_bias) if _is_precise(scaled, filters) and np.isfinite(new_bias).all() else None


def _set_weights(graph: GraphRewriter, layer: fb.OperatorSpec, source: int, filters: Array, bias: Array) -> None:
    name = graph.tensor(layer.outputs[0]).name
    weights = [
        graph.add_constant("%s/%s" % (name, kind), array) for kind, array in (("filters", filters), ("bias", bias))
    ]
    graph.set_inputs(layer, [source, *weights])


def _fold_reader(graph: GraphRewriter, layer: fb.OperatorSpec, scaled: _Scaled) -> bool:
    """Fold the only reader of a layer's result into the layer, and erase the reader; return whether it was folded.

    `layer` is an op of `_LAYERS`; it gets the fused activation of the reader. `scaled` caches new filters, as a dict
    (old filters, axis, factor) -> tensor index. Returns False, without a change, if

    - the layer has a fused activation,
    - its result is an output, or has no reader or several,
    - the reader is no affine map by constants (see `_find_affine`),
    - the new weights are not possible (see `_apply_affine`).
    """
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
    """Scale a layer's result by a number: give the layer new filters and a new bias; return whether that was possible.

    `layer` is an op of `_LAYERS` without an activation: the caller has to check that. Other readers of the old filters
    and bias still read these. Returns False, without a change, if

    - the filters are no float32 constant, or the bias is not constant,
    - a new filter or bias is not finite, or a nonzero filter becomes zero or denormal,
    - the factor is not 1, and filters of more than `_MAX_COPIED` bytes have other readers.
    """
    return _apply_affine(graph, layer, ChannelMap(np.float32(factor), np.float32(0)), {})


def _find_affine(graph: GraphRewriter, op: fb.OperatorSpec, source: int) -> Optional[ChannelMap]:
    """Return the factor and the summand that `op` applies to its operand, the tensor `source`; both are float32.

    The channels are along the last axis. A fused activation of `op` is ignored. Returns None if

    - the op is not ADD, SUB, MUL, DIV or NEG,
    - the other operand is no constant, or varies along another axis,
    - the other operand has a higher rank than `source`, or would broadcast the last axis of `source`,
    - the op is a DIV by zero, or divides a constant by `source`.
    """
    if op.builtin == "NEG":
        return ChannelMap(np.float32(-1), np.float32(0))
    if op.builtin not in ("ADD", "DIV", "MUL", "SUB"):
        return None
    constant, sizes = graph.constant(op.inputs[1 - list(op.inputs).index(source)]), graph.sizes(source)
    array = None if constant is None else channel_vector(constant, -1, len(sizes), sizes[-1])
    change = None if array is None else channel_map(op.builtin.lower(), array, op.inputs[0] != source)
    if change is None:
        return None
    factor, summand = (default if part is None else part for part, default in zip(change, (1, 0)))
    return ChannelMap(np.float32(factor), np.float32(summand))


def _apply_affine(graph: GraphRewriter, layer: fb.OperatorSpec, affine: ChannelMap, scaled: _Scaled) -> bool:
    """Fold an affine map of a layer's result into new filters and a new bias; return whether that was possible.

    `layer` is an op of `_LAYERS`. A layer without a bias gets a bias. A factor of 1 keeps the filters. Other readers of
    the old weights still read these. `scaled` caches new filters, as a dict (old filters, axis, factor) -> tensor
    index.

    Returns False, without a change, if

    - the filters are no float32 constant, or the bias is not constant,
    - a new filter or bias is not finite, or a nonzero filter becomes zero or denormal,
    - the filters would change, take more than `_MAX_COPIED` bytes, and have other readers.
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
    with np.errstate(all="ignore"):
        product = scale_channels(filters, affine.factor, axis)
        new_bias = np.asarray(old_bias) * affine.factor + affine.summand
    new_bias = np.broadcast_to(new_bias, filters.shape[axis : axis + 1]).astype(np.float32)
    if not (_is_precise(product, filters) and np.isfinite(new_bias).all()):
        return False
    name = graph.tensor(layer.outputs[0]).name
    if not keeps_filters:
        key = (index, axis, np.asarray(affine.factor).tobytes())
        if key not in scaled:
            scaled[key] = graph.add_constant(name + "/filters", product)
        index = scaled[key]
    graph.set_inputs(layer, [layer.inputs[0] or 0, index, graph.add_constant(name + "/bias", new_bias)])
    return True


def _is_precise(scaled: Array, filters: Array) -> bool:
    """Whether the filters `scaled` are finite, and have no zero or denormal where `filters` are not zero."""
    is_lost = (np.abs(scaled) < np.finfo(np.float32).tiny) & (filters != 0)
    return bool(np.isfinite(scaled).all() and not is_lost.any())

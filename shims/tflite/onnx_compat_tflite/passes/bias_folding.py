"""ADD(RESHAPE(CONV_2D(x, w, b)), s)        =>  RESHAPE(CONV_2D(x, w, b + s))
ADD(ADD(FULLY_CONNECTED(x, w), y), s)   =>  ADD(FULLY_CONNECTED(x, w, s), y)

The gates of recurrent cells are sums of two products. An ADD directly behind a layer is folded by weight_folding, before
the program is emitted.

Conditions: s has a number for each element of the last axis, and the RESHAPEs keep that axis. No other operator reads the
values in between, and the layer has no activation.
"""

from typing import List, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["bias_folding"]

_LAYERS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_RESHAPES = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 4))
    x = graph.op("FULLY_CONNECTED", [graph.inputs[0], graph.filters(3, 4), graph.constant(np.zeros(3))], (2, 3))
    x = graph.move("RESHAPE", x, [1, 2, 3], (1, 2, 3))
    return graph.model(graph.op("ADD", [x, graph.constant([1, 2, 4])], (1, 2, 3)))


@graph_pass(
    "bias_folding", "ADD(RESHAPE(CONV_2D(x, w, b)), s) => RESHAPE(CONV_2D(x, w, b + s)); also through ADD", _example,
    after=("activation_fusion",),
)  # fmt: skip
def bias_folding(graph: GraphRewriter, context: Context) -> int:
    """Fold summands of channels into the bias of the layer that computes the channels.

    The activation of an ADD moves to the producer of its operand.
    """
    count = 0
    for op in graph.operators:
        match = _find_layer(graph, op) if op.builtin == "ADD" else None
        if match is None:
            continue
        x, vector, layer = match
        if not is_unfused(op):
            bound = op.options["fused_activation_function"]
            graph.set_options(_producer_before_reshapes(graph, x), fused_activation_function=bound)
        _add_to_bias(graph, layer, vector)
        _rename_between(graph, layer.outputs[0], x)
        graph.take_outputs(graph.any_producer(x), op)
        count += 1
    return count


def _find_layer(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[Tuple[int, np.ndarray, fb.OperatorSpec]]:
    """Return the tensor that an ADD reads, the summand of each element of the last axis, and the layer to fold them into.

    Returns None if there is no such layer.
    """
    for x, constant in (op.inputs, list(op.inputs)[::-1]):
        vector = _summands(graph, op, constant)
        layer = None if x is None or vector is None else _layer_of_channels(graph, x, op, vector.size)
        if x is not None and vector is not None and layer is not None:
            return x, vector, layer
    return None


def _summands(graph: GraphRewriter, op: fb.OperatorSpec, index: Optional[int]) -> Optional[np.ndarray]:
    """Return a constant as a vector along the last axis. None if it varies along another axis."""
    sizes, array = graph.sizes(op.outputs[0]), graph.constant(index)
    if array is None or not sizes or sizes[-1] < 1:
        return None
    array, count = np.asarray(array), sizes[-1]
    is_vector = array.size == 1 or (array.size == count and array.shape[-1] == count)
    return np.broadcast_to(array.reshape(-1), (count,)) if is_vector else None


def _layer_of_channels(
    graph: GraphRewriter, index: int, reader: fb.OperatorSpec, count: int
) -> Optional[fb.OperatorSpec]:
    """Return the layer with `count` channels that computes a tensor, directly or through reshapes and sums.

    Returns None if there is no such layer, or if the reader is not the only one or broadcasts the tensor.
    """
    sizes, result_sizes = graph.sizes(index), graph.sizes(reader.outputs[0])
    if not graph.is_only_read_by(index, reader) or not sizes or sizes[-1] != count:
        return None
    if reader.builtin == "ADD" and tuple(sizes) != tuple(result_sizes):
        return None
    layer = graph.producer(index, *_LAYERS)
    if layer is not None:
        return layer if _can_add_bias(graph, layer) else None
    inner = graph.producer(index, "ADD", *_RESHAPES)
    if inner is None or not is_unfused(inner) or len(set(inner.inputs)) < len(inner.inputs):
        return None  # a tensor that is added to itself would get the summand twice
    layers = (None if source is None else _layer_of_channels(graph, source, inner, count) for source in inner.inputs)
    return next((layer for layer in layers if layer is not None), None)


def _can_add_bias(graph: GraphRewriter, layer: fb.OperatorSpec) -> bool:
    weights, bias = (graph.constant(index) for index in [*layer.inputs[1:], None][:2])
    is_known = len(layer.inputs) < 3 or layer.inputs[2] is None or bias is not None
    return bool(
        is_known and is_unfused(layer) and np.asarray(weights).dtype == np.float32
    )  # the dtype of None is `object`


def _producer_before_reshapes(graph: GraphRewriter, index: int) -> fb.OperatorSpec:
    """Return the operator that computes the elements of a tensor, before they are reshaped."""
    op = graph.any_producer(index)
    while op.builtin in _RESHAPES:
        op = graph.any_producer(op.inputs[0] or 0)
    return op


def _rename_between(graph: GraphRewriter, index: int, last: int) -> None:
    """Rename the tensors from the layer to the ADD: they hold other values than those of the model now."""
    graph.rename(index, "/with_bias")
    if index != last:
        (reader,) = graph.readers(index)
        _rename_between(graph, reader.outputs[0], last)


def _add_to_bias(graph: GraphRewriter, layer: fb.OperatorSpec, vector: np.ndarray) -> None:
    inputs: List[Optional[int]] = [*layer.inputs, None][:3]
    bias = graph.constant(inputs[2])
    total = vector if bias is None else np.asarray(bias) + vector
    inputs[2] = graph.add_constant(
        graph.tensor(layer.outputs[0]).name + "/bias", np.ascontiguousarray(total, np.float32)
    )
    graph.set_inputs(layer, inputs)

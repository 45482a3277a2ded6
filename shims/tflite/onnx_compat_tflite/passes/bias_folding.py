"""ADD(RESHAPE(CONV_2D(x, w, b)), s)        =>  RESHAPE(CONV_2D(x, w, b + s))
ADD(ADD(FULLY_CONNECTED(x, w), y), s)   =>  ADD(FULLY_CONNECTED(x, w, s), y)

Any op of `_LAYERS`, and several RESHAPEs, EXPAND_DIMS, SQUEEZEs and ADDs may take part. Gates of recurrent cells are
sums of two products. The program pass weight_folding folds an ADD directly after a layer.

Conditions: s is a constant with one number, or a number for each index of the last axis, and the RESHAPEs keep that
axis. No other operator reads the intermediate tensors, and the ADDs do not broadcast them. The inner ADDs and the layer
have no activation. The layer has constant float32 filters and, if any, a constant bias.
"""

from typing import List, Optional, Tuple

import numpy as np

from onnx_compat.passes import channel_vector
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
    """Fold an ADD of a constant per channel into the bias of the layer that computes these channels.

    Applies under the conditions of this module, and erases the ADD. Returns the number of folded ADDs.

    If the erased ADD has a fused activation, the last operator before it that is no reshape gets this activation. That
    operator is the layer or another ADD.
    """
    count = 0
    for op in graph.operators:
        match = _find_layer(graph, op) if op.builtin == "ADD" else None
        if match is None:
            continue
        x, vector, layer = match
        if not is_unfused(op):
            activation = op.options["fused_activation_function"]
            graph.set_options(_producer_before_reshapes(graph, x), fused_activation_function=activation)
        _add_to_bias(graph, layer, vector)
        _rename_between(graph, layer.outputs[0], x)
        graph.take_outputs(graph.any_producer(x), op)
        count += 1
    return count


def _find_layer(graph: GraphRewriter, op: fb.OperatorSpec) -> Optional[Tuple[int, np.ndarray, fb.OperatorSpec]]:
    """Return (x, vector, layer) for an ADD of a tensor x and a constant that the bias of `layer` can absorb.

    x is a tensor index. `vector` is the constant, with a number for each index of the last axis. Returns None if

    - no operand is such a constant (see `_summands`),
    - x is not computed by a layer whose bias can change (see `_layer_of_channels`).
    """
    for x, constant in (op.inputs, list(op.inputs)[::-1]):
        vector = _summands(graph, op, constant)
        layer = None if x is None or vector is None else _layer_of_channels(graph, x, op, vector.size)
        if x is not None and vector is not None and layer is not None:
            return x, vector, layer
    return None


def _summands(graph: GraphRewriter, op: fb.OperatorSpec, index: Optional[int]) -> Optional[np.ndarray]:
    """Return the operand with the tensor index `index` as a vector: a number for each index of the result's last axis.

    Returns None if

    - the operand is no constant, or varies along another axis,
    - the last size of the result is zero or open.
    """
    sizes, array = graph.sizes(op.outputs[0]), graph.constant(index)
    if array is None or not sizes or sizes[-1] < 1:
        return None
    vector = channel_vector(array, -1, len(sizes), sizes[-1])
    return None if vector is None else np.broadcast_to(vector, (sizes[-1],))


def _layer_of_channels(
    graph: GraphRewriter, index: int, reader: fb.OperatorSpec, count: int
) -> Optional[fb.OperatorSpec]:
    """Return the layer that computes the tensor with this index, directly or through reshapes and ADDs.

    `reader` is the operator that reads the tensor; `count` is the number of channels. At an ADD, the operands are tried
    in order. Returns None if

    - there is no such layer, or it has a fused activation,
    - the layer's filters are no float32 constant, or its bias is no constant.

    Returns None also if the tensor, or a tensor between the layer and this tensor,

    - is an output, or has several readers,
    - does not have exactly `count` elements along its last axis,
    - is broadcast by an ADD, or added to itself,
    - is computed by an ADD with a fused activation.
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
    """Return the operator that computes a tensor, and skip RESHAPE, EXPAND_DIMS and SQUEEZE.

    For RESHAPE(SQUEEZE(ADD(x, y))), returns the ADD. `index` is the tensor index. Raises KeyError if the tensor before
    the reshapes is an input, a constant or a variable.
    """
    op = graph.any_producer(index)
    while op.builtin in _RESHAPES:
        op = graph.any_producer(op.inputs[0] or 0)
    return op


def _rename_between(graph: GraphRewriter, index: int, last: int) -> None:
    """Append "/with_bias" to the names of the tensors from `index` to `last`: they now include the summand.

    Each tensor before `last` must have a single reader, whose result is the next tensor. The old names belong to values
    of the model.
    """
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

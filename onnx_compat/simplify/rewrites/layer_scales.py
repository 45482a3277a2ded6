"""Fold scales and shifts of channels into the weights and the bias of the layer before them.

    BatchNormalization(Conv(x, w, b))   =>  Conv(x, f*w, f*b + s)
    Mul(Conv(x, w, b), f)               =>  Conv(x, f*w, f*b); also Div
    Add(Conv(x, w, b), s)               =>  Conv(x, w, b + s); also Sub

The layer is a Conv, ConvTranspose, Gemm or BatchNormalization, or for a scale alone a MatMul. Conditions: the weights,
the bias and the statistics are initializers; a constant has one number, or one for each channel; nothing else reads the
value in between. A BatchNormalization that is training stays.

The pass `weight_folding` does the same in recorded programs, and shares the arithmetic. This pass is another one,
because an ONNX model has no recorded program: names, types and the bytes of a node that stays must not change.
"""

from typing import Any, Dict, Optional

import numpy as np

from onnx_compat.passes.channels import ChannelMap, channel_map, channel_vector
from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example
from onnx_compat.simplify.rewrites.layers import ChannelLayer, find_layer, normalization_factors

__all__ = ["layer_scales"]


def _example() -> Any:
    parameters: Dict[str, Any] = {"s": [1.0, 2.0], "b": [0.5, 1.5], "m": [0.0, 1.0], "v": [1.0, 4.0]}
    weights = np.arange(4.0).reshape(2, 2, 1)
    nodes = (("Conv", "x w", "a"), ("BatchNormalization", "a s b m v", "y"))
    return example(*nodes, shape=("N", 2, 3), w=weights, **parameters)


@model_pass("layer_scales", "BatchNormalization(Conv(x, w, b)) => Conv(x, f*w, f*b + s); also Mul, Add", _example)
def layer_scales(draft: GraphDraft) -> int:
    """Fold scales and shifts of channels into the layer before them. Return the number of removed nodes.

    A scale or shift is a Mul, Div, Add, Sub or BatchNormalization that reads the layer's result.
    """
    count = 0
    for node in list(draft.nodes):
        for operand in dict.fromkeys(node.inputs[:2]):
            layer = find_layer(draft, operand, node)
            affine = None if layer is None else _affine(draft, node, layer)
            if layer is not None and affine is not None and layer.fold(draft, affine.factor, affine.summand):
                draft.absorb(layer.node, node)
                count += 1
                break
    return count


def _affine(draft: GraphDraft, node: DraftNode, layer: ChannelLayer) -> Optional[ChannelMap]:
    """Return the scale and shift of channels that a node applies to the result of a layer.

    None: the node is another operator, or its numbers are not constants with one number, or one for each channel.
    """
    name = layer.output
    if node.operator == "BatchNormalization":
        factors = normalization_factors(draft, node) if layer.axis == 1 and node.input(0) == name else None
        return None if factors is None else ChannelMap(*factors)
    if node.operator not in ("Mul", "Div", "Add", "Sub") or len(node.inputs) != 2 or draft.opset < 7:
        return None
    constant = node.input(1) if node.input(0) == name else node.input(0)
    array = draft.constant(constant)
    if array is None or (node.operator in ("Div", "Sub") and node.input(0) != name):
        return None
    numbers = channel_vector(array, layer.axis, layer.rank, layer.channels)
    if numbers is None:
        return None
    vector = np.broadcast_to(numbers.astype(np.float64), (layer.channels,))
    return channel_map(node.operator.lower(), vector)

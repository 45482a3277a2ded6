"""Fold a factor of the input of a convolution into the weights.

    Conv(Mul(x, c), w, b) => Conv(x, c*w, b)
    Conv(Div(x, c), w, b) => Conv(x, w/c, b)

Conditions: the weights are an initializer, the constant has one number other than zero, and nothing else reads the
scaled input. The padding of a convolution is zero, with and without the factor. A MatMul keeps the factor of its input:
in transformers, it often ends a Gelu, which onnxruntime 1.31 fuses only as a whole:

    Mul(Mul(x, Add(Erf(Div(x, sqrt(2))), 1)), 0.5)

Before convolutions, `_LARGEST_SHARE` of the nodes may be such factors that stay. The first ones stay: the first layers
of a network have the largest tensors.
"""

import math
from typing import Any, List, Optional

import numpy as np

from onnx_compat.simplify.contract import model_pass
from onnx_compat.simplify.graph_draft import GraphDraft
from onnx_compat.simplify.node import DraftNode
from onnx_compat.simplify.rewrites.examples import example
from onnx_compat.simplify.rewrites.layers import has_digits

__all__ = ["input_scales"]

#: The largest share of the nodes of a graph that stay to end a Gelu. A factor that stays is a node that could go.
_LARGEST_SHARE = 0.02


def _example() -> Any:
    nodes = (("Mul", "x c", "a"), ("Conv", "a w", "y"))
    return example(*nodes, shape=("N", 2, 3), c=0.5, w=np.arange(4.0).reshape(2, 2, 1))


@model_pass("input_scales", "Conv(Mul(x, c), w) => Conv(x, c*w); also Div", _example, after=["layer_scales"])
def input_scales(draft: GraphDraft) -> int:
    """Fold factors of inputs of `draft` into the weights of convolutions. Return the number of removed nodes."""
    count = 0
    kept = _kept_scales(draft)
    for conv in [node for node in draft.nodes if node.operator == "Conv"]:
        scale = draft.producer(conv.input(0))
        if scale is None or draft.only_reader(conv.input(0)) is not conv or draft.opset < 7 or scale in kept:
            continue
        weights, spec = draft.constant(conv.input(1)), draft.spec(conv.input(1))
        if weights is None or spec is None or spec.dtype.kind != "f":
            continue
        index = _find_factor(draft, scale, weights.ndim)
        if index is None:
            continue
        factor = float(np.asarray(draft.constant(scale.input(index))).reshape(-1)[0])
        exact = weights.astype(np.float64) * (factor if scale.operator == "Mul" else 1 / factor)
        with np.errstate(over="ignore"):
            array = spec.dtype.round(exact)
        if not has_digits(exact, array) or not draft.affords(array, spec.dtype, conv.input(1)):
            continue
        name = draft.replace_constant(conv, conv.input(1), array, spec.dtype, conv.input(1))
        draft.set_inputs(conv, [scale.input(1 - index), name, *conv.inputs[2:]])
        draft.remove(scale)
        count += 1
    return count


def _kept_scales(draft: GraphDraft) -> List[DraftNode]:
    """Return the scales before convolutions that end a Gelu, and that stay."""
    scales: List[DraftNode] = []
    nodes = list(draft.nodes)
    for node in nodes:
        reader = draft.only_reader(node.outputs[0]) if _ends_gelu(draft, node) else None
        if reader is not None and reader.operator == "Conv" and reader.input(0) == node.outputs[0]:
            scales.append(node)
    return scales[: int(_LARGEST_SHARE * (len(nodes) - len(scales)))]


def _ends_gelu(draft: GraphDraft, node: DraftNode) -> bool:
    """Whether a node is the last of a Gelu that onnxruntime fuses: see the docstring of this module."""
    product = _factor_beside(draft, node, "Mul", 0.5)
    if product is None or product.operator != "Mul" or len(product.inputs) != 2:
        return False
    for x, factor in (product.inputs, product.inputs[::-1]):
        erf = _factor_beside(draft, draft.producer(factor), "Add", 1.0)
        quotient = draft.producer(erf.input(0)) if erf is not None and erf.operator == "Erf" else None
        if quotient is not None and quotient.input(0) == x and _is_number(draft, quotient, 1, "Div", math.sqrt(2)):
            return True
    return False


def _factor_beside(draft: GraphDraft, node: Optional[DraftNode], operator: str, number: float) -> Optional[DraftNode]:
    """Return the node that computes the other operand of a node with this operator and a constant operand.

    None: the node is None, has another operator or no operand with this number, or no node computes the other operand.
    """
    if node is not None:
        for index in (0, 1):
            if _is_number(draft, node, index, operator, number):
                return draft.producer(node.input(1 - index))
    return None


def _is_number(draft: GraphDraft, node: DraftNode, index: int, operator: str, number: float) -> bool:
    """Whether a node has this operator, and its input `index` is a constant of one element that is near `number`."""
    array = draft.constant(node.input(index)) if node.operator == operator else None
    return array is not None and array.size == 1 and bool(np.isclose(array, number, rtol=1e-5, atol=0).all())


def _find_factor(draft: GraphDraft, node: DraftNode, rank: int) -> Optional[int]:
    """Return the index of the input with the constant factor of a Mul, or the constant divisor of a Div.

    None: the node has no such constant, or the other operand may have another rank than `rank`. The constant has one
    finite number other than zero. `rank`: the rank of the scaled tensor.
    """
    for index in {"Mul": (1, 0), "Div": (1,)}.get(node.operator, ()):
        array, spec = draft.constant(node.input(index)), draft.spec(node.input(1 - index))
        if array is None or array.size != 1 or not np.isfinite(array).all() or not array.any():
            continue
        if array.ndim < rank or (spec is not None and spec.rank == rank):
            return index
    return None

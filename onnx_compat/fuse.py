"""Folding what follows a convolution or a product with known weights into those weights.

`conv -> * scale -> + shift` with one number a channel (a BatchNormalization, a bias) is one conv. Only where nobody
else reads the value in between, so that nothing is computed twice. A quotient that is rounded next is a quantization,
and keeps its scale.
"""

from collections import Counter
from typing import Dict, List, Optional

import numpy as np

from onnx_compat.dims import is_known, same_shape
from onnx_compat.ir import Const, Node, Ref, Region, refs

__all__ = ["fuse"]

_LINEAR = ("conv", "depthwise_conv", "conv_transpose", "matmul")


def fuse(region: Region, layout: str, filter_layout: str) -> Region:
    """The same region (changed in place) with scales and shifts folded away."""
    nodes = region.live()
    region.replace(nodes)
    uses: Counter[Ref] = Counter(ref for one in nodes for ref in one.uses())
    uses.update(ref for output in region.outputs for ref in refs(output))
    rounded = {arg for one in nodes if one.primitive == "round" for arg in one.args}
    kept: List[Node] = []
    for node in nodes:
        producer = None if node.outputs[0] in rounded else _producer(node, uses)
        folded = _folded(node, producer, layout, filter_layout) if producer is not None else None
        if folded is None:
            kept.append(node)
        else:
            assert producer is not None
            kept[kept.index(producer)] = folded
            producer.args = ()  # nobody reads it any more: its weights go now, not all of them at the end
    region.replace(kept)
    return region


def _producer(node: Node, uses: Dict[Ref, int]) -> Optional[Node]:
    """The linear node whose result this one alone scales or shifts by a constant."""
    if node.primitive not in ("mul", "div", "add", "sub"):
        return None
    left, right = node.args
    if isinstance(left, Const) and node.primitive in ("mul", "add"):
        left, right = right, left
    if not isinstance(left, Ref) or not isinstance(right, Const) or uses[left] != 1 or left.node is None:
        return None
    weights = left.node.args[1] if left.node.primitive in _LINEAR else None
    if not isinstance(weights, Const) or weights.array.dtype.kind != "f" or not weights.spec.dtype.native:
        return None
    return left.node if same_shape(left.spec.shape, node.outputs[0].spec.shape) else None


def _folded(node: Node, producer: Node, layout: str, filter_layout: str) -> Optional[Node]:
    """The producer with the factor or summand in its weights and bias; None if that is not one number a channel."""
    shape = producer.outputs[0].spec.shape
    channel = len(shape) - 1 if producer.primitive == "matmul" or layout == "channels_last" else 1
    constant = next(arg for arg in node.args if isinstance(arg, Const))
    if not is_known(shape[channel]):
        return None
    vector = _per_channel(constant.array, channel, len(shape), int(shape[channel]))
    if vector is None:
        return None
    bias = producer.args[2] if len(producer.args) > 2 else None
    if bias is not None and not isinstance(bias, Const):
        return None
    weights = producer.args[1]
    assert isinstance(weights, Const)
    shift = bias.array if bias is not None else np.zeros(vector.shape, vector.dtype)
    if node.primitive in ("mul", "div"):
        factor = vector if node.primitive == "mul" else 1 / vector
        scaled = _scaled(weights.array, factor, producer, filter_layout)
        if scaled is None:
            return None
        weights = Const(scaled, weights.spec.dtype)
        shift = shift * factor
    else:
        shift = shift + (vector if node.primitive == "add" else -vector)
    args = (producer.args[0], weights, Const(shift.astype(vector.dtype), weights.spec.dtype))
    if bias is None and not shift.any():
        args = args[:2]  # type: ignore[assignment]
    folded = Node(producer.primitive, args, producer.params, [], producer.origin)
    folded.outputs = node.outputs
    for output in folded.outputs:
        output.node = folded
    return folded


def _per_channel(array: np.ndarray, channel: int, rank: int, size: int) -> Optional[np.ndarray]:
    """The constant as a vector over channels, if it broadcasts along nothing else."""
    if array.ndim > rank:
        return None
    full = array.reshape((1,) * (rank - array.ndim) + array.shape)
    if any(length != 1 for axis, length in enumerate(full.shape) if axis != channel):
        return None
    return np.broadcast_to(full.reshape(-1), (size,)) if full.size in (1, size) else None


def _scaled(weights: np.ndarray, factor: np.ndarray, producer: Node, filter_layout: str) -> Optional[np.ndarray]:
    """The weights with each output channel multiplied."""
    if producer.primitive == "matmul":
        axis = weights.ndim - 2 if producer.params["transpose_y"] else weights.ndim - 1
        if weights.ndim != 2:
            return None
    elif producer.primitive == "depthwise_conv":
        axis = weights.ndim - 1
    else:
        axis = 0 if filter_layout.startswith("O") else weights.ndim - 1
    if weights.shape[axis] != factor.size:  # a grouped transposed convolution: its filter has M / groups channels
        return None
    scaled: np.ndarray = weights * factor.reshape([-1 if k == axis else 1 for k in range(weights.ndim)])
    return scaled.astype(weights.dtype)

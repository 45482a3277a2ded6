"""Folding what follows a convolution or a product with known weights into those weights.

`conv -> * scale -> + shift` with one number a channel (a BatchNormalization, a bias) is one conv; so it is where
something is cut off between them, as a transposed convolution with padding does it. Only where nobody else reads the
values in between, so that nothing is computed twice. A quotient that is rounded next is a quantization, and keeps its
scale.
"""

from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from onnx_compat.dims import is_known, same, same_shape
from onnx_compat.ir import Arg, Const, Node, Ref, Region, refs

__all__ = ["fuse"]

_LINEAR = ("conv", "depthwise_conv", "conv_transpose", "matmul")


class _Layer(NamedTuple):
    """A linear node, and the slice of its result that is read, if it is not read whole."""

    node: Node
    cut: Optional[Node] = None


def fuse(region: Region, layout: str, filter_layout: str) -> Region:
    """The same region (changed in place) with scales and shifts folded away."""
    nodes = region.live()
    region.replace(nodes)
    uses: Counter[Ref] = Counter(ref for one in nodes for ref in one.uses())
    uses.update(ref for output in region.outputs for ref in refs(output))
    rounded = {arg for one in nodes if one.primitive == "round" for arg in one.args}
    kept: List[Node] = []
    for node in nodes:
        layer = None if node.outputs[0] in rounded else _layer(node, uses)
        args = _folded(node, layer, layout, filter_layout) if layer is not None else None
        if layer is None or args is None:
            kept.append(node)
        else:
            uses[_put(kept, layer, args, node)] = 1
    region.replace(kept)
    return region


def _layer(node: Node, uses: Dict[Ref, int]) -> Optional[_Layer]:
    """The linear node whose result this one alone scales or shifts by a constant."""
    if node.primitive not in ("mul", "div", "add", "sub"):
        return None
    left, right = node.args
    if isinstance(left, Const) and node.primitive in ("mul", "add"):
        left, right = right, left
    if not isinstance(left, Ref) or not isinstance(right, Const) or uses[left] != 1 or left.node is None:
        return None
    cut = left.node if left.node.primitive == "slice" else None
    source: Arg = left if cut is None else cut.args[0]
    if not isinstance(source, Ref) or uses[source] != 1 or source.node is None:
        return None
    weights = source.node.args[1] if source.node.primitive in _LINEAR else None
    if not isinstance(weights, Const) or weights.array.dtype.kind != "f" or not weights.spec.dtype.native:
        return None
    return _Layer(source.node, cut) if same_shape(left.spec.shape, node.outputs[0].spec.shape) else None


def _folded(node: Node, layer: _Layer, layout: str, filter_layout: str) -> Optional[Sequence[Arg]]:
    """What the layer reads with the factor or summand in its weights and bias; None if that is not one number a channel."""
    producer, shape = layer.node, layer.node.outputs[0].spec.shape
    channel = len(shape) - 1 if producer.primitive == "matmul" or layout == "channels_last" else 1
    constant = next(arg for arg in node.args if isinstance(arg, Const))
    if not is_known(shape[channel]) or not _whole(layer.cut, channel, int(shape[channel])):
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
    if bias is None and not shift.any():
        return producer.args[0], weights
    return producer.args[0], weights, Const(shift.astype(vector.dtype), weights.spec.dtype)


def _whole(cut: Optional[Node], channel: int, size: int) -> bool:
    """Whether the channels stay as they are in a slice."""
    return cut is None or (same(cut.outputs[0].spec.shape[channel], size) and cut.params["steps"][channel] == 1)


def _put(kept: List[Node], layer: _Layer, args: Sequence[Arg], node: Node) -> Ref:
    """The layer with these arguments in its place, giving what the node gave that is left out; what the layer's own node
    gives now, which has no name in the model.
    """
    old = layer.node
    new = Node(old.primitive, args, old.params, [old.outputs[0].spec], old.origin)
    kept[kept.index(old)] = last = new
    made = new.outputs[0]
    old.args = ()  # nobody reads it any more: its weights go now, not all of them at the end
    if layer.cut is not None:
        last = Node("slice", (made, *layer.cut.args[1:]), layer.cut.params, [], layer.cut.origin)
        kept[kept.index(layer.cut)] = last
    last.outputs = node.outputs
    for output in last.outputs:
        output.node = last
    return made


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
    return scaled.astype(weights.dtype, copy=False)

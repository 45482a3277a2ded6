"""Fold scales and shifts of channels into the weights and the bias of the layer before them.

    mul(conv(x, w, b), scale)   =>  conv(x, scale * w, scale * b)
    add(conv(x, w, b), shift)   =>  conv(x, w, b + shift)

The same holds for depthwise_conv, conv_transpose and matmul, for div and sub, and behind a slice that keeps all
channels. Conditions: the weights and the bias are constants; the scale or shift has one number for each channel
(BatchNormalization, a bias); no other node reads the values in between. A quotient that a `round` reads is a
quantization and keeps its scale.

This pass serves every shim: it rewrites the program that was recorded from the model. Two other passes do the same in
other structures, with other conditions. They share the arithmetic in `channels`.

- `affine_after_layer` of TFLite rewrites the operators that the emission and other passes create. It may copy filters
  that other layers read, and refuses filters that become denormal.
- `layer_scales` rewrites ONNX models that stay ONNX. It computes in float64, rounds once, and keeps a budget of bytes.
"""

from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.ir import Arg, Const, Node, Ref, Region
from onnx_compat.ir.dims import is_equal, is_equal_shape, is_static
from onnx_compat.ir.rewriter import replace_values_in_sizes
from onnx_compat.passes.channels import channel_map, channel_vector, scale_channels
from onnx_compat.passes.contract import program_pass
from onnx_compat.passes.rewriting import count_uses, release_arguments, take_outputs
from onnx_compat.shim.interface import Emitter, Program

__all__ = ["weight_folding"]

_LINEAR = ("conv", "depthwise_conv", "conv_transpose", "matmul")


class _Layer(NamedTuple):
    """A layer that a scale or shift follows.

    - node: a node of a primitive in `_LINEAR`.
    - cut: the slice between this node and the scale or shift, or None.
    """

    node: Node
    cut: Optional[Node] = None


def _example(target: Emitter) -> Program:
    from onnx_compat import primitives as p
    from onnx_compat.ir.dtypes import float32
    from onnx_compat.shim.interface import Port
    from onnx_compat.tracing.recording import record_program

    weights, scale = np.ones((4, 3), np.float32), np.arange(1, 4, dtype=np.float32)
    return record_program(lambda x: [p.mul(p.matmul(x, weights), scale)], [Port("x", float32, (2, 4))], target, ["y"])


@program_pass("weight_folding", "mul(conv(x, w, b), scale) => conv(x, scale*w, scale*b); also add, matmul", _example)
def weight_folding(region: Region, target: Emitter) -> Tuple[Region, int]:
    """Fold scales and shifts into layers in place, under the conditions of this module. Remove dead nodes.

    Return (region, number of rewrites). Each rewrite removes a mul, div, add or sub. Inner regions stay unchanged.
    """
    nodes = region.remove_dead()
    uses = count_uses(region)
    rounded = {arg for node in nodes if node.primitive == "round" for arg in node.args}
    kept: List[Node] = []
    dropped: Dict[Ref, Ref] = {}
    for node in nodes:
        layer = None if node.outputs[0] in rounded else _find_layer(node, uses)
        args = _folded_args(node, layer, target.layout, target.filter_layout) if layer is not None else None
        if layer is None or args is None:
            kept.append(node)
        else:
            result = _replace_layer(kept, layer, args, node)
            uses[result] = 1
            dropped.update(_dropped_values(layer, node, result))
    if len(kept) == len(nodes):
        return region, 0
    region.replace(kept)
    if any(not is_static(size) for ref in dropped for size in ref.spec.shape):
        replace_values_in_sizes(region, dropped)
    return region, len(nodes) - len(kept)


def _dropped_values(layer: _Layer, node: Node, result: Ref) -> Dict[Ref, Ref]:
    """Return value that folding `node` into `layer` drops -> value of the same shape that is still computed.

    Symbolic sizes that refer to a dropped value are replaced by these pairs. `result` is the output of the new layer.
    """
    if layer.cut is None:
        return {layer.node.outputs[0]: node.outputs[0]}
    return {layer.node.outputs[0]: result, layer.cut.outputs[0]: node.outputs[0]}


def _find_layer(node: Node, uses: "Counter[Ref]") -> Optional[_Layer]:
    """Return the layer whose result `node` scales or shifts by a constant. Return None if there is no such layer.

    The layer must meet these conditions. Its bias, and the axis of the constant, are not checked here.

    - `node` is a mul or add with a constant, or a div or sub by a constant. A slice may lie between the layer and
      `node`.
    - No other node reads the result of the layer or of the slice.
    - The result of `node` has the shape of its operand.
    - The weights of the layer are a constant of a native float dtype.
    """
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
    return _Layer(source.node, cut) if is_equal_shape(left.spec.shape, node.outputs[0].spec.shape) else None


def _folded_args(node: Node, layer: _Layer, layout: str, filter_layout: str) -> Optional[Sequence[Arg]]:
    """Return the arguments of the layer with the scale or shift of `node` folded in: (input, weights, bias).

    The bias is left out if the layer has no bias and nothing is shifted. Return None in these cases:

    - The constant varies along another axis than the channels, or is a divisor with a zero.
    - The number of channels is symbolic.
    - The bias is no constant.
    - A slice cuts channels.
    - The weights cannot be scaled (see `_scale_weights`).
    """
    producer, shape = layer.node, layer.node.outputs[0].spec.shape
    channel = len(shape) - 1 if producer.primitive == "matmul" or layout == "channels_last" else 1
    constant = next(arg for arg in node.args if isinstance(arg, Const))
    if not is_static(shape[channel]) or not _keeps_channels(layer.cut, channel, int(shape[channel])):
        return None
    numbers = channel_vector(constant.array, channel, len(shape), int(shape[channel]))
    if numbers is None:
        return None
    vector = np.broadcast_to(numbers, (int(shape[channel]),))
    change = channel_map(node.primitive, vector)
    if change is None:
        return None
    bias = producer.args[2] if len(producer.args) > 2 else None
    if bias is not None and not isinstance(bias, Const):
        return None
    weights = producer.args[1]
    assert isinstance(weights, Const)
    shift = bias.array if bias is not None else np.zeros(vector.shape, vector.dtype)
    if change.factor is not None:
        scaled = _scale_weights(weights.array, change.factor, producer, filter_layout)
        if scaled is None:
            return None
        weights = Const(scaled, weights.spec.dtype, weights.weight)
        shift = shift * change.factor
    else:
        shift = shift + change.summand
    if bias is None and not shift.any():
        return producer.args[0], weights
    name = constant.weight if bias is None or bias.weight is None else bias.weight
    return producer.args[0], weights, Const(shift.astype(vector.dtype), weights.spec.dtype, name)


def _keeps_channels(cut: Optional[Node], channel: int, size: int) -> bool:
    """Whether the slice `cut` keeps all `size` channels, on the axis `channel`, in order. True without a slice."""
    return cut is None or (is_equal(cut.outputs[0].spec.shape[channel], size) and cut.params["steps"][channel] == 1)


def _replace_layer(kept: List[Node], layer: _Layer, args: Sequence[Arg], node: Node) -> Ref:
    """Replace the layer in the list `kept` by a new layer with the arguments `args`. Return the new layer's output.

    `node` is the mul, div, add or sub that is folded into `args`. Its outputs become outputs of the new layer. If a
    slice reads the layer (`layer.cut`), they become outputs of a new slice instead. The old layer loses its arguments.
    """
    old = layer.node
    new = Node(old.primitive, args, old.params, [old.outputs[0].spec], old.origin)
    kept[kept.index(old)] = last = new
    result = new.outputs[0]
    release_arguments(old)  # frees the weights of each layer now: all of them at the end would double the peak memory
    if layer.cut is not None:
        last = Node("slice", (result, *layer.cut.args[1:]), layer.cut.params, [], layer.cut.origin)
        kept[kept.index(layer.cut)] = last
    take_outputs(last, node)
    return result


def _scale_weights(weights: np.ndarray, factor: np.ndarray, producer: Node, filter_layout: str) -> Optional[np.ndarray]:
    """Return the weights of `producer` with each output channel multiplied by its number in the vector `factor`.

    None if no axis of the weights has exactly the output channels: batched matmul, grouped conv_transpose.
    """
    if producer.primitive == "matmul":
        axis = weights.ndim - 2 if producer.params["transpose_y"] else weights.ndim - 1
        if weights.ndim != 2:
            return None
    elif producer.primitive == "depthwise_conv":
        axis = weights.ndim - 1
    else:
        axis = 0 if filter_layout.startswith("O") else weights.ndim - 1
    if weights.shape[axis] != factor.size:  # a grouped conv_transpose: M / groups
        return None
    return scale_channels(weights, factor, axis).astype(weights.dtype, copy=False)

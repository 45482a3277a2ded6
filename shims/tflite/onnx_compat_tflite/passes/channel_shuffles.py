"""CONV_2D(RESHAPE(TRANSPOSE(RESHAPE(CONV_2D(x)))))  =>  CONV_2D(RESHAPE(CONV_2D(x))) with reordered filters

The order of the channels within a group is free. The first convolution writes its channels ordered by its own group and by
the group of the second convolution that reads them. So the channels of a group of the second are adjacent. It reads them
as a convolution over a row of groups. If either convolution has no groups, no RESHAPE remains.

Conditions: the filters are float32 constants, the operators between the convolutions treat each channel by itself,
and no other operator reads the values in between.
"""

from typing import Any, List, NamedTuple, Optional

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["channel_shuffles"]

_MAX_GROWTH = 9 / 8  # of the channels, where groups do not divide evenly and some channels stay empty


class _Shuffle(NamedTuple):
    order: np.ndarray  # the source channel of each shuffled channel
    first: fb.OperatorSpec
    between: List[fb.OperatorSpec]  # operators that treat every channel by itself
    last: fb.OperatorSpec
    source: int  # the result of the first convolution
    result: int  # the same with shuffled channels


class _Placement(NamedTuple):
    channels: int
    groups: int  # of the first convolution, which become pixels of a row; or one
    positions: np.ndarray  # the new channel of each shuffled channel


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 3, 3, 4))
    x = graph.conv(graph.inputs[0], graph.filters(4, 1, 1, 4), (1, 3, 3, 4))
    x = graph.move("RESHAPE", x, [1, 3, 3, 2, 2], (1, 3, 3, 2, 2))
    x = graph.move("TRANSPOSE", x, [0, 1, 2, 4, 3], (1, 3, 3, 2, 2))
    x = graph.move("RESHAPE", x, [1, 3, 3, 4], (1, 3, 3, 4))
    return graph.model(graph.conv(x, graph.filters(4, 1, 1, 4), (1, 3, 3, 4)))


@graph_pass(
    "channel_shuffles", "CONV_2D(shuffle(CONV_2D(x))) => CONV_2D(CONV_2D(x)) with reordered filters", _example,
    after=("activation_fusion", "bias_folding"),
)  # fmt: skip
def channel_shuffles(graph: GraphRewriter, context: Context) -> int:
    """Let convolutions write and read shuffled channels."""
    count = 0
    while _absorb_shuffle(graph):
        graph.erase_dead_code()  # now: the old weights are as large as the new ones, and would stay in memory
        count += 1
    return count


def _absorb_shuffle(graph: GraphRewriter) -> bool:
    for op in graph.operators:
        shuffle = _find_shuffle(graph, op) if op.builtin == "TRANSPOSE" else None
        placement = None if shuffle is None else _place_channels(graph, shuffle)
        if shuffle is not None and placement is not None:
            _rewrite(graph, shuffle, placement)
            return True
    return False


def _find_shuffle(graph: GraphRewriter, transpose: fb.OperatorSpec) -> Optional[_Shuffle]:
    before, after = graph.producer(transpose.inputs[0], "RESHAPE"), graph.only_reader(transpose.outputs[0])
    if before is None or after is None or after.builtin != "RESHAPE" or before.inputs[0] is None:
        return None
    source, result = before.inputs[0], after.outputs[0]
    order = _channel_order(graph, source, transpose, result)
    first = graph.producer(source, "CONV_2D")
    if (
        order is None
        or first is None
        or graph.only_reader(source) is not before
        or not _has_known_weights(graph, first)
    ):
        return None
    if graph.only_reader(before.outputs[0]) is not transpose:
        return None
    between: List[fb.OperatorSpec] = []
    op = graph.only_reader(result)
    while op is not None and _is_channelwise(graph, op):
        between.append(op)
        op = graph.only_reader(op.outputs[0])
    if op is None or op.builtin != "CONV_2D" or not _has_known_weights(graph, op):
        return None
    if tuple(graph.sizes(op.inputs[1] or 0)[1:3]) != (1, 1):
        return None
    return _Shuffle(order, first, between, op, source, result)


def _has_known_weights(graph: GraphRewriter, conv: fb.OperatorSpec) -> bool:
    """Whether the filters and the bias are float32 constants."""
    arrays = [graph.constant(index) for index in conv.inputs[1:3]]
    return len(arrays) == 2 and all(array is not None and np.asarray(array).dtype == np.float32 for array in arrays)


def _channel_order(graph: GraphRewriter, source: int, transpose: fb.OperatorSpec, result: int) -> Any:
    """Return the permutation of the channels. None if other axes are moved too."""
    whole, cut = graph.sizes(source), graph.sizes(transpose.inputs[0] or 0)
    perm = graph.constant(transpose.inputs[1])
    if perm is None or len(whole) != 4 or tuple(graph.sizes(result)) != tuple(whole) or min(whole[1:]) < 1:
        return None
    lead = next((k for k in range(len(cut)) if int(np.prod(cut[k:])) == whole[3] and min(cut[k:]) > 0), 0)
    axes = [int(axis) for axis in perm]
    if not lead or axes[:lead] != list(range(lead)):
        return None
    channels = np.arange(whole[3]).reshape(cut[lead:])
    return channels.transpose([axis - lead for axis in axes[lead:]]).reshape(-1)


def _is_channelwise(graph: GraphRewriter, op: fb.OperatorSpec) -> bool:
    """Whether an operator treats each channel by itself, and gives one channel for each."""
    if op.builtin == "PAD":
        ends = graph.constant(op.inputs[1])
        return ends is not None and not np.any(ends[3])
    is_single = tuple(graph.sizes(op.inputs[0] or 0)[3:]) == tuple(graph.sizes(op.outputs[0])[3:])
    return op.builtin == "DEPTHWISE_CONV_2D" and is_single and _has_known_weights(graph, op)


def _place_channels(graph: GraphRewriter, shuffle: _Shuffle) -> Optional[_Placement]:
    """Assign each channel to the next free position of its two groups. None if too many positions stay empty."""
    channels = len(shuffle.order)
    read = _channels_read(graph, shuffle.last)
    groups, last_groups = channels // _channels_written(graph, shuffle.first), channels // read
    counts = np.zeros((groups, last_groups), int)
    slots = []
    for index, channel in enumerate(shuffle.order):
        group, last_group = channel * groups // channels, index // read
        slots.append((group, last_group, counts[group, last_group]))
        counts[group, last_group] += 1
    most = int(counts.max())
    if groups * last_groups * most > channels * _MAX_GROWTH:
        return None
    positions = np.asarray([(group * last_groups + last) * most + free for group, last, free in slots])
    return _Placement(groups * last_groups * most, groups if last_groups > 1 else 1, positions)


def _channels_read(graph: GraphRewriter, conv: fb.OperatorSpec) -> int:
    """Return the number of channels that each group of a convolution reads."""
    return int(graph.sizes(conv.inputs[1] or 0)[3])


def _channels_written(graph: GraphRewriter, conv: fb.OperatorSpec) -> int:
    """Return the number of channels that each group of a convolution writes."""
    groups = graph.sizes(conv.inputs[0] or 0)[3] // _channels_read(graph, conv)
    return int(graph.sizes(conv.outputs[0])[3]) // groups


def _rewrite(graph: GraphRewriter, shuffle: _Shuffle, placement: _Placement) -> None:
    first, last, positions = shuffle.first, shuffle.last, placement.positions
    arrays = [np.asarray(graph.constant(index))[shuffle.order] for index in first.inputs[1:3]]
    graph.set_inputs(first, [first.inputs[0], *_spread_channels(graph, first, arrays, placement, 0)])
    source = _write_grouped(graph, first, placement)
    for op in shuffle.between:
        inputs: List[Optional[int]] = list(op.inputs)
        inputs[0] = source
        if op.builtin == "DEPTHWISE_CONV_2D":
            arrays = [np.asarray(graph.constant(index)) for index in inputs[1:3]]
            inputs[1:3] = _spread_channels(graph, op, arrays, placement, -1)
        graph.set_inputs(op, inputs)
        source = _write_grouped(graph, op, placement)
    row = placement.channels // placement.groups
    if placement.groups > 1:
        source = _groups_as_pixels(graph, last, source, placement.groups)
        stride = last.options.get("stride_w", 1) * placement.groups
        graph.set_options(last, padding="VALID", stride_w=stride, dilation_w_factor=1)
    old = np.asarray(graph.constant(last.inputs[1]))
    new = np.zeros((len(old), 1, placement.groups, row // (len(positions) // old.shape[3])), np.float32)
    group_positions = positions.reshape(-1, old.shape[3])
    for k, filters in enumerate(np.split(old[:, 0, 0], len(group_positions))):
        count, own = len(filters), group_positions[k]
        new[k * count : (k + 1) * count, 0, own // row, own % row % new.shape[3]] = filters
    weights = graph.add_constant(graph.tensor(last.outputs[0]).name + "/filters", new)
    graph.set_inputs(last, [source, weights, *last.inputs[2:]])


def _spread_channels(
    graph: GraphRewriter, conv: fb.OperatorSpec, arrays: List[Any], placement: _Placement, axis: int
) -> List[int]:
    """Add the filters and the bias with the channels at their positions, and zeros at empty positions."""
    tensors = []
    for array, kind in zip(arrays, ("filters", "bias")):
        along = axis if array.ndim > 1 else 0
        shape = list(array.shape)
        shape[along] = placement.channels
        spread = np.zeros(shape, array.dtype)
        np.moveaxis(spread, along, 0)[placement.positions] = np.moveaxis(array, along, 0)
        tensors.append(graph.add_constant("%s/%s" % (graph.tensor(conv.outputs[0]).name, kind), spread))
    return tensors


def _write_grouped(graph: GraphRewriter, op: fb.OperatorSpec, placement: _Placement) -> int:
    """Let an operator write a new tensor: the name of the old one belongs to the channels in the order of the model."""
    old = graph.tensor(op.outputs[0])
    shape, signature = (
        [*sizes[:-1], placement.channels] if sizes else None for sizes in (old.shape, old.shape_signature)
    )
    result = graph.add_tensor(old.name + "/grouped", old.dtype, shape or (), signature)
    graph.set_outputs(op, [result])
    return result


def _groups_as_pixels(graph: GraphRewriter, conv: fb.OperatorSpec, source: int, groups: int) -> int:
    """Insert a RESHAPE before a convolution that makes a pixel of each group of channels."""
    old = graph.tensor(source)
    shape, signature = (
        [sizes[0], sizes[1], sizes[2] * groups, sizes[3] // groups] if sizes else None
        for sizes in (old.shape, old.shape_signature)
    )
    sizes = graph.add_constant(old.name + "/sizes", np.asarray(signature or shape, np.int32))
    result = graph.add_tensor(old.name + "/row", old.dtype, shape or (), signature)
    graph.insert_before(conv, fb.OperatorSpec("RESHAPE", [source, sizes], [result], {}))
    return result

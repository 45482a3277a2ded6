"""CONV_2D(RESHAPE(TRANSPOSE(RESHAPE(CONV_2D(x)))))  =>  CONV_2D(RESHAPE(CONV_2D(x))) with reordered filters

RESHAPE, TRANSPOSE, RESHAPE permute the channels between two grouped convolutions. Within a group, the order of channels is free.
So the first convolution writes its channels ordered by (own group, group of the second convolution), and the filters of the
second are reordered. With groups on both sides, a RESHAPE turns the groups into pixels of a row, which the second convolution
reads with a wider filter. Otherwise no RESHAPE remains.

Conditions: filters and biases are float32 constants, the second filter is 1x1, and no other operator reads the intermediate
tensors. The ops between the convolutions are PAD or DEPTHWISE_CONV_2D, without a change of the number of channels.
"""

from typing import Any, List, NamedTuple, Optional

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["channel_shuffles"]

_MAX_GROWTH = 9 / 8  # of the number of channels: zero channels are inserted where the groups do not divide evenly


class _Shuffle(NamedTuple):
    order: np.ndarray  # for each channel after the shuffle, its channel before the shuffle
    first: fb.OperatorSpec  # the convolution before the shuffle
    between: List[fb.OperatorSpec]  # channelwise operators between the shuffle and the last convolution
    last: fb.OperatorSpec  # the convolution after the shuffle
    source: int  # the tensor before the shuffle, the result of the first convolution
    result: int  # the tensor after the shuffle


class _Placement(NamedTuple):
    channels: int  # the number of channels, with the zero channels that are inserted
    groups: int  # the groups of the first convolution, which become pixels of a row; 1 if no RESHAPE remains
    positions: np.ndarray  # for each channel after the shuffle, its new channel


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
    """Remove channel shuffles (RESHAPE, TRANSPOSE, RESHAPE) between two convolutions: reorder the filters of both.

    Applies under the conditions of this module. The rewrite may insert zero channels. A shuffle stays if the number of
    channels would grow by more than the factor `_MAX_GROWTH`. Erases dead code after each rewrite. Returns the number
    of removed shuffles.
    """
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
    """Whether a convolution has filters and a bias that are float32 constants. False without a bias."""
    arrays = [graph.constant(index) for index in conv.inputs[1:3]]
    return len(arrays) == 2 and all(array is not None and np.asarray(array).dtype == np.float32 for array in arrays)


def _channel_order(graph: GraphRewriter, source: int, transpose: fb.OperatorSpec, result: int) -> Any:
    """Return a vector: for each channel of the tensor `result`, the number of the channel of `source` that it holds.

    `transpose` is the TRANSPOSE between two RESHAPEs, which compute `result` from `source`. Returns None if

    - `source` and `result` are not of rank 4 with equal sizes, or a size other than the batch is open,
    - the permutation is no constant,
    - the input of the TRANSPOSE does not end with the axes into which the channels are split,
    - the TRANSPOSE moves an axis other than these last axes.
    """
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
    """Whether an operator computes each channel from the same channel: PAD of other axes, or DEPTHWISE_CONV_2D.

    False for a PAD without constant paddings. False for a DEPTHWISE_CONV_2D without constant float32 filters and bias,
    or with a depth multiplier other than 1.
    """
    if op.builtin == "PAD":
        ends = graph.constant(op.inputs[1])
        return ends is not None and not np.any(ends[3])
    is_single = tuple(graph.sizes(op.inputs[0] or 0)[3:]) == tuple(graph.sizes(op.outputs[0])[3:])
    return op.builtin == "DEPTHWISE_CONV_2D" and is_single and _has_known_weights(graph, op)


def _place_channels(graph: GraphRewriter, shuffle: _Shuffle) -> Optional[_Placement]:
    """Return, as a `_Placement`, the position at which the first convolution writes each channel.

    The positions are ordered by (group of the first convolution, group of the last convolution). Each such pair gets as
    many positions as the pair with the most channels. Unused positions become zero channels. Returns None if there are
    more positions than `_MAX_GROWTH` times the number of channels.
    """
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
    """Append copies of `arrays` with their channels at the positions of `placement`; return their tensor indices.

    `arrays`: the filters, whose channels are along `axis`, and the bias, in the order of channels after the shuffle.
    Other positions are zero. The names of the copies begin with the name of the result of `conv`.
    """
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
    """Let an operator write a new tensor with `placement.channels` channels, and return the index of the tensor.

    Readers of the old tensor still read the old tensor, whose name belongs to the channels in the order of the model.
    """
    old = graph.tensor(op.outputs[0])
    shape, signature = (
        [*sizes[:-1], placement.channels] if sizes else None for sizes in (old.shape, old.shape_signature)
    )
    result = graph.add_tensor(old.name + "/grouped", old.dtype, shape or (), signature)
    graph.set_outputs(op, [result])
    return result


def _groups_as_pixels(graph: GraphRewriter, conv: fb.OperatorSpec, source: int, groups: int) -> int:
    """Insert RESHAPE [n, h, w, c] => [n, h, w * groups, c / groups] before a convolution; return the result's index.

    `source`: the tensor to reshape. The inputs of the convolution stay.
    """
    old = graph.tensor(source)
    shape, signature = (
        [sizes[0], sizes[1], sizes[2] * groups, sizes[3] // groups] if sizes else None
        for sizes in (old.shape, old.shape_signature)
    )
    sizes = graph.add_constant(old.name + "/sizes", np.asarray(signature or shape, np.int32))
    result = graph.add_tensor(old.name + "/row", old.dtype, shape or (), signature)
    graph.insert_before(conv, fb.OperatorSpec("RESHAPE", [source, sizes], [result], {}))
    return result

"""Channels that are shuffled between two convolutions, without moving them: filters may stand in any order.

Within a group the order is free. So the first convolution lays its channels down by (its own group, the group of the second
that reads them); then that one finds what belongs together side by side, and a convolution over the groups of the first as
if they were pixels of a row takes its share of each.
"""

from typing import Any, List, NamedTuple, Optional

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.sweep import sweep
from onnx_compat_tflite.passes.view import View

__all__ = ["absorb_shuffles"]

_MOST = 9 / 8  # times the channels, where groups do not divide evenly and some are left empty


class _Shuffle(NamedTuple):
    order: Any  # which channel comes to each place
    first: fb.OperatorSpec
    between: List[fb.OperatorSpec]  # what treats every channel by itself
    last: fb.OperatorSpec
    source: int  # what the first convolution gives
    result: int  # the same, shuffled


class _Places(NamedTuple):
    channels: int
    groups: int  # of the first convolution, which lie beside each other in a row; or one
    of: Any  # where each of the shuffled channels is


def absorb_shuffles(graph: fb.SubGraph) -> None:
    """RESHAPE, TRANSPOSE and RESHAPE between convolutions are one RESHAPE, or none if one of these has no groups."""
    while _absorb_one(graph):
        sweep(graph)  # now, and not at the end: the weights in their first order are as large as the new ones


def _absorb_one(graph: fb.SubGraph) -> bool:
    view = View(graph)
    for operator in graph.operators:
        found = _shuffle(view, operator) if operator.builtin == "TRANSPOSE" else None
        places = None if found is None else _places(view, found)
        if found is not None and places is not None:
            _rewrite(graph, found, places)
            return True
    return False


def _shuffle(view: View, transpose: fb.OperatorSpec) -> Optional[_Shuffle]:
    before, after = view.writer(transpose.inputs[0], "RESHAPE"), _only_reader(view, transpose.outputs[0])
    if before is None or after is None or after.builtin != "RESHAPE" or before.inputs[0] is None:
        return None
    source, result = before.inputs[0], after.outputs[0]
    order = _order(view, source, transpose, result)
    first = view.writer(source, "CONV_2D")
    if order is None or first is None or _only_reader(view, source) is not before or not _known(view, first):
        return None
    if _only_reader(view, before.outputs[0]) is not transpose:
        return None
    between: List[fb.OperatorSpec] = []
    operator = _only_reader(view, result)
    while operator is not None and _by_channel(view, operator):
        between.append(operator)
        operator = _only_reader(view, operator.outputs[0])
    if operator is None or operator.builtin != "CONV_2D" or not _known(view, operator):
        return None
    if tuple(view.sizes(operator.inputs[1] or 0)[1:3]) != (1, 1):
        return None
    return _Shuffle(order, first, between, operator, source, result)


def _only_reader(view: View, index: int) -> Optional[fb.OperatorSpec]:
    readers = view.readers(index)
    return readers[0] if len(readers) == 1 and index not in view.graph.outputs else None


def _known(view: View, conv: fb.OperatorSpec) -> bool:
    """Whether its filters and its bias are constants of floats."""
    arrays = [view.constant(index) for index in conv.inputs[1:3]]
    return len(arrays) == 2 and all(array is not None and np.asarray(array).dtype == np.float32 for array in arrays)


def _order(view: View, source: int, transpose: fb.OperatorSpec, result: int) -> Any:
    """The permutation of the channels, if only they are moved."""
    whole, cut = view.sizes(source), view.sizes(transpose.inputs[0] or 0)
    perm = view.constant(transpose.inputs[1])
    if perm is None or len(whole) != 4 or tuple(view.sizes(result)) != tuple(whole) or min(whole[1:]) < 1:
        return None
    lead = next((k for k in range(len(cut)) if int(np.prod(cut[k:])) == whole[3] and min(cut[k:]) > 0), 0)
    moved = [int(axis) for axis in perm]
    if not lead or moved[:lead] != list(range(lead)):
        return None
    places = np.arange(whole[3]).reshape(cut[lead:])
    return places.transpose([axis - lead for axis in moved[lead:]]).reshape(-1)


def _by_channel(view: View, operator: fb.OperatorSpec) -> bool:
    """Whether an operator that reads the channels treats each by itself, and gives one for each."""
    if operator.builtin == "PAD":
        ends = view.constant(operator.inputs[1])
        return ends is not None and not np.any(ends[3])
    single = tuple(view.sizes(operator.inputs[0] or 0)[3:]) == tuple(view.sizes(operator.outputs[0])[3:])
    return operator.builtin == "DEPTHWISE_CONV_2D" and single and _known(view, operator)


def _places(view: View, found: _Shuffle) -> Optional[_Places]:
    """Each channel goes to its two groups, to the next free place there."""
    channels = len(found.order)
    own = _reach(view, found.last)
    groups, others = channels // _own(view, found.first), channels // own
    count = np.zeros((groups, others), int)
    at = []
    for place, channel in enumerate(found.order):
        one, other = channel * groups // channels, place // own
        at.append((one, other, count[one, other]))
        count[one, other] += 1
    most = int(count.max())
    if groups * others * most > channels * _MOST:
        return None
    of = np.asarray([(one * others + other) * most + free for one, other, free in at])
    return _Places(groups * others * most, groups if others > 1 else 1, of)


def _reach(view: View, conv: fb.OperatorSpec) -> int:
    """How many channels each group of a convolution reads."""
    return int(view.sizes(conv.inputs[1] or 0)[3])


def _own(view: View, conv: fb.OperatorSpec) -> int:
    """How many channels each group of a convolution gives."""
    groups = view.sizes(conv.inputs[0] or 0)[3] // _reach(view, conv)
    return int(view.sizes(conv.outputs[0])[3]) // groups


def _rewrite(graph: fb.SubGraph, found: _Shuffle, places: _Places) -> None:
    first, last = found.first, found.last
    filters, bias = (np.asarray(graph.tensors[index or 0].buffer)[found.order] for index in first.inputs[1:3])
    first.inputs = [first.inputs[0], *_spread(graph, first, [filters, bias], places, 0)]
    read = _renamed(graph, first, places)
    for operator in found.between:
        inputs: List[Optional[int]] = list(operator.inputs)
        inputs[0] = read
        if operator.builtin == "DEPTHWISE_CONV_2D":
            arrays = [np.asarray(graph.tensors[index or 0].buffer) for index in inputs[1:3]]
            inputs[1:3] = _spread(graph, operator, arrays, places, -1)
        operator.inputs = inputs
        read = _renamed(graph, operator, places)
    row = places.channels // places.groups
    if places.groups > 1:
        read = _in_a_row(graph, last, read, places.groups)
        stride = last.options.get("stride_w", 1) * places.groups
        last.options = dict(last.options, padding="VALID", stride_w=stride, dilation_w_factor=1)
    old = np.asarray(graph.tensors[last.inputs[1] or 0].buffer)
    new = np.zeros((len(old), 1, places.groups, row // (len(places.of) // old.shape[3])), np.float32)
    every = places.of.reshape(-1, old.shape[3])  # of each group of the last one
    for k, filters in enumerate(np.split(old[:, 0, 0], len(every))):
        each = len(filters)
        new[k * each : (k + 1) * each, 0, every[k] // row, every[k] % row % new.shape[3]] = filters
    name = graph.tensors[last.outputs[0]].name
    weights = graph.add(fb.TensorSpec(name + "/filters", "float32", new.shape, new))
    last.inputs = [read, weights, *last.inputs[2:]]


def _spread(graph: fb.SubGraph, conv: fb.OperatorSpec, arrays: List[Any], places: _Places, axis: int) -> List[int]:
    """The filters and the bias with their channels at these places, and nothing between them."""
    tensors = []
    for array, kind in zip(arrays, ("filters", "bias")):
        along = axis if array.ndim > 1 else 0
        shape = list(array.shape)
        shape[along] = places.channels
        spread = np.zeros(shape, array.dtype)
        np.moveaxis(spread, along, 0)[places.of] = np.moveaxis(array, along, 0)
        name = "%s/%s" % (graph.tensors[conv.outputs[0]].name, kind)
        tensors.append(graph.add(fb.TensorSpec(name, "float32", spread.shape, spread)))
    return tensors


def _renamed(graph: fb.SubGraph, operator: fb.OperatorSpec, places: _Places) -> int:
    """Another tensor for its result: the name belongs to the channels in their first order."""
    old = graph.tensors[operator.outputs[0]]
    shape, signature = ([*sizes[:-1], places.channels] if sizes else None for sizes in (old.shape, old.shape_signature))
    result = graph.add(fb.TensorSpec(old.name + "/grouped", old.dtype, shape or (), shape_signature=signature))
    operator.outputs = [result]
    return result


def _in_a_row(graph: fb.SubGraph, conv: fb.OperatorSpec, source: int, groups: int) -> int:
    """The channels of each group as a pixel of its own."""
    old = graph.tensors[source]
    shape, signature = (
        [sizes[0], sizes[1], sizes[2] * groups, sizes[3] // groups] if sizes else None
        for sizes in (old.shape, old.shape_signature)
    )
    target = np.asarray(signature or shape, np.int32)
    sizes = graph.add(fb.TensorSpec(old.name + "/sizes", "int32", target.shape, target))
    result = graph.add(fb.TensorSpec(old.name + "/row", old.dtype, shape or (), shape_signature=signature))
    graph.operators.insert(graph.operators.index(conv), fb.OperatorSpec("RESHAPE", [source, sizes], [result], {}))
    return result

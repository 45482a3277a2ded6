"""Channels that become pixels: blocks of them are what DEPTH_TO_SPACE puts in their places, if their channels are innermost.

Where they are outermost, as PyTorch's pixel shuffle has them, the layer before gives its channels in the other order.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["moved_axes", "name_blocks"]


class _Blocks(NamedTuple):
    size: int
    wide: List[int]  # the sizes of the image
    order: Any  # which channel comes to each place


def name_blocks(graph: fb.SubGraph) -> None:
    """RESHAPE, TRANSPOSE and RESHAPE as DEPTH_TO_SPACE, and a RESHAPE where one channel that is left comes first."""
    view = View(graph)
    for transpose in list(graph.operators):
        before, after = _around(view, transpose)
        if before is None or after is None or before.inputs[0] is None:
            continue
        source = before.inputs[0]
        blocks = _blocks(view, source, transpose, after.outputs[0])
        if blocks is None:
            continue
        if np.any(np.diff(blocks.order) != 1):
            layer = view.writer(source, "CONV_2D")
            if layer is None or not view.only_read_by(source, before) or not _reorder(graph, layer, blocks.order):
                continue
            (source,) = layer.outputs
        view.remove(before)
        if blocks.wide == list(view.sizes(after.outputs[0])):
            view.turn_into(after, "DEPTH_TO_SPACE", [source], block_size=blocks.size)
            view.remove(transpose)
        else:
            view.turn_into(transpose, "DEPTH_TO_SPACE", [source], block_size=blocks.size)
            spec = graph.tensors[transpose.outputs[0]]
            transpose.outputs = [graph.add(fb.TensorSpec(spec.name, spec.dtype, blocks.wide))]
            view.read_instead(after, 0, transpose.outputs[0])


def _around(view: View, transpose: fb.OperatorSpec) -> List[Optional[fb.OperatorSpec]]:
    """The RESHAPEs beside a TRANSPOSE, if what is between them is nobody else's."""
    before = view.writer(transpose.inputs[0], "RESHAPE") if transpose.builtin == "TRANSPOSE" else None
    readers = [] if before is None else view.readers(transpose.outputs[0])
    if before is None or len(readers) != 1 or readers[0].builtin != "RESHAPE":
        return [None, None]
    pairs = ((before, transpose), (transpose, readers[0]))
    alone = all(view.only_read_by(one.outputs[0], other) for one, other in pairs)
    return [before, readers[0]] if alone else [None, None]


def _blocks(view: View, source: int, transpose: fb.OperatorSpec, result: int) -> Optional[_Blocks]:
    """The channels, which are cut into rows and columns of a block and what is left, or what is left and these."""
    whole, wide, cut = (list(view.sizes(index)) for index in (source, result, transpose.inputs[0] or 0))
    perm = view.constant(transpose.inputs[1])
    if perm is None or len(whole) != 4 or len(wide) != 4 or min(whole[1:]) < 1 or min(wide[1:]) < 1:
        return None
    if wide[1] == 1:  # a single channel may as well come first
        wide = [wide[0], *wide[2:], 1]
    size, left = wide[1] // whole[1], wide[3]
    if size < 2 or wide != [whole[0], whole[1] * size, whole[2] * size, left] or whole[3] != left * size**2:
        return None
    moved = moved_axes(cut, [int(axis) for axis in perm])
    for factors, (row, column, rest) in (([size, size, left], (0, 1, 2)), ([left, size, size], (1, 2, 0))):
        if moved == moved_axes([*whole[:3], *factors], [0, 1, 3 + row, 2, 3 + column, 3 + rest]):
            places = np.arange(whole[3]).reshape(factors)
            return _Blocks(size, wide, places.transpose(row, column, rest).reshape(-1))
    return None


def moved_axes(sizes: Sequence[int], perm: Sequence[int]) -> Tuple[List[int], List[int]]:
    """A permutation without axes of length one, and with axes that stay neighbours as one. (-1 for an open size.)"""
    groups: List[List[int]] = []
    for axis in (axis for axis in perm if sizes[axis] != 1):
        if groups and groups[-1][-1] < axis and all(sizes[k] == 1 for k in range(groups[-1][-1] + 1, axis)):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    order = sorted(groups)
    return [max(-1, int(np.prod([sizes[axis] for axis in group]))) for group in order], [*map(order.index, groups)]


def _reorder(graph: fb.SubGraph, layer: fb.OperatorSpec, order: Any) -> bool:
    """Whether a layer could be given another order of channels."""
    arrays = [graph.tensors[-1 if index is None else index].buffer for index in layer.inputs[1:]]
    if len(arrays) != 2 or any(array is None or np.asarray(array).dtype != np.float32 for array in arrays):
        return False
    old = graph.tensors[layer.outputs[0]]
    tensors = []
    for array, kind in zip(arrays, ("filters", "bias")):
        changed = np.asarray(array)[order]
        tensors.append(graph.add(fb.TensorSpec("%s/%s" % (old.name, kind), "float32", changed.shape, changed)))
    layer.inputs = [layer.inputs[0], *tensors]
    # Another tensor: the name belongs to the channels in their first order.
    spec = fb.TensorSpec(old.name + "/blocks", "float32", old.shape, shape_signature=old.shape_signature)
    layer.outputs = [graph.add(spec)]
    return True

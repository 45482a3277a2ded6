"""RESHAPE(TRANSPOSE(RESHAPE(x)))                 =>  DEPTH_TO_SPACE(x)
RESHAPE(TRANSPOSE(RESHAPE(CONV_2D(x, w, b))))  =>  DEPTH_TO_SPACE(CONV_2D(x, w, b)) with reordered filters

Conditions: the operators turn [n,h,w,s*s*c] into [n,h*s,w*s,c], and no other operator reads the intermediate tensors. s
is 2 or more, and only n may be open. DEPTH_TO_SPACE splits the channels into (row, column, c). If the model splits them
into (c, row, column), as PixelShuffle of PyTorch does, a CONV_2D with constant float32 filters and bias must precede.
Its filters are reordered, and no other operator reads its result.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["depth_to_space", "merge_axes"]


class _Blocks(NamedTuple):
    size: int  # height and width of a block, in pixels
    wide: List[int]  # the NHWC sizes of the result of DEPTH_TO_SPACE
    order: Any  # for each input channel of DEPTH_TO_SPACE, the channel of the model with the same elements


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 2, 3, 8))
    x = graph.move("RESHAPE", graph.inputs[0], [2, 3, 2, 2, 2], (2, 3, 2, 2, 2))
    x = graph.move("TRANSPOSE", x, [0, 2, 1, 3, 4], (2, 2, 3, 2, 2))
    return graph.model(graph.move("RESHAPE", x, [1, 4, 6, 2], (1, 4, 6, 2)))


@graph_pass(
    "depth_to_space", "RESHAPE(TRANSPOSE(RESHAPE(x))) => DEPTH_TO_SPACE(x), where blocks become pixels", _example,
    after=("bias_folding", "channel_shuffles"),
)  # fmt: skip
def depth_to_space(graph: GraphRewriter, context: Context) -> int:
    """Replace RESHAPE, TRANSPOSE, RESHAPE by DEPTH_TO_SPACE where they turn channels into blocks of pixels.

    Applies under the conditions of this module. If the result is [n, 1, h, w], a single channel in NCHW, the last
    RESHAPE is kept after the DEPTH_TO_SPACE. Returns the number of rewrites.
    """
    return sum(_rewrite(graph, op) for op in graph.operators if op.builtin == "TRANSPOSE")


def _rewrite(graph: GraphRewriter, transpose: fb.OperatorSpec) -> bool:
    before, after = _adjacent_reshapes(graph, transpose)
    if before is None or after is None or before.inputs[0] is None:
        return False
    source = before.inputs[0]
    blocks = _find_blocks(graph, source, transpose, after.outputs[0])
    if blocks is None:
        return False
    if np.any(np.diff(blocks.order) != 1):
        layer = graph.producer(source, "CONV_2D")
        if (
            layer is None
            or not graph.is_only_read_by(source, before)
            or not _permute_channels(graph, layer, blocks.order)
        ):
            return False
        (source,) = layer.outputs
    graph.erase(before)
    if blocks.wide == list(graph.sizes(after.outputs[0])):
        graph.replace_op(after, "DEPTH_TO_SPACE", [source], block_size=blocks.size)
        graph.erase(transpose)
    else:
        graph.replace_op(transpose, "DEPTH_TO_SPACE", [source], block_size=blocks.size)
        old = graph.tensor(transpose.outputs[0])
        graph.set_outputs(transpose, [graph.add_tensor(old.name, old.dtype, blocks.wide)])
        graph.set_input(after, 0, transpose.outputs[0])
    return True


def _adjacent_reshapes(graph: GraphRewriter, transpose: fb.OperatorSpec) -> List[Optional[fb.OperatorSpec]]:
    """Return [RESHAPE before, RESHAPE after] a TRANSPOSE.

    Returns [None, None] if one of them does not exist, or if a tensor between them is an output or has other readers.
    """
    before = graph.producer(transpose.inputs[0], "RESHAPE")
    readers = [] if before is None else graph.readers(transpose.outputs[0])
    if before is None or len(readers) != 1 or readers[0].builtin != "RESHAPE":
        return [None, None]
    pairs = ((before, transpose), (transpose, readers[0]))
    is_unshared = all(graph.is_only_read_by(op.outputs[0], reader) for op, reader in pairs)
    return [before, readers[0]] if is_unshared else [None, None]


def _find_blocks(graph: GraphRewriter, source: int, transpose: fb.OperatorSpec, result: int) -> Optional[_Blocks]:
    """Return, as `_Blocks`, how the operators from `source` to `result` turn the channels into blocks of pixels.

    `transpose` is the TRANSPOSE between the two RESHAPEs. The channels are split into (row, column, c) or (c, row,
    column). A `result` of [n, 1, h, w] counts as [n, h, w, 1]. Returns None if

    - the operators do not turn channels into square blocks of 2x2 pixels or more,
    - the permutation is no constant,
    - a size other than the batch is open or 0.
    """
    whole, wide, split = (list(graph.sizes(index)) for index in (source, result, transpose.inputs[0] or 0))
    perm = graph.constant(transpose.inputs[1])
    if perm is None or len(whole) != 4 or len(wide) != 4 or min(whole[1:]) < 1 or min(wide[1:]) < 1:
        return None
    if wide[1] == 1:  # NCHW of a single channel is NHWC with another shape
        wide = [wide[0], *wide[2:], 1]
    size, rest_size = wide[1] // whole[1], wide[3]
    if size < 2 or wide != [whole[0], whole[1] * size, whole[2] * size, rest_size] or whole[3] != rest_size * size**2:
        return None
    merged = merge_axes(split, [int(axis) for axis in perm])
    for factors, (row, column, rest) in (([size, size, rest_size], (0, 1, 2)), ([rest_size, size, size], (1, 2, 0))):
        if merged == merge_axes([*whole[:3], *factors], [0, 1, 3 + row, 2, 3 + column, 3 + rest]):
            channels = np.arange(whole[3]).reshape(factors)
            return _Blocks(size, wide, channels.transpose(row, column, rest).reshape(-1))
    return None


def merge_axes(sizes: Sequence[int], perm: Sequence[int]) -> Tuple[List[int], List[int]]:
    """Simplify a permutation: drop axes of size 1, merge axes that stay adjacent; return (sizes, permutation).

    `sizes`, and the returned sizes, are in the order before the permutation. Example: sizes [2, 3, 4] with the
    permutation [2, 0, 1] become [6, 4] with [1, 0].

    An open size is -1; a merged axis is open (-1) if one of its axes is open. Two permutations with equal results move
    the elements in the same way.
    """
    groups: List[List[int]] = []
    for axis in (axis for axis in perm if sizes[axis] != 1):
        if groups and groups[-1][-1] < axis and all(sizes[k] == 1 for k in range(groups[-1][-1] + 1, axis)):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    order = sorted(groups)
    extents = [[sizes[axis] for axis in group] for group in order]
    return [-1 if min(group) < 0 else int(np.prod(group)) for group in extents], [*map(order.index, groups)]


def _permute_channels(graph: GraphRewriter, layer: fb.OperatorSpec, order: np.ndarray) -> bool:
    """Reorder the output channels of a layer: channel k becomes the old channel order[k]. Return whether it was done.

    The filters and the bias are reordered along axis 0. The layer then writes a new tensor; the readers of the old
    tensor are not changed.

    Returns False, without a change, if the layer has no bias, or if its filters or bias are no float32 constants.
    """
    arrays = [graph.constant(index) for index in layer.inputs[1:]]
    if len(arrays) != 2 or any(array is None or np.asarray(array).dtype != np.float32 for array in arrays):
        return False
    old = graph.tensor(layer.outputs[0])
    weights = [
        graph.add_constant("%s/%s" % (old.name, kind), np.asarray(array)[order])
        for array, kind in zip(arrays, ("filters", "bias"))
    ]
    graph.set_inputs(layer, [layer.inputs[0], *weights])
    # A new tensor: the name of the old one belongs to the channels in the order of the model.
    graph.set_outputs(layer, [graph.add_like(layer.outputs[0], old.name + "/blocks", "float32")])
    return True

"""CONV_2D(CONCATENATION(STRIDED_SLICE(x), STRIDED_SLICE(x), ...))  =>  CONV_2D(x) with larger filters and strides
CONV_2D(RESHAPE(TRANSPOSE(RESHAPE(x))))                         =>  CONV_2D(x) with larger filters and strides

The operators between x and the convolution turn blocks of pixels into channels: Focus of YOLO, pixel unshuffle,
SPACE_TO_DEPTH. Filters and strides that are larger by the block size compute the same products without that copy.

Conditions: x is float32 of rank 4, and only its batch may be open. Each pixel of x is read once. The convolution has
constant float32 filters, no dilation, no groups, and padding VALID, or SAME that is equal on both sides. A TRANSPOSE
between the CONCATENATION and the convolution is kept, before the convolution.
"""

from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.depth_to_space import merge_axes
from onnx_compat_tflite.passes.rewriter import GraphRewriter

__all__ = ["space_to_depth_conv"]


_END = np.iinfo(np.int32).max  # the end of an axis of any size


class _Samples(NamedTuple):
    source: int  # the NHWC image
    steps: Tuple[int, int]  # the height and width of a block: each part takes a pixel of each block
    starts: List[Tuple[int, int]]  # for each part, (row, column) of its pixel in a block
    is_interleaved: bool = False  # channels are ordered by (channel of x, part), and not by (part, channel of x)


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((1, 4, 4, 2))
    x = graph.move("RESHAPE", graph.inputs[0], [2, 2, 2, 2, 2], (2, 2, 2, 2, 2))
    x = graph.move("TRANSPOSE", x, [0, 2, 1, 3, 4], (2, 2, 2, 2, 2))
    x = graph.move("RESHAPE", x, [1, 2, 2, 8], (1, 2, 2, 8))
    return graph.model(graph.conv(x, graph.filters(3, 1, 1, 8), (1, 2, 2, 3)))


@graph_pass(
    "space_to_depth_conv", "CONV_2D(SPACE_TO_DEPTH(x)) => CONV_2D(x) with larger filters and strides", _example,
    after=("bias_folding", "channel_shuffles"),
)  # fmt: skip
def space_to_depth_conv(graph: GraphRewriter, context: Context) -> int:
    """Rewrite CONV_2D(SPACE_TO_DEPTH(x)) => CONV_2D(x), with larger filters and strides; return the number of rewrites.

    SPACE_TO_DEPTH stands for the two forms that `_find_slices` and `_find_blocks` recognise. The operators that compute
    it are not erased. `_can_stride` has the conditions for the convolution.
    """
    count = 0
    for conv in graph.operators:
        if conv.builtin != "CONV_2D":
            continue
        transpose = graph.producer(conv.inputs[0], "TRANSPOSE")
        order = [0, 1, 2, 3] if transpose is None else graph.constant(transpose.inputs[1])
        joined = graph.producer(conv.inputs[0] if transpose is None else transpose.inputs[0], "CONCATENATION")
        if joined is not None and order is not None:
            samples = _find_slices(graph, joined, [int(axis) for axis in order])
        else:
            samples, transpose = _find_blocks(graph, conv.inputs[0] or 0), None
        if samples is not None and _can_stride(graph, conv):
            _read_source(graph, conv, transpose, samples)
            count += 1
    return count


def _find_slices(graph: GraphRewriter, joined: fb.OperatorSpec, order: List[int]) -> Optional[_Samples]:
    """Return the `_Samples` of an image, if the CONCATENATION `joined` joins strided slices of it along the channels.

    `order`: the axes of the image that the convolution reads as batch, rows, columns and channels. For an NCHW image,
    it is [0, 2, 3, 1]. Conditions:

    - The slices have each pixel of the image exactly once, with all channels.
    - The image is float32 of rank 4, and only its batch may be open.

    Returns None if a condition does not hold.
    """
    if len(order) != 4 or order[0] != 0 or joined.options.get("axis") not in (order[3], order[3] - 4):
        return None
    parts = [_resolve_slices(graph, index or 0) for index in joined.inputs]
    source, _, steps = parts[0]
    whole, shapes = list(graph.sizes(source)), [list(graph.sizes(index or 0)) for index in joined.inputs]
    if len(whole) != 4 or len(steps) != 4 or graph.tensor(source).dtype != "float32" or min(whole[1:]) < 1:
        return None
    rows, columns, channels = order[1:]
    covered = [whole[0], *(size * step for size, step in zip(shapes[0][1:], steps[1:]))]
    if whole != covered or steps[0] != 1 or steps[channels] != 1 or any(shape != shapes[0] for shape in shapes):
        return None
    for other_source, start, other_steps in parts:
        if other_source != source or other_steps != steps or start[0] or start[channels]:
            return None
    starts = [(start[rows], start[columns]) for _, start, _ in parts]
    every = {(row, column) for row in range(steps[rows]) for column in range(steps[columns])}
    if len(every) < 2 or sorted(starts) != sorted(every):
        return None
    return _Samples(source, (steps[rows], steps[columns]), starts)


def _resolve_slices(graph: GraphRewriter, index: int) -> Tuple[int, List[int], List[int]]:
    """Return (source, starts, steps): the tensor `index` is `source`, sliced with a start and a step per axis.

    The search follows a chain of STRIDED_SLICEs backwards from `index`. `source` is the tensor at which it ends.
    `starts` and `steps` combine all STRIDED_SLICEs of the chain; the ends are not returned. Without a STRIDED_SLICE,
    `source` is `index`, with starts of 0 and steps of 1. The search ends at the result of a STRIDED_SLICE if

    - its starts, ends or steps are no constants,
    - a start is negative, or a step is below 1,
    - it adds or drops axes or has an ellipsis, or may shorten a batch of open size.
    """
    rank = len(graph.sizes(index))
    starts, steps = [0] * rank, [1] * rank
    op = graph.producer(index, "STRIDED_SLICE")
    while op is not None and op.inputs[0] is not None:
        begin, end, strides = (graph.constant(argument) for argument in op.inputs[1:4])
        has_mask = any(op.options.get(name + "_mask") for name in ("ellipsis", "new_axis", "shrink_axis"))
        if has_mask or begin is None or end is None or strides is None or np.min(strides) < 1 or np.min(begin) < 0:
            break
        if graph.sizes(index)[0] < 0 and end[0] < _END and not op.options.get("end_mask", 0) & 1:
            break  # the end may shorten a batch of open size
        mask = op.options.get("begin_mask", 0)
        own = [0 if mask >> axis & 1 else int(start) for axis, start in enumerate(begin)]
        starts = [start + inner * int(step) for start, inner, step in zip(own, starts, strides)]
        steps = [step * int(more) for step, more in zip(steps, strides)]
        index = op.inputs[0]
        op = graph.producer(index, "STRIDED_SLICE")
    return index, starts, steps


def _find_blocks(graph: GraphRewriter, index: int) -> Optional[_Samples]:
    """Return the `_Samples` of an image, if RESHAPE, TRANSPOSE, RESHAPE compute the tensor `index` from the image.

    The three operators turn each block of the image into the channels of one pixel. A block is a square of at least 2x2
    pixels. Returns None if

    - other operators compute the tensor, or they permute the elements in another way,
    - the image is not float32 of rank 4, or a size other than the batch is open.
    """
    after = graph.producer(index, "RESHAPE")
    transpose = None if after is None else graph.producer(after.inputs[0], "TRANSPOSE")
    before = None if transpose is None else graph.producer(transpose.inputs[0], "RESHAPE")
    perm = None if transpose is None else graph.constant(transpose.inputs[1])
    if before is None or transpose is None or perm is None or before.inputs[0] is None:
        return None
    source = before.inputs[0]
    whole, small = list(graph.sizes(source)), list(graph.sizes(index))
    if len(whole) != 4 or len(small) != 4 or min(whole[1:]) < 1 or graph.tensor(source).dtype != "float32":
        return None
    size = whole[1] // max(small[1], 1)
    if size < 2 or whole != [small[0], small[1] * size, small[2] * size, small[3] // size**2]:
        return None
    split = [whole[0], small[1], size, small[2], size, whole[3]]
    merged = merge_axes(graph.sizes(transpose.inputs[0] or 0), [int(axis) for axis in perm])
    starts = [(row, column) for row in range(size) for column in range(size)]
    if merged == merge_axes(split, [0, 1, 3, 2, 4, 5]):
        return _Samples(source, (size, size), starts)
    is_interleaved = merged == merge_axes(split, [0, 1, 3, 5, 2, 4])
    return _Samples(source, (size, size), starts, is_interleaved=True) if is_interleaved else None


def _can_stride(graph: GraphRewriter, conv: fb.OperatorSpec) -> bool:
    """Whether larger filters and strides can give the convolution `conv` the same windows on the image. True if

    - the filters are constant float32,
    - there is no dilation, and there are no groups,
    - the padding is VALID, or SAME that adds equal amounts on both sides.
    """
    filters, sizes = graph.constant(conv.inputs[1]), graph.sizes(conv.inputs[0] or 0)
    if filters is None or np.asarray(filters).dtype != np.float32 or np.shape(filters)[3] != sizes[3]:
        return False
    for axis, name in ((1, "h"), (2, "w")):
        size, taps, step = sizes[axis], np.shape(filters)[axis], conv.options["stride_" + name]
        if conv.options.get("dilation_%s_factor" % name, 1) != 1:
            return False
        if conv.options["padding"] == "SAME" and max((-(-size // step) - 1) * step + taps - size, 0) % 2:
            return False
    return True


def _read_source(
    graph: GraphRewriter, conv: fb.OperatorSpec, transpose: Optional[fb.OperatorSpec], samples: _Samples
) -> None:
    """Let a convolution read the image `samples.source`, with larger filters and strides, in place; the bias stays.

    If `transpose` is given, a new TRANSPOSE of the image is inserted before the convolution. It has the permutation of
    `transpose`.
    """
    source = samples.source
    old: Any = np.asarray(graph.constant(conv.inputs[1]))
    (rows, columns), count = samples.steps, len(samples.starts)
    new = np.zeros((len(old), old.shape[1] * rows, old.shape[2] * columns, old.shape[3] // count), np.float32)
    for k, (row, column) in enumerate(samples.starts):
        own = slice(k, None, count) if samples.is_interleaved else slice(k * new.shape[3], (k + 1) * new.shape[3])
        new[:, row::rows, column::columns] = old[..., own]
    name = graph.tensor(conv.outputs[0]).name
    filters = graph.add_constant(name + "/filters", new)
    if transpose is not None:
        sizes = [graph.sizes(source)[int(axis)] for axis in graph.constant(transpose.inputs[1])]
        whole = graph.add_tensor(name + "/whole", "float32", sizes)
        graph.insert_before(conv, fb.OperatorSpec("TRANSPOSE", [source, transpose.inputs[1]], [whole]))
        source = whole
    bias = [index for index in conv.inputs[2:] if index is not None]
    graph.set_inputs(conv, [source, filters, *bias])
    graph.set_options(conv, stride_h=conv.options["stride_h"] * rows, stride_w=conv.options["stride_w"] * columns)

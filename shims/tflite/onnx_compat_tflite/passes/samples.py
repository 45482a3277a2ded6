"""Images that are made of every second pixel of another, or of blocks of them, beside each other in front of a convolution.

As filters stride over pixels themselves, those of the convolution, spread out, read the whole image in larger steps: the same
products, and nothing is copied. It is what YOLO's Focus is for, and what its authors wrote in its place later; a pixel unshuffle
differs in the order of its channels only.
"""

from typing import Any, List, NamedTuple, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.pixels import moved_axes
from onnx_compat_tflite.passes.view import View

__all__ = ["read_in_steps"]


_END = np.iinfo(np.int32).max  # of an axis of any length


class _Samples(NamedTuple):
    source: int
    steps: Tuple[int, int]  # of rows and columns
    starts: List[Tuple[int, int]]  # of each part
    mixed: bool = False  # whether the parts of each channel are together, and not the channels of each part


def read_in_steps(graph: fb.SubGraph) -> None:
    """STRIDED_SLICEs that are joined before a CONV_2D are left out, also before a TRANSPOSE of them; and blocks of pixels."""
    view = View(graph)
    for conv in list(graph.operators):
        if conv.builtin != "CONV_2D":
            continue
        turned = view.writer(conv.inputs[0], "TRANSPOSE")
        order = [0, 1, 2, 3] if turned is None else view.constant(turned.inputs[1])
        joined = view.writer(conv.inputs[0] if turned is None else turned.inputs[0], "CONCATENATION")
        if joined is not None and order is not None:
            samples = _samples(view, joined, [int(axis) for axis in order])
        else:
            samples, turned = _blocks(view, conv.inputs[0] or 0), None
        if samples is not None and _even(view, conv):
            _spread(view, conv, turned, samples)


def _samples(view: View, joined: fb.OperatorSpec, order: List[int]) -> Optional[_Samples]:
    """All pixels of one image, if each part has some of them, with all channels; rows, columns and channels are in `order`."""
    if len(order) != 4 or order[0] != 0 or joined.options.get("axis") not in (order[3], order[3] - 4):
        return None
    parts = [_part(view, index or 0) for index in joined.inputs]
    source, _, steps = parts[0]
    whole, shapes = list(view.sizes(source)), [list(view.sizes(index or 0)) for index in joined.inputs]
    if len(whole) != 4 or len(steps) != 4 or view.graph.tensors[source].dtype != "float32" or min(whole[1:]) < 1:
        return None
    rows, columns, channels = order[1:]
    covered = [whole[0], *(size * step for size, step in zip(shapes[0][1:], steps[1:]))]
    if whole != covered or steps[0] != 1 or steps[channels] != 1 or any(shape != shapes[0] for shape in shapes):
        return None
    if any(each[0] != source or each[2] != steps or each[1][0] or each[1][channels] for each in parts):
        return None
    starts = [(each[1][rows], each[1][columns]) for each in parts]
    every = {(row, column) for row in range(steps[rows]) for column in range(steps[columns])}
    if len(every) < 2 or sorted(starts) != sorted(every):
        return None
    return _Samples(source, (steps[rows], steps[columns]), starts)


def _part(view: View, index: int) -> Tuple[int, List[int], List[int]]:
    """The tensor that STRIDED_SLICEs begin with, where they start in it, and in which steps they go."""
    rank = len(view.sizes(index))
    starts, steps = [0] * rank, [1] * rank
    operator = view.writer(index, "STRIDED_SLICE")
    while operator is not None and operator.inputs[0] is not None:
        begin, end, strides = (view.constant(place) for place in operator.inputs[1:4])
        odd = any(operator.options.get(name + "_mask") for name in ("ellipsis", "new_axis", "shrink_axis"))
        if odd or begin is None or end is None or strides is None or np.min(strides) < 1 or np.min(begin) < 0:
            break
        if view.sizes(index)[0] < 0 and end[0] < _END and not operator.options.get("end_mask", 0) & 1:
            break  # the first images only, perhaps
        left = operator.options.get("begin_mask", 0)
        own = [0 if left >> axis & 1 else int(start) for axis, start in enumerate(begin)]
        starts = [start + place * int(step) for start, place, step in zip(own, starts, strides)]
        steps = [step * int(more) for step, more in zip(steps, strides)]
        index = operator.inputs[0]
        operator = view.writer(index, "STRIDED_SLICE")
    return index, starts, steps


def _blocks(view: View, index: int) -> Optional[_Samples]:
    """The image whose blocks of pixels are the channels of another, by RESHAPE, TRANSPOSE and RESHAPE."""
    after = view.writer(index, "RESHAPE")
    transpose = None if after is None else view.writer(after.inputs[0], "TRANSPOSE")
    before = None if transpose is None else view.writer(transpose.inputs[0], "RESHAPE")
    perm = None if transpose is None else view.constant(transpose.inputs[1])
    if before is None or transpose is None or perm is None or before.inputs[0] is None:
        return None
    source = before.inputs[0]
    whole, small = list(view.sizes(source)), list(view.sizes(index))
    if len(whole) != 4 or len(small) != 4 or min(whole[1:]) < 1 or view.graph.tensors[source].dtype != "float32":
        return None
    size = whole[1] // max(small[1], 1)
    if size < 2 or whole != [small[0], small[1] * size, small[2] * size, small[3] // size**2]:
        return None
    cut = [whole[0], small[1], size, small[2], size, whole[3]]
    moved = moved_axes(view.sizes(transpose.inputs[0] or 0), [int(axis) for axis in perm])
    starts = [(row, column) for row in range(size) for column in range(size)]
    if moved == moved_axes(cut, [0, 1, 3, 2, 4, 5]):
        return _Samples(source, (size, size), starts)
    return _Samples(source, (size, size), starts, mixed=True) if moved == moved_axes(cut, [0, 1, 3, 5, 2, 4]) else None


def _even(view: View, conv: fb.OperatorSpec) -> bool:
    """Whether a convolution goes over neighbouring pixels, with as many beyond either side: so it is with larger steps."""
    filters, sizes = view.constant(conv.inputs[1]), view.sizes(conv.inputs[0] or 0)
    if filters is None or np.asarray(filters).dtype != np.float32 or np.shape(filters)[3] != sizes[3]:
        return False
    for axis, name in ((1, "h"), (2, "w")):
        size, taps, step = sizes[axis], np.shape(filters)[axis], conv.options["stride_" + name]
        if conv.options.get("dilation_%s_factor" % name, 1) != 1:
            return False
        if conv.options["padding"] == "SAME" and max((-(-size // step) - 1) * step + taps - size, 0) % 2:
            return False
    return True


def _spread(view: View, conv: fb.OperatorSpec, turned: Optional[fb.OperatorSpec], samples: _Samples) -> None:
    graph, source = view.graph, samples.source
    old: Any = np.asarray(view.constant(conv.inputs[1]))
    rows, columns = samples.steps
    new = np.zeros(
        (len(old), old.shape[1] * rows, old.shape[2] * columns, old.shape[3] // len(samples.starts)), np.float32
    )
    count = len(samples.starts)
    for k, (row, column) in enumerate(samples.starts):
        own = slice(k, None, count) if samples.mixed else slice(k * new.shape[3], (k + 1) * new.shape[3])
        new[:, row::rows, column::columns] = old[..., own]
    name = graph.tensors[conv.outputs[0]].name
    filters = graph.add(fb.TensorSpec(name + "/filters", "float32", new.shape, new))
    if turned is not None:
        sizes = [view.sizes(source)[int(axis)] for axis in view.constant(turned.inputs[1])]
        whole = graph.add(fb.TensorSpec(name + "/whole", "float32", sizes))
        graph.operators.insert(
            graph.operators.index(conv), fb.OperatorSpec("TRANSPOSE", [source, turned.inputs[1]], [whole])
        )
        source = whole
    larger = {"stride_h": conv.options["stride_h"] * rows, "stride_w": conv.options["stride_w"] * columns}
    view.turn_into(
        conv,
        "CONV_2D",
        [source, filters, *[index for index in conv.inputs[2:] if index is not None]],
        **{**conv.options, **larger},
    )

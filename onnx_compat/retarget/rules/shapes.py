"""Rules for Pad, Reshape, Shape, Slice, Split, TopK and the rearrangement of depth."""

from typing import List

import numpy as np

from onnx_compat.retarget.draft import Draft, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added


def _paddings_to_pads(draft: Draft) -> None:
    draft.set("pads", list(draft.get("paddings")))
    draft.drop("paddings")


def _pads_to_paddings(draft: Draft) -> None:
    draft.set("paddings", list(draft.get("pads")))
    draft.drop("pads")


def _pads_to_inputs(draft: Draft) -> None:
    pads, value = draft.get("pads"), draft.get("value")
    draft.drop("pads", "value")
    draft.add_input(1, "pads", list(pads))
    if value is not None:
        draft.add_input(2, "value", value, draft.dtype())


def _pads_to_attributes(draft: Draft) -> None:
    pads = draft.integers_of(1)
    if draft.has_input(2):
        value = float(draft.array_of(2).reshape(-1)[0])
        if not np.isnan(value) and float(np.float32(value)) != value:
            raise Inexpressible("its value %r is no float32" % value)
        draft.set("value", value)
    draft.drop_input(2)
    draft.drop_input(1)
    draft.set("pads", pads)


def _pad_every_axis(draft: Draft) -> None:
    """Write pads for every axis: from opset 18 on, `axes` tells which axes have pads."""
    if draft.has_input(3):
        axes, pads = draft.integers_of(3), draft.integers_of(1)
        rank = draft.rank()
        every = [0] * (2 * rank)
        for position, axis in enumerate(axes):
            every[axis % rank] = pads[position]
            every[axis % rank + rank] = pads[position + len(axes)]
        draft.drop_input(3)
        draft.add_input(1, "pads", every)


def _require_no_wrap(draft: Draft) -> None:
    if draft.get("mode", "constant") == "wrap":
        raise Inexpressible("the other version has no mode 'wrap'")


def _shape_to_input(draft: Draft) -> None:
    shape = draft.get("shape")
    draft.drop("shape", "consumed_inputs")
    draft.add_input(1, "shape", list(shape or ()))


def _shape_to_attribute(draft: Draft) -> None:
    shape = draft.integers_of(1)
    draft.drop_input(1)
    draft.set("shape", shape)


def _drop_allowzero(draft: Draft) -> None:
    """Drop `allowzero`, which has an effect only if a size is 0. Exporters set it for shapes of nonempty tensors too.

    Raises Inexpressible if a known shape has a size 0. `draft` gets a caveat if the shape is not known.
    """
    if draft.get("allowzero", 0):
        if draft.fact(1).value is None:
            draft.caveats.append("if a size of the shape is 0 at run time, it is copied from the data")
        elif 0 in draft.integers_of(1):
            raise Inexpressible("the other version copies a size where the shape is 0")
    draft.drop("allowzero")


def _drop_range(draft: Draft) -> None:
    rank = draft.fact(0).rank
    start, end = draft.get("start", 0), draft.get("end")
    starts_first = start == 0 or (rank is not None and start <= -rank)
    if not starts_first or not (end is None or (rank is not None and end >= rank)):
        raise Inexpressible("the other version gives the whole shape")
    draft.drop("start", "end")


def _slice_to_inputs(draft: Draft) -> None:
    values = [(label, draft.get(label)) for label in ("starts", "ends", "axes")]
    draft.drop("starts", "ends", "axes")
    for index, (label, value) in enumerate(values, 1):
        if value is not None:
            draft.add_input(index, label, list(value))


def _slice_to_attributes(draft: Draft) -> None:
    if draft.has_input(4) and any(step != 1 for step in draft.integers_of(4)):
        raise Inexpressible("the other version has no steps")
    values = {
        label: draft.integers_of(k) for k, label in ((1, "starts"), (2, "ends"), (3, "axes")) if draft.has_input(k)
    }
    for index in (4, 3, 2, 1):
        draft.drop_input(index)
    for label, value in values.items():
        draft.set(label, value)


def _slice_from_the_front(draft: Draft) -> None:
    if draft.has_input(3) and draft.fact(3).value is not None:
        axes = draft.integers_of(3)
        if any(axis < 0 for axis in axes):
            rank = draft.rank()
            draft.add_input(3, "axes", [axis % rank for axis in axes], draft.dtype(3))


def _split_to_input(draft: Draft) -> None:
    sizes = draft.get("split")
    if sizes is not None:
        draft.drop("split")
        draft.add_input(1, "split", list(sizes))


def _split_to_attribute(draft: Draft) -> None:
    if draft.has_input(1):
        sizes = draft.integers_of(1)
        draft.drop_input(1)
        draft.set("split", sizes)


def _split_old_input(draft: Draft) -> None:
    """Up to opset 1, the sizes are an input or an attribute."""
    _split_to_attribute(draft)


def _count_parts(draft: Draft) -> None:
    if not draft.has_input(1):
        draft.set("num_outputs", len(draft.node.output))


def _drop_count(draft: Draft) -> None:
    """Without a number of parts, the parts are equal: write out their sizes if the last part is smaller.

    Raises Inexpressible if the size of the axis is not known.
    """
    count = draft.get("num_outputs")
    draft.drop("num_outputs")
    if count is None or draft.has_input(1):
        return
    size = draft.size(0, draft.get("axis", 0))
    if size is None:
        raise Inexpressible("the size that it splits is not known: the last part may be smaller")
    if size % count:
        draft.add_input(1, "split", part_sizes(size, count))


def part_sizes(size: int, count: int) -> List[int]:
    """Return the sizes of `count` parts of an axis, of which the last may be smaller."""
    part = -(-size // count)
    return [max(0, min(part, size - part * index)) for index in range(count)]


def _k_to_input(draft: Draft) -> None:
    count = draft.get("k")
    draft.drop("k")
    draft.add_input(1, "k", [count])


def _k_to_attribute(draft: Draft) -> None:
    count = draft.integers_of(1)[0]
    draft.drop_input(1)
    draft.set("k", count)


register("Pad", 2, _paddings_to_pads, _pads_to_paddings)
register("Pad", 11, _pads_to_inputs, _pads_to_attributes)
register("Pad", 18, keep, _pad_every_axis)
register("Pad", 19, keep, _require_no_wrap)
register("Reshape", 5, _shape_to_input, _shape_to_attribute)
register("Reshape", 14, keep, _drop_allowzero)
register("Shape", 15, keep, _drop_range)
register("Slice", 10, _slice_to_inputs, _slice_to_attributes)
register("Slice", 11, keep, _slice_from_the_front)
register("Split", 2, _split_old_input, keep)
register("Split", 13, _split_to_input, _split_to_attribute)
register("Split", 18, _count_parts, _drop_count)
register("TopK", 10, _k_to_input, _k_to_attribute)
register_added("TopK", 11, {"largest": 1, "sorted": 1}, also={"sorted": [0]})
register_added("DepthToSpace", 11, {"mode": "DCR"})
register_added("SpaceToDepth", 28, {"mode": "DCR"})

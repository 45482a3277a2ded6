"""Rules for Pad, Reshape, Shape, Slice, Split, TopK and the rearrangement of depth."""

from typing import List

import numpy as np

from onnx_compat.retarget.edited_node import EditedNode, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added


def _paddings_to_pads(node: EditedNode) -> None:
    node.set("pads", list(node.get("paddings")))
    node.drop("paddings")


def _pads_to_paddings(node: EditedNode) -> None:
    node.set("paddings", list(node.get("pads")))
    node.drop("pads")


def _pads_to_inputs(node: EditedNode) -> None:
    pads, value = node.get("pads"), node.get("value")
    node.drop("pads", "value")
    node.add_input(1, "pads", list(pads))
    if value is not None:
        node.add_input(2, "value", value, node.dtype())


def _pads_to_attributes(node: EditedNode) -> None:
    pads = node.integers_of(1)
    if node.has_input(2):
        value = float(node.array_of(2).reshape(-1)[0])
        if not np.isnan(value) and float(np.float32(value)) != value:
            raise Inexpressible("its value %r is no float32" % value)
        node.set("value", value)
    node.drop_input(2)
    node.drop_input(1)
    node.set("pads", pads)


def _pad_every_axis(node: EditedNode) -> None:
    """Write pads for every axis: from opset 18 on, `axes` tells which axes have pads."""
    if node.has_input(3):
        axes, pads = node.integers_of(3), node.integers_of(1)
        rank = node.rank()
        all_pads = [0] * (2 * rank)
        for position, axis in enumerate(axes):
            all_pads[axis % rank] = pads[position]
            all_pads[axis % rank + rank] = pads[position + len(axes)]
        node.drop_input(3)
        node.add_input(1, "pads", all_pads)


def _require_no_wrap(node: EditedNode) -> None:
    if node.get("mode", "constant") == "wrap":
        raise Inexpressible("the other version has no mode 'wrap'")


def _shape_to_input(node: EditedNode) -> None:
    shape = node.get("shape")
    node.drop("shape", "consumed_inputs")
    node.add_input(1, "shape", list(shape or ()))


def _shape_to_attribute(node: EditedNode) -> None:
    shape = node.integers_of(1)
    node.drop_input(1)
    node.set("shape", shape)


def _drop_allowzero(node: EditedNode) -> None:
    """Drop `allowzero`, which has an effect only if a size is 0. Exporters set it for shapes of nonempty tensors too.

    Raises Inexpressible if a known shape has a size 0. `node` gets a caveat if the shape is not known.
    """
    if node.get("allowzero", 0):
        if node.fact(1).value is None:
            node.caveats.append("if a size of the shape is 0 at run time, it is copied from the data")
        elif 0 in node.integers_of(1):
            raise Inexpressible("the other version copies a size where the shape is 0")
    node.drop("allowzero")


def _drop_range(node: EditedNode) -> None:
    rank = node.fact(0).rank
    start, end = node.get("start", 0), node.get("end")
    starts_first = start == 0 or (rank is not None and start <= -rank)
    if not starts_first or not (end is None or (rank is not None and end >= rank)):
        raise Inexpressible("the other version gives the whole shape")
    node.drop("start", "end")


def _slice_to_inputs(node: EditedNode) -> None:
    values = [(label, node.get(label)) for label in ("starts", "ends", "axes")]
    node.drop("starts", "ends", "axes")
    for index, (label, value) in enumerate(values, 1):
        if value is not None:
            node.add_input(index, label, list(value))


def _slice_to_attributes(node: EditedNode) -> None:
    if node.has_input(4) and any(step != 1 for step in node.integers_of(4)):
        raise Inexpressible("the other version has no steps")
    values = {label: node.integers_of(k) for k, label in ((1, "starts"), (2, "ends"), (3, "axes")) if node.has_input(k)}
    for index in (4, 3, 2, 1):
        node.drop_input(index)
    for label, value in values.items():
        node.set(label, value)


def _slice_from_the_front(node: EditedNode) -> None:
    if node.has_input(3) and node.fact(3).value is not None:
        axes = node.integers_of(3)
        if any(axis < 0 for axis in axes):
            rank = node.rank()
            node.add_input(3, "axes", [axis % rank for axis in axes], node.dtype(3))


def _split_to_input(node: EditedNode) -> None:
    sizes = node.get("split")
    if sizes is not None:
        node.drop("split")
        node.add_input(1, "split", list(sizes))


def _split_to_attribute(node: EditedNode) -> None:
    if node.has_input(1):
        sizes = node.integers_of(1)
        node.drop_input(1)
        node.set("split", sizes)


def _split_old_input(node: EditedNode) -> None:
    """Up to opset 1, the sizes are an input or an attribute."""
    _split_to_attribute(node)


def _count_parts(node: EditedNode) -> None:
    if not node.has_input(1):
        node.set("num_outputs", len(node.proto.output))


def _drop_count(node: EditedNode) -> None:
    """Without a number of parts, the parts are equal: write out their sizes if the last part is smaller.

    Raises Inexpressible if the size of the axis is not known.
    """
    count = node.get("num_outputs")
    node.drop("num_outputs")
    if count is None or node.has_input(1):
        return
    size = node.size(0, node.get("axis", 0))
    if size is None:
        raise Inexpressible("the size that it splits is not known: the last part may be smaller")
    if size % count:
        node.add_input(1, "split", part_sizes(size, count))


def part_sizes(size: int, count: int) -> List[int]:
    """Return the sizes of `count` parts of an axis, of which the last may be smaller."""
    part = -(-size // count)
    return [max(0, min(part, size - part * index)) for index in range(count)]


def _k_to_input(node: EditedNode) -> None:
    count = node.get("k")
    node.drop("k")
    node.add_input(1, "k", [count])


def _k_to_attribute(node: EditedNode) -> None:
    count = node.integers_of(1)[0]
    node.drop_input(1)
    node.set("k", count)


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

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
    """Move the attributes `pads` and `value` of a Pad to inputs.

    Raises Inexpressible if `value` is present and the dtype of the data is not known.
    """
    pads, value = node.get("pads"), node.get("value")
    node.drop("pads", "value")
    node.add_input(1, "pads", list(pads))
    if value is not None:
        node.add_input(2, "value", value, node.dtype())


def _pads_to_attributes(node: EditedNode) -> None:
    """Move the second and third input of a Pad to the attributes `pads` and `value`.

    Raises Inexpressible if one of them is not known, or if the value is no float32.
    """
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
    """Write the pads of a Pad with `axes`, the fourth input, for every axis, and drop this input.

    It tells from opset 18 on which axes have pads. Raises Inexpressible if the axes, the pads or the rank are not
    known.
    """
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
    """Raise Inexpressible for a Pad in mode "wrap"."""
    if node.get("mode", "constant") == "wrap":
        raise Inexpressible("the other version has no mode 'wrap'")


def _shape_to_input(node: EditedNode) -> None:
    """Move the attribute `shape` of a Reshape to the second input, and drop `consumed_inputs`."""
    shape = node.get("shape")
    node.drop("shape", "consumed_inputs")
    node.add_input(1, "shape", list(shape or ()))


def _shape_to_attribute(node: EditedNode) -> None:
    """Move the second input of a Reshape to the attribute `shape`. Raises Inexpressible if it is not known."""
    shape = node.integers_of(1)
    node.drop_input(1)
    node.set("shape", shape)


def _drop_allowzero(node: EditedNode) -> None:
    """Drop `allowzero`, which has an effect only if a size is 0. Exporters set it for shapes of nonempty tensors too.

    Raises Inexpressible if a known shape has a size 0, or if the shape is not known and the data has no elements.
    `node` gets a caveat if the shape is not known otherwise.
    """
    if node.get("allowzero", 0):
        if node.fact(1).value is None:
            if 0 in (node.fact(0).shape or ()):
                raise Inexpressible(
                    "the other version copies a size where the shape is 0, and the data has no elements"
                )
            node.caveats.append("if a size of the shape is 0 at run time, it is copied from the data")
        elif 0 in node.integers_of(1):
            raise Inexpressible("the other version copies a size where the shape is 0")
    node.drop("allowzero")


def _drop_range(node: EditedNode) -> None:
    """Drop `start` and `end` of a Shape. Raises Inexpressible unless they provably select all sizes."""
    rank = node.fact(0).rank
    start, end = node.get("start", 0), node.get("end")
    starts_first = start == 0 or (rank is not None and start <= -rank)
    if not starts_first or not (end is None or (rank is not None and end >= rank)):
        raise Inexpressible("the other version gives the whole shape")
    node.drop("start", "end")


def _slice_to_inputs(node: EditedNode) -> None:
    """Move the attributes `starts`, `ends` and `axes` of a Slice to inputs."""
    values = [(label, node.get(label)) for label in ("starts", "ends", "axes")]
    node.drop("starts", "ends", "axes")
    for index, (label, value) in enumerate(values, 1):
        if value is not None:
            node.add_input(index, label, list(value))


def _slice_to_attributes(node: EditedNode) -> None:
    """Move the inputs `starts`, `ends` and `axes` of a Slice to attributes, and drop the input `steps`.

    Raises Inexpressible if one of these inputs is not known, or if a step is not 1.
    """
    if node.has_input(4) and any(step != 1 for step in node.integers_of(4)):
        raise Inexpressible("the other version has no steps")
    values = {label: node.integers_of(k) for k, label in ((1, "starts"), (2, "ends"), (3, "axes")) if node.has_input(k)}
    for index in (4, 3, 2, 1):
        node.drop_input(index)
    for label, value in values.items():
        node.set(label, value)


def _slice_from_the_front(node: EditedNode) -> None:
    """Make known negative axes of a Slice count from the front. Axes that are not known stay.

    Raises Inexpressible for a negative axis if the rank is not known.
    """
    if node.has_input(3) and node.fact(3).value is not None:
        axes = node.integers_of(3)
        if any(axis < 0 for axis in axes):
            rank = node.rank()
            node.add_input(3, "axes", [axis % rank for axis in axes], node.dtype(3))


def _split_to_input(node: EditedNode) -> None:
    """Move the attribute `split` of a Split, if any, to the second input."""
    sizes = node.get("split")
    if sizes is not None:
        node.drop("split")
        node.add_input(1, "split", list(sizes))


def _split_to_attribute(node: EditedNode) -> None:
    """Move the second input of a Split, if any, to the attribute `split`. Raises Inexpressible if it is not known."""
    if node.has_input(1):
        sizes = node.integers_of(1)
        node.drop_input(1)
        node.set("split", sizes)


def _split_old_input(node: EditedNode) -> None:
    """Move the second input of a Split of opset 1, if any, to the attribute `split`. Opset 1 has both forms.

    Raises Inexpressible if the input is not known.
    """
    _split_to_attribute(node)


def _count_parts(node: EditedNode) -> None:
    """Set `num_outputs` of a Split without sizes to its number of outputs."""
    if not node.has_input(1):
        node.set("num_outputs", len(node.proto.output))


def _drop_count(node: EditedNode) -> None:
    """Drop `num_outputs` of a Split, and add the sizes of the parts if they are not equal.

    Before opset 18, a Split without sizes has equal parts. Raises Inexpressible if a Split by `num_outputs` splits an
    axis of unknown size.
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
    """Return the sizes of `count` parts of an axis of `size` elements. The last parts may be smaller, down to 0."""
    part = -(-size // count)
    return [max(0, min(part, size - part * index)) for index in range(count)]


def _k_to_input(node: EditedNode) -> None:
    """Move the attribute `k` of a TopK to the second input."""
    count = node.get("k")
    node.drop("k")
    node.add_input(1, "k", [count])


def _k_to_attribute(node: EditedNode) -> None:
    """Move the second input of a TopK to the attribute `k`. Raises Inexpressible if it is not known."""
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

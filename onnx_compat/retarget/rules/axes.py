"""Rules for axes: an attribute that became an input, another default, and negative axes, which opset 11 introduced."""

from typing import List, Optional, Tuple

import numpy as np

from onnx_compat.retarget.edited_node import EditedNode, Inexpressible
from onnx_compat.retarget.steps import keep, register, register_added

_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare".split()
)
_SOFTMAX = ("Softmax", "LogSoftmax", "Hardmax")


def _axes_to_input(node: EditedNode) -> None:
    """Move the attribute `axes` to the second input."""
    axes = node.get("axes")
    if axes is not None:
        node.drop("axes")
        node.add_input(1, "axes", list(axes))


def _axes_to_attribute(node: EditedNode) -> None:
    """Move the second input of a reduction, its axes, to the attribute `axes`, and drop `noop_with_empty_axes`.

    An empty list of axes means all axes, so the attribute is left out. Raises Inexpressible if the axes are not known,
    or if there are no axes and `noop_with_empty_axes` is set.
    """
    noop = node.get("noop_with_empty_axes", 0)
    axes: Optional[List[int]] = node.integers_of(1) if node.has_input(1) else None
    if not axes and noop:
        raise Inexpressible("the other version cannot reduce no axes")
    node.drop_input(1)
    node.drop("noop_with_empty_axes")
    if axes:
        node.set("axes", axes)


def _squeeze_to_attribute(node: EditedNode) -> None:
    """Move the second input of a Squeeze, if any, to `axes`. Raises Inexpressible if it is not known or empty."""
    if node.has_input(1):
        axes = node.integers_of(1)
        node.drop_input(1)
        if not axes:
            raise Inexpressible("the other version cannot squeeze no axes")
        node.set("axes", axes)


def _unsqueeze_to_attribute(node: EditedNode) -> None:
    """Move the second input of an Unsqueeze to the attribute `axes`. Raises Inexpressible if it is not known."""
    axes = node.integers_of(1)
    node.drop_input(1)
    node.set("axes", axes)


def _count_from_the_front(node: EditedNode) -> None:
    """Make negative axes in the attributes `axis` and `axes` count from the front.

    Raises Inexpressible for a negative axis if the rank of the first input is not known. For an Unsqueeze, the axes
    count in its result.
    """
    for name in ("axis", "axes"):
        value = node.get(name)
        axes = [value] if name == "axis" else list(value or ())
        if value is None or all(axis >= 0 for axis in axes):
            continue
        rank = node.rank() + (len(axes) if node.proto.op_type == "Unsqueeze" else 0)
        axes = [axis + rank if axis < 0 else axis for axis in axes]
        node.set(name, axes[0] if name == "axis" else axes)


def _indices_from_the_front(node: EditedNode) -> None:
    """Make known negative indices, the second input, count from the front.

    `node` gets a caveat instead if the size of the axis is not known. Indices that are not known stay.
    """
    value = node.fact(1).value
    if value is not None and (value < 0).any():
        size = node.size(0, node.get("axis", 0))
        if size is None:
            node.caveats.append("indices below 0 are defined from version 11 on; runtimes accept them before")
        else:
            node.add_input(1, "indices", np.where(value < 0, value + size, value), node.dtype(1))


def _classes_from_the_front(node: EditedNode) -> None:
    """Make known negative indices of a OneHot count from the front.

    Up to version 10, the specification gives them no class. onnxruntime 1.31.1 counts from the end in all versions.
    `node` gets a caveat instead if signed indices are not known, or if some are negative and the depth is not known.
    """
    dtype, value, depth = node.fact(0).dtype, node.fact(0).value, node.fact(1).value
    if dtype is not None and dtype.kind == "u":
        return
    if value is None or (depth is None and (value < 0).any()):
        node.caveats.append("the specification gives indices below 0 no class before version 11; runtimes do")
    elif depth is not None and (value < 0).any():
        count = int(depth.reshape(-1)[0])
        node.add_input(0, "indices", np.where((value < 0) & (value >= -count), value + count, value), node.dtype(0))


def _scan_axes_from_the_front(node: EditedNode) -> None:
    """Make negative scan axes count from the front. Raises Inexpressible if the rank of a value with one is unknown."""
    count = node.get("num_scan_inputs")
    states = len(node.proto.input) - count
    ranks: List[Tuple[str, List[Optional[int]]]] = [
        ("scan_input_axes", [node.fact(states + k).rank for k in range(count)]),
        ("scan_output_axes", [node.output_rank(k) for k in range(states, len(node.proto.output))]),
    ]
    for name, known in ranks:
        axes = list(node.get(name, ()))
        if any(axis < 0 and rank is None for axis, rank in zip(axes, known)):
            raise Inexpressible("the rank of a value that it scans is not known")
        if any(axis < 0 for axis in axes):
            node.set(name, [axis + (rank or 0) if axis < 0 else axis for axis, rank in zip(axes, known)])


def _to_single_axis(node: EditedNode) -> None:
    """Set `axis` to the only axis from `axis` on whose size is not 1; without such an axis, `axis` itself stays.

    Softmax up to opset 11 flattens the axes from `axis` on; from 13 on it takes one axis, by default the last. Raises
    Inexpressible if several of the axes have a size that is not known to be 1, or if the rank is not known.
    """
    rank = node.rank()
    axis = node.get("axis", 1)
    sizes = [node.size(0, position) for position in range(rank)]
    first = axis + rank if axis < 0 else axis
    long_axes = [position for position in range(first, rank) if sizes[position] != 1]
    if len(long_axes) > 1 or first >= rank:
        raise Inexpressible("it normalises several axes at once, from axis %d on" % axis)
    node.set("axis", long_axes[0] if long_axes else first)


def _to_flattened_axes(node: EditedNode) -> None:
    """Set `axis` explicitly, counted from the front, where every later axis has size 1.

    Softmax up to opset 11 flattens the axes from `axis` on. Raises Inexpressible if a later axis has another or unknown
    size, or if the rank is not known.
    """
    rank = node.rank()
    axis = node.get("axis", -1) % max(rank, 1)
    if any(node.size(0, position) != 1 for position in range(axis + 1, rank)):
        raise Inexpressible("the other version would normalise the axes after axis %d too" % axis)
    node.set("axis", axis)


def _set_first_default(node: EditedNode) -> None:
    """Set `axis` to 1, its default up to version 3, if it is absent."""
    if not node.has("axis"):
        node.set("axis", 1)


def _dft_axis_to_input(node: EditedNode) -> None:
    """Move the attribute `axis`, by default 1, to the third input."""
    axis = node.get("axis", 1)
    node.drop("axis")
    node.add_input(2, "axis", axis)


def _dft_axis_to_attribute(node: EditedNode) -> None:
    """Move the third input, by default -2, to the attribute `axis`, counted from the front.

    Raises Inexpressible if the rank or the axis is not known.
    """
    rank = node.rank()
    axis = node.integers_of(2)[0] if node.has_input(2) else -2
    node.drop_input(2)
    node.set("axis", axis % rank)


register("Squeeze", 13, _axes_to_input, _squeeze_to_attribute)
register("Unsqueeze", 13, _axes_to_input, _unsqueeze_to_attribute)
register("ReduceSum", 13, _axes_to_input, _axes_to_attribute)
register(_REDUCTIONS, 18, _axes_to_input, _axes_to_attribute)
register(
    [*_SOFTMAX, *_REDUCTIONS, "ReduceSum", "Squeeze", "Unsqueeze", "ArgMax", "ArgMin"]
    + ["Concat", "Flatten", "Gather", "Split", "Compress"],
    11,
    keep,
    _count_from_the_front,
)
register(("Gather", "ScatterElements"), 11, keep, _indices_from_the_front)
register("OneHot", 11, keep, _classes_from_the_front)
register("Scan", 11, keep, _scan_axes_from_the_front)
register_added(("ArgMax", "ArgMin"), 12, {"select_last_index": 0})
register(_SOFTMAX, 13, _to_single_axis, _to_flattened_axes)
register("Concat", 4, _set_first_default, keep)
register("DFT", 20, _dft_axis_to_input, _dft_axis_to_attribute)

"""Templates of shape arithmetic: the idioms with which exporters write open sizes."""

from __future__ import annotations

from typing import List

from matrix.fuzz.draft import GRID, MOVE, SMOOTH
from matrix.fuzz.draw import FLOATS, Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Rejected, Value


def size_of(draw: Draw, x: Value, axis: int, rank: int = 1) -> Value:
    """Add nodes that compute the size of an axis at run time, and return the size.

    `rank` 1: the size is a vector of one element; 0: a scalar.
    """
    shape = draw.node("Shape", [x])
    if rank and draw.chance(0.4):
        return draw.node("Slice", [shape, *(draw.constant([k]) for k in (axis, axis + 1, 0))])
    return draw.node("Gather", [shape, draw.constant([axis] if rank else axis)], axis=0)


@template("Shape-Concat-Reshape", 2)
def reshape_by_parts(draw: Draw) -> None:
    """Add a Reshape that joins two adjacent axes, with a target shape that is computed at run time.

    The size of the joined axis is a product of two sizes, or -1.
    """
    x = draw.any(range(2, 6))
    start = draw.integer(0, x.rank - 2)
    parts: List[Value] = []
    for axis in range(x.rank):
        if axis == start + 1:
            continue
        if axis == start:
            joined = [size_of(draw, x, axis), size_of(draw, x, axis + 1)]
            parts.append(draw.node("Mul", joined, GRID) if draw.chance(0.5) else draw.constant([-1]))
        else:
            parts.append(size_of(draw, x, axis))
    target = draw.node("Concat", parts, axis=0) if len(parts) > 1 else parts[0]
    draw.node("Reshape", [x, target])


@template("Shape-Expand", 1.5)
def expand_like(draw: Draw) -> None:
    """Add an Expand of an operand to the shape of another value, which a Shape computes."""
    x = draw.any(range(1, 6))
    operand = draw.broadcastable(x)
    draw.node("Expand", [operand, draw.node("Shape", [x])])


@template("ConstantOfShape", 1.5)
def constant_of_shape(draw: Draw) -> None:
    """Add a ConstantOfShape with the shape of a value; if both have the same dtype, often also their sum."""
    x = draw.any(range(1, 5))
    import numpy as np

    dtype = draw.choice(["float32", "int64"])
    value = np.array([draw.choice([0, 1, -2])], dtype)
    shape = draw.node("Shape", [x])
    filled = draw.node("ConstantOfShape", [shape], value=value)
    if x.dtype == dtype and draw.chance(0.7):
        draw.node("Add", [x, filled], GRID)


@template("Range", 1.5)
def range_(draw: Draw) -> None:
    """Add a Range up to the size of an axis at run time; sometimes also a Gather along the axis with these indices."""
    x = draw.any(range(1, 5))
    axis = draw.integer(0, x.rank - 1)
    size = size_of(draw, x, axis, rank=0)
    positions = draw.node("Range", [draw.constant(0), size, draw.constant(draw.choice([1, 1, 2]))])
    if draw.chance(0.5):
        draw.node("Gather", [x, positions], axis=axis)


@template("Shape-Slice", 1.5)
def slice_by_size(draw: Draw) -> None:
    """Add a Slice along an axis with a bound that is computed at run time: half of the size, or the size minus 1.

    The Slice ends at this bound, or begins there and goes to the end.
    """
    x = draw.any(range(1, 6))
    axis = draw.integer(0, x.rank - 1)
    size = size_of(draw, x, axis)
    operator = draw.choice(["Div", "Sub"])
    end = draw.node(
        operator, [size, draw.constant([1 if operator == "Sub" else 2])], GRID if operator == "Sub" else MOVE
    )
    bounds = [draw.constant([0]), end] if draw.chance(0.6) else [end, size]
    draw.node("Slice", [x, *bounds, draw.constant([axis])])


@template("Shape-Tile", 0.7)
def tile_by_size(draw: Draw) -> None:
    """Add a Tile that repeats the last axis; the number of repeats is the size of axis 0 at run time."""
    x = draw.pick((*FLOATS, "int64"), [1, 2])
    size = size_of(draw, x, 0)
    repeats = size if x.rank == 1 else draw.node("Concat", [draw.constant([1]), size], axis=0)
    draw.node("Tile", [x, repeats])


@template("Shape-Resize", 1)
def resize_by_size(draw: Draw) -> None:
    """Add a Resize of the last two axes, nearest or linear, to sizes that are computed at run time.

    The height is doubled, the width sometimes.
    """
    x = draw.pick(("float32",), [4])
    shape = draw.node("Shape", [x])
    spatial = draw.node("Slice", [shape, draw.constant([2]), draw.constant([4])])
    doubled = draw.node("Mul", [spatial, draw.constant([2, draw.choice([1, 2])])], GRID)
    lead = draw.node("Slice", [shape, draw.constant([0]), draw.constant([2])])
    sizes = draw.node("Concat", [lead, doubled], axis=0)
    if draw.chance(0.5):
        modes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        draw.node("Resize", [x, None, None, sizes], MOVE, **modes)
    else:
        draw.node("Resize", [x, None, None, sizes], SMOOTH, mode="linear")


@template("Heads", 1.5)
def split_heads(draw: Draw) -> None:
    """Add the split of features into 2 heads, and the inverse: Reshape to [N, L, 2, size], then Transpose.

    Between them, there are sometimes the products and the Softmax of self-attention.
    """
    x = draw.pick(("float32",), [3], where=lambda value: bool(value.dims[2]) and value.shape[2] % 2 == 0)
    features = x.dims[2] or 0
    split = draw.node("Reshape", [x, draw.constant([0, -1, 2, features // 2])])
    heads = draw.node("Transpose", [split], perm=[0, 2, 1, 3])
    if draw.chance(0.6):
        keys = draw.node("Transpose", [heads], perm=[0, 1, 3, 2])
        scores = draw.node("MatMul", [heads, keys], GRID)
        weights = draw.node("Softmax", [scores], SMOOTH, axis=-1)
        heads = draw.node("MatMul", [weights, heads], SMOOTH)
    joined = draw.node("Transpose", [heads], perm=[0, 2, 1, 3])
    draw.node("Reshape", [joined, draw.constant([0, -1, features])])


@template("Broadcast-Mask", 1)
def mask(draw: Draw) -> None:
    """Add a mask of the last position of the last axis: Range, Less than the size minus 1, Where.

    Raises Rejected for a scalar.
    """
    x = draw.pick(("float32",), range(1, 5))
    size = size_of(draw, x, x.rank - 1, rank=0)
    positions = draw.node("Range", [draw.constant(0), size, draw.constant(1)])
    limit = draw.node("Sub", [size, draw.constant(1)], GRID)
    condition = draw.node("Less", [positions, limit])
    if x.rank == 0:
        raise Rejected("scalar")
    draw.node("Where", [condition, x, draw.constant(draw.choice([0, -8]), "float32")])

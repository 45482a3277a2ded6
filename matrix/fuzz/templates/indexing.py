"""Templates of operators that select elements by index, and of operators whose result is an index."""

from __future__ import annotations

from typing import List

import numpy as np

from matrix.fuzz.draft import GRID, MOVE, STEP
from matrix.fuzz.draw import FLOATS, INTEGERS, Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Rejected, Value


def indices(draw: Draw, shape: List[int], size: int, negative: bool = True) -> np.ndarray:
    """Return an array of this shape with random indices into an axis of `size` elements.

    With `negative`, some indices sometimes count from the end. Raises Rejected if `size` is 0.
    """
    if not size:
        raise Rejected("empty axis")
    low = -size if negative and draw.chance(0.3) else 0
    return draw.data(tuple(shape), "int64", low, size - 1)


@template("Gather", 3)
def gather(draw: Draw) -> None:
    """Add a Gather by a scalar, a vector or a matrix of indices, which are a constant or sometimes an input."""
    x = draw.any(range(1, 5))
    axis = draw.integer(0, x.rank - 1)
    smallest = min(shape[axis] for shape in x.shapes)
    shape = draw.choice([[], [1], [2], [3], [2, 2]])
    array = indices(draw, shape, smallest)
    chosen = draw.constant(array, draw.choice(["int64", "int32"]))
    if draw.chance(0.2):
        chosen = draw.add_input([array] * draw.shared.worlds)
    draw.node("Gather", [x, chosen], axis=axis - draw.choice([0, 0, x.rank]))


@template("GatherElements")
def gather_elements(draw: Draw) -> None:
    """Add a GatherElements with constant indices. No axis of the indices is longer than the axis of the operand."""
    x = draw.pick((*FLOATS, *INTEGERS), range(1, 5))
    axis = draw.integer(0, x.rank - 1)
    smallest = [min(sizes) for sizes in zip(*x.shapes)]
    shape = [draw.integer(1, size) if size else 0 for size in smallest]
    draw.node("GatherElements", [x, draw.constant(indices(draw, shape, smallest[axis]))], axis=axis)


@template("GatherND")
def gather_nd(draw: Draw) -> None:
    """Add a GatherND with three constant, non-negative index tuples."""
    x = draw.pick((*FLOATS, *INTEGERS), range(2, 5))
    depth = draw.integer(1, x.rank)
    smallest = [min(sizes) for sizes in zip(*x.shapes)][:depth]
    rows = np.stack([indices(draw, [3], size, negative=False) for size in smallest], axis=-1)
    draw.node("GatherND", [x, draw.constant(rows)])


@template("ScatterElements")
def scatter_elements(draw: Draw) -> None:
    """Add a ScatterElements, from opset 16 on sometimes with a reduction.

    Without a reduction, an index occurs once along the axis; with a reduction, it may be repeated.
    """
    x = draw.pick(("float32", "int64"), range(1, 4))
    axis = draw.integer(0, x.rank - 1)
    smallest = [min(sizes) for sizes in zip(*x.shapes)]
    shape = [draw.integer(1, size) for size in smallest]
    reduction = (
        draw.choice(["add", "max", "min"][: 1 if draw.opset < 18 else 3])
        if draw.opset >= 16 and draw.chance(0.4)
        else None
    )
    if reduction:
        chosen = indices(draw, shape, smallest[axis], negative=False)
    else:
        order = np.array(draw.rng.sample(range(smallest[axis]), shape[axis]), np.int64)
        chosen = np.broadcast_to(order.reshape([-1 if k == axis else 1 for k in range(x.rank)]), shape)
    updates = draw.fresh([tuple(shape)] * draw.shared.worlds, x.dtype)
    inputs = [x, draw.constant(chosen), updates]
    draw.node(
        "ScatterElements", inputs, GRID if reduction == "add" and x.is_float else MOVE, axis=axis, reduction=reduction
    )


@template("ScatterND")
def scatter_nd(draw: Draw) -> None:
    """Add a ScatterND of one or two whole slices along axis 0, from opset 16 on sometimes with the reduction `add`.

    The indices differ.
    """
    x = draw.pick(("float32", "int64"), range(1, 4), where=lambda value: None not in value.dims)
    count = draw.integer(1, min(2, x.shape[0]))
    rows = np.array(draw.rng.sample(range(x.shape[0]), count), np.int64).reshape(-1, 1)
    reduction = "add" if draw.opset >= 16 and draw.chance(0.4) else None
    updates = draw.fresh([(count, *x.shape[1:])] * draw.shared.worlds, x.dtype)
    rule = GRID if reduction and x.is_float else MOVE
    draw.node("ScatterND", [x, draw.constant(rows), updates], rule, reduction=reduction)


@template("OneHot", 0.7)
def one_hot(draw: Draw) -> None:
    """Add a OneHot of non-negative indices, which sometimes exceed the depth."""
    x = draw.pick(("int64",), range(1, 4), where=lambda v: all((a >= 0).all() for a in v.arrays))
    dtype = draw.choice(["float32", "int64"])
    inputs = [x, draw.constant(draw.integer(1, 4)), draw.constant([0, draw.choice([1, 2])], dtype)]
    draw.node("OneHot", inputs, axis=draw.choice([None, 0, -1]))


@template("NonZero", 0.5)
def non_zero(draw: Draw) -> None:
    """Add a NonZero of an exact value."""
    draw.node("NonZero", [draw.pick(("float32", "int64", "bool"), range(1, 4), exact=True)], STEP)


@template("Compress", 0.5)
def compress(draw: Draw) -> None:
    """Add a Compress along an axis by a constant condition, which keeps at least one element."""
    x = draw.pick(("float32", "int64"), range(1, 4))
    axis = draw.integer(0, x.rank - 1)
    smallest = min(shape[axis] for shape in x.shapes)
    flags = draw.data((smallest,), "bool")
    flags[draw.integer(0, smallest - 1)] = True
    draw.node("Compress", [x, draw.constant(flags, "bool")], axis=axis)


@template("TopK")
def top_k(draw: Draw) -> None:
    """Add a TopK of an exact value, sorted; equal elements follow their index."""
    x = draw.pick(("float32", "int64"), range(1, 4), exact=True)
    axis = draw.integer(0, x.rank - 1)
    count = draw.integer(1, min(shape[axis] for shape in x.shapes))
    draw.nodes("TopK", [x, draw.constant([count])], 2, STEP, axis=axis, largest=draw.choice([None, 0, 1]))


@template("ArgMax", 1.5)
def arg_max(draw: Draw) -> None:
    """Add an ArgMax or an ArgMin of an exact value; sometimes it selects the last of equal elements."""
    x = draw.pick(("float32", "int32"), range(1, 5), exact=True)
    attributes = {"keepdims": draw.choice([None, 0, 1]), "select_last_index": draw.choice([None, None, 1])}
    draw.node(draw.choice(["ArgMax", "ArgMin"]), [x], STEP, axis=draw.axis(x.rank), **attributes)


@template("Hardmax", 0.4)
def hardmax(draw: Draw) -> None:
    """Add a Hardmax of an exact value."""
    x = draw.pick(("float32",), range(1, 4), exact=True)
    draw.node("Hardmax", [x], STEP, axis=draw.axis(x.rank))


@template("Unique", 0.5)
def unique(draw: Draw) -> None:
    """Add a Unique of an exact value, sorted, with one to four outputs. Raises Rejected for an empty value."""
    x: Value = draw.pick(("float32", "int64"), range(1, 3), exact=True)
    if not x.array.size:
        raise Rejected("empty")
    draw.nodes("Unique", [x], draw.integer(1, 4), STEP, axis=draw.choice([None, 0]), sorted=1)

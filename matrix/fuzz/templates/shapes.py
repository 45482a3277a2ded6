"""Templates of operators that move or repeat elements."""

from __future__ import annotations

from typing import List, Tuple

from matrix.fuzz.draft import GRID, MOVE, SMOOTH, Rule
from matrix.fuzz.draw import FLOATS, INTEGERS, Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Rejected, Value


@template("Transpose", 7)
def transpose(draw: Draw) -> None:
    """Add a Transpose with a random order of the axes, or sometimes with the default order."""
    x = draw.any(range(2, 7))
    draw.node("Transpose", [x], MOVE, perm=None if draw.chance(0.1) else draw.permutation(x.rank))


@template("Reshape", 4)
def reshape(draw: Draw) -> None:
    """Add a Reshape to a constant target shape, which sometimes joins or splits axes (see `_target`)."""
    x = draw.any(range(1, 7))
    target = _target(draw, list(x.dims))
    draw.node("Reshape", [x, draw.constant(target)], MOVE)


def _target(draw: Draw, dims: List[object]) -> List[int]:
    """Return a target shape for a Reshape of a value with the sizes `dims`; None: an open size.

    Sometimes adjacent sizes are joined, a size is split in two, or a size of 1 is inserted. 0 copies an open size in
    its position. One -1 stands for a size that is inferred. Raises Rejected if a second size must be inferred.
    """
    sizes: List[int] = [int(size) if isinstance(size, int) else -2 for size in dims]
    if len(sizes) >= 2 and draw.chance(0.6):
        start = draw.integer(0, len(sizes) - 2)
        end = draw.integer(start + 2, len(sizes))
        joined, product = sizes[start:end], 1
        for size in joined:
            product *= size
        sizes[start:end] = [-1 if -2 in joined else product]
    if draw.chance(0.5):
        axes = [k for k, size in enumerate(sizes) if size > 0 and size % 2 == 0]
        if axes:
            k = draw.choice(axes)
            sizes[k : k + 1] = draw.rng.sample([2, sizes[k] // 2], 2)
    if draw.chance(0.3):
        sizes.insert(draw.integer(0, len(sizes)), 1)
    target = []
    for k, size in enumerate(sizes):
        copied = size == -2 and k < len(dims) and dims[k] is None
        target.append(0 if copied else -1 if size < 0 else size)
    if target.count(-1) > 1:
        raise Rejected("two unknown sizes")
    if -1 not in target and target and draw.chance(0.3):
        target[draw.integer(0, len(target) - 1)] = -1
    return target


@template("Flatten")
def flatten(draw: Draw) -> None:
    """Add a Flatten with a random axis, or with the default axis."""
    x = draw.any(range(1, 7))
    draw.node("Flatten", [x], MOVE, axis=draw.choice([None, draw.integer(-x.rank, x.rank)]))


@template("Squeeze", 1.5)
def squeeze(draw: Draw) -> None:
    """Add a Squeeze of some or all axes of size 1."""
    x = draw.any(range(1, 7), where=lambda value: 1 in value.dims)
    axes = [axis for axis, size in enumerate(x.dims) if size == 1]
    chosen = draw.rng.sample(axes, draw.integer(1, len(axes)))
    if draw.chance(0.3):
        chosen = [axis - x.rank for axis in chosen]
    draw.node("Squeeze", [x, draw.constant(chosen)], MOVE)


@template("Unsqueeze", 1.5)
def unsqueeze(draw: Draw) -> None:
    """Add an Unsqueeze by one or two axes."""
    x = draw.any(range(5))
    count = draw.integer(1, 2)
    axes = draw.rng.sample(range(x.rank + count), count)
    if draw.chance(0.3):
        axes = [axis - x.rank - count for axis in axes]
    draw.node("Unsqueeze", [x, draw.constant(axes)], MOVE)


@template("Expand", 1.5)
def expand(draw: Draw) -> None:
    """Add an Expand to a constant shape, which sometimes has a further first axis."""
    x = draw.any(range(5))
    sizes = [draw.choice([1, 2, 3]) if size == 1 else 1 if size is None else draw.choice([1, size]) for size in x.dims]
    lead = [draw.choice([1, 2]) for _ in range(draw.integer(0, 1))]
    draw.node("Expand", [x, draw.constant([*lead, *sizes])], MOVE)


@template("Concat", 3)
def concat(draw: Draw) -> None:
    """Add a Concat of two or three values, sometimes of a value with itself."""
    x = draw.any(range(1, 6))
    axis = draw.axis(x.rank)

    def fits(value: Value) -> bool:
        """Whether a value has the dtype of x, and the sizes of x except along `axis`.

        The check is needed because onnxruntime also joins empty tensors of other sizes.
        """
        pairs = zip(value.shapes, x.shapes)
        return value.dtype == x.dtype and all(_without(ours, axis) == _without(theirs, axis) for ours, theirs in pairs)

    operands = [x]
    for _ in range(draw.integer(1, 2)):
        operands.append(draw.any([x.rank], where=fits) if draw.chance(0.7) else x)
    draw.node("Concat", draw.rng.sample(operands, len(operands)), MOVE, axis=axis)


def _without(shape: Tuple[int, ...], axis: int) -> Tuple[int, ...]:
    """Return the shape without the size of an axis."""
    sizes = list(shape)
    del sizes[axis]
    return tuple(sizes)


@template("Split", 2)
def split(draw: Draw) -> None:
    """Add a Split into two parts: equal halves, or two constant sizes."""
    x = draw.any(range(1, 6), where=lambda value: any(size and size >= 2 for size in value.dims))
    axis = draw.choice([axis for axis, size in enumerate(x.dims) if size and size >= 2])
    size = x.dims[axis] or 0
    if draw.chance(0.5) and size % 2 == 0:
        count = 2 if draw.opset >= 18 else None
        draw.nodes("Split", [x], 2, MOVE, axis=axis, num_outputs=count)
    else:
        first = draw.integer(1, size - 1)
        draw.nodes("Split", [x, draw.constant([first, size - first])], 2, MOVE, axis=axis - draw.choice([0, x.rank]))


@template("Slice", 3)
def slice_(draw: Draw) -> None:
    """Add a Slice of one or two axes, sometimes with steps, from the end, beyond the end or backwards."""
    x = draw.any(range(1, 6))
    axes = draw.rng.sample(range(x.rank), draw.integer(1, min(2, x.rank)))
    starts, ends, steps = [], [], []
    for _ in axes:
        start, end, step = draw.choice(
            [(0, 2, 1), (1, 100, 1), (0, -1, 1), (-2, 2**31 - 1, 1), (0, 100, 2), (1, 100, 2), (-1, -100, -1), (-1, -(2**31), -2)]
        )  # fmt: skip
        starts.append(start)
        ends.append(end)
        steps.append(step)
    constants = [draw.constant(values) for values in (starts, ends, axes)]
    if any(step != 1 for step in steps) or draw.chance(0.3):
        constants.append(draw.constant(steps))
    draw.node("Slice", [x, *constants], MOVE)


@template("Pad", 2)
def pad(draw: Draw) -> None:
    """Add a Pad by 0 or 1 at each end of an axis, in a random mode. In the mode `constant`, it sometimes also crops."""
    mode = draw.choice(["constant", "constant", "constant", "reflect", "edge", *(["wrap"] if draw.opset >= 19 else [])])
    types = (*FLOATS, "int64", "int32") if mode == "constant" else ("float32",)
    x = draw.pick(types, range(1, 6), where=lambda value: mode == "constant" or min(value.shape) >= 2)
    low = -1 if mode == "constant" and draw.chance(0.2) else 0
    sizes = [draw.integer(low, 1) for _ in range(2 * x.rank)]
    inputs = [x, draw.constant(sizes)]
    if mode == "constant" and draw.chance(0.5):
        inputs.append(draw.constant(draw.choice([0, 1, -2]), x.dtype))
    draw.node("Pad", inputs, MOVE, mode=mode if mode != "constant" or draw.chance(0.5) else None)


@template("Tile")
def tile(draw: Draw) -> None:
    """Add a Tile with constant repeats from 1 to 3."""
    x = draw.pick((*FLOATS, "int64", "int32"), range(1, 5))
    draw.node("Tile", [x, draw.constant([draw.choice([1, 1, 2, 3]) for _ in range(x.rank)])], MOVE)


@template("DepthToSpace")
def depth_to_space(draw: Draw) -> None:
    """Add a DepthToSpace or a SpaceToDepth with blocks of 2."""
    if draw.chance(0.5):
        x = draw.pick(("float32",), [4], where=lambda value: bool(value.dims[1]) and value.shape[1] % 4 == 0)
        draw.node("DepthToSpace", [x], MOVE, blocksize=2, mode=draw.choice([None, "DCR", "CRD"]))
    else:
        x = draw.pick(("float32",), [4], where=lambda v: all(s[2] % 2 == 0 and s[3] % 2 == 0 for s in v.shapes))
        draw.node("SpaceToDepth", [x], MOVE, blocksize=2)


@template("EyeLike", 0.3)
def eye_like(draw: Draw) -> None:
    """Add an EyeLike."""
    draw.node("EyeLike", [draw.pick(("float32", "int64"), [2])], MOVE, k=draw.choice([None, 1, -1]))


@template("Trilu", 0.6, 14)
def trilu(draw: Draw) -> None:
    """Add a Trilu of matrices, sometimes with a constant diagonal from -2 to 2."""
    x = draw.pick((*FLOATS, "int64"), range(2, 5))
    inputs = [x, draw.constant(draw.integer(-2, 2))] if draw.chance(0.5) else [x]
    draw.node("Trilu", inputs, MOVE, upper=draw.choice([None, 0, 1]))


@template("CumSum", 0.7)
def cumsum(draw: Draw) -> None:
    """Add a CumSum along a constant axis, sometimes exclusive or reversed."""
    x = draw.pick((*FLOATS, "int64", "int32"), range(1, 5))
    axis = draw.constant(draw.axis(x.rank), draw.choice(["int64", "int32"]))
    flags = {name: 1 for name in ("exclusive", "reverse") if draw.chance(0.4)}
    draw.node("CumSum", [x, axis], GRID if x.is_float else MOVE, **flags)


@template("Resize", 2)
def resize(draw: Draw) -> None:
    """Add a Resize of the last two axes by whole factors, which are given as scales or as sizes.

    The mode is nearest, linear or sometimes cubic.
    """
    x = draw.pick(("float32",), [4])
    factors = [draw.choice([1, 2, 2, 3]), draw.choice([1, 2, 2])]
    if draw.chance(0.5):
        mode = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        rule: Rule = MOVE
    else:
        transformation = draw.choice(["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
        mode = {"mode": draw.choice(["linear", "linear", "cubic"]), "coordinate_transformation_mode": transformation}
        rule = SMOOTH
    if None in x.dims or draw.chance(0.6):
        inputs = [x, None, draw.constant([1, 1, *factors], "float32")]
    else:
        sizes = [size * factor for size, factor in zip(x.shape[2:], factors)]
        inputs = [x, None, None, draw.constant([*x.shape[:2], *sizes])]
    draw.node("Resize", inputs, rule, **mode)


@template("Shape", 1.5)
def shape(draw: Draw) -> None:
    """Add a Shape, from opset 15 on sometimes with a start and an end; or sometimes a Size."""
    x = draw.any(range(1, 6))
    limits = {}
    if draw.opset >= 15 and draw.chance(0.4):
        limits = {"start": draw.integer(-x.rank, x.rank - 1), "end": draw.choice([None, x.rank, -1])}
    draw.node("Shape", [x], MOVE, **limits) if draw.chance(0.8) else draw.node("Size", [x], MOVE)


@template("ReverseSequence", 0.4)
def reverse_sequence(draw: Draw) -> None:
    """Add a ReverseSequence with a constant length for each element of the batch, which is axis 0 or 1."""
    x = draw.pick((*FLOATS, *INTEGERS), range(2, 5), where=lambda v: v.dims[0] is not None and v.dims[1] is not None)
    time_axis = draw.integer(0, 1)
    lengths = [draw.integer(1, x.shape[time_axis]) for _ in range(x.shape[1 - time_axis])]
    draw.node("ReverseSequence", [x, draw.constant(lengths)], MOVE, time_axis=time_axis, batch_axis=1 - time_axis)

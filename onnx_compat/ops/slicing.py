"""Concat, Slice, Split, Pad and CenterCropPad."""

from typing import TYPE_CHECKING, Any, List, Optional, Sequence

from onnx_compat import limits
from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import Extent, ceildiv, floordiv, is_equal, is_static, maximum, minimum
from onnx_compat.ops.arguments import known_integers, normalize_axes, split_pads
from onnx_compat.ops.registry import op
from onnx_compat.primitives.ranges import check_same, check_shape
from onnx_compat.tracing.values import Tensor, as_sizes

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context


@op("Concat", since=1)
def concat_1(*inputs: Tensor, axis: int = 1) -> Tensor:
    """Concatenate the inputs along an axis (negative: from the end), by default axis 1, the channels."""
    return p.concat(inputs, axis)


@op("Concat", since=(4, 11, 13))
def concat(*inputs: Tensor, axis: int) -> Tensor:
    """Concatenate the inputs along an axis (negative: from the end)."""
    return p.concat(inputs, axis)


@op("Slice", since=1)
def slice_1(
    data: Tensor, *, starts: Sequence[int], ends: Sequence[int], axes: Optional[Sequence[int]] = None
) -> Tensor:
    """Return data[start:end] along each of `axes`, by default along the first axes; starts and ends are attributes.

    Bounds are as in Python. Raises InvalidModelError if the lists differ in length, or an axis is out of range or comes
    twice.
    """
    return _slice(data, starts, ends, range(len(starts)) if axes is None else axes, [1] * len(starts))


@op("Slice", since=(10, 11, 13))
def slice(
    data: Tensor, starts: Tensor, ends: Tensor, axes: Optional[Tensor] = None, steps: Optional[Tensor] = None
) -> Tensor:
    """Return data[start:end:step] along each of `axes`, by default along the first axes. The default step is 1.

    Bounds are as in Python. Raises InvalidModelError if the lists differ in length, an axis is out of range or comes
    twice, or a step is 0. Raises NeedsKnownError if axes or steps are not known, or if none of the inputs has a known
    length.
    """
    lengths = [x.shape[0] for x in (axes, steps, starts, ends) if x is not None and x.rank == 1]
    count = next(filter(is_static, lengths), None)  # one of the vectors gives the length of all
    begin, stop = as_sizes(starts, count), as_sizes(ends, count)
    axis_indices = range(len(begin)) if axes is None else known_integers(axes, "the axes of a Slice")
    strides = [1] * len(begin) if steps is None else known_integers(steps, "the steps of a Slice")
    return _slice(data, begin, stop, axis_indices, strides)


@op("DynamicSlice", since=1)
def dynamic_slice(data: Tensor, starts: Tensor, ends: Tensor, axes: Optional[Tensor] = None) -> Tensor:
    """Return data[start:end] along each of `axes`, by default along the first axes. Bounds are as in Python.

    DynamicSlice is an experimental operator of ONNX 1.4; Slice of opset 10 replaced it. Raises InvalidModelError if
    the lists differ in length, or an axis is out of range or comes twice. Raises NeedsKnownError if the axes are not
    known, or if none of the inputs has a known length.
    """
    return slice(data, starts, ends, axes)


def _slice(
    x: Tensor, starts: Sequence[Extent], ends: Sequence[Extent], axes: Sequence[int], steps: Sequence[int]
) -> Tensor:
    """Return x[start:end:step] along each of `axes`. The lists have an entry for each of these axes.

    Raises InvalidModelError if the lists differ in length, an axis is out of range or comes twice, or a step is 0.
    """
    axis_indices = normalize_axes(axes, x.rank)
    if not len(starts) == len(ends) == len(axis_indices) == len(steps) or len(set(axis_indices)) < len(axis_indices):
        raise InvalidModelError(
            "a Slice has starts %s, ends %s, axes %s and steps %s"
            % (list(starts), list(ends), list(axes), list(steps)),
            hint="there is one start, one end and one step for each axis, and no axis comes twice",
        )
    begin: List[Any] = [None] * x.rank
    stop: List[Any] = [None] * x.rank
    strides = [1] * x.rank
    for axis, start, end, step in zip(axis_indices, starts, ends, steps):
        begin[axis], stop[axis], strides[axis] = start, _open_end(end, step), step
    return p.slice(x, [0 if start is None else start for start in begin], stop, strides)


def _open_end(end: Extent, step: int) -> Any:
    """Return None if `end` is extreme: the slice then includes the last element in the direction of the step.

    An extreme end is >= 2^31 - 1 for a positive step, and <= -(2^31 - 1) for a negative step. A symbolic end is not
    extreme. Return any other `end` unchanged.
    """
    if is_static(end) and (end >= _FAR if step > 0 else end <= -_FAR):
        return None
    return end


_FAR = 2**31 - 1


@op("Split", since=1)
def split_1(
    ctx: "Context",
    input: Tensor,
    lengths: Optional[Tensor] = None,
    *,
    split: Optional[Sequence[int]] = None,
    axis: int = 0,
) -> List[Tensor]:
    """Split along an axis into the outputs of the node.

    The sizes are the input `lengths`. Without this input, they are the attribute `split`, by default equal parts.
    Raises InvalidModelError for sizes that do not fit the axis or the number of outputs.
    """
    return split_13(ctx, input, lengths, axis=axis) if lengths else split_2(ctx, input, split=split, axis=axis)


@op("Split", since=(2, 11))
def split_2(ctx: "Context", input: Tensor, *, split: Optional[Sequence[int]] = None, axis: int = 0) -> List[Tensor]:
    """Split along an axis into pieces with the sizes in the attribute `split`, by default into equal parts.

    Raises InvalidModelError for an axis that is out of range, and for sizes that do not fit the axis or the number of
    outputs.
    """
    axis = p.existing_axis(axis, input)
    return _split_pieces(ctx, input, axis, split or _equal_parts(input.shape[axis], ctx.outputs))


@op("Split", since=13)
def split_13(ctx: "Context", input: Tensor, split: Optional[Tensor] = None, *, axis: int = 0) -> List[Tensor]:
    """Split along an axis into pieces with the sizes in the input `split`, by default into equal parts.

    Raises InvalidModelError for an axis that is out of range, and for sizes that do not fit the axis or the number of
    outputs.
    """
    axis = p.existing_axis(axis, input)
    sizes = _equal_parts(input.shape[axis], ctx.outputs) if split is None else as_sizes(split, ctx.outputs)
    return _split_pieces(ctx, input, axis, sizes)


def _split_pieces(ctx: "Context", input: Tensor, axis: int, sizes: Sequence[Extent]) -> List[Tensor]:
    if len(sizes) != ctx.outputs:
        raise InvalidModelError("a Split into %d pieces has %d outputs" % (len(sizes), ctx.outputs))
    return p.split(input, axis, sizes)


@op("Split", since=18)
def split(
    ctx: "Context", input: Tensor, split: Optional[Tensor] = None, *, axis: int = 0, num_outputs: Optional[int] = None
) -> List[Tensor]:
    """Split a tensor along an axis. Return a list of the pieces.

    - `split` is given: the size of each piece.
    - Otherwise: `num_outputs` pieces of the size ceil(length / num_outputs). The last pieces may be smaller or empty: 5
      elements in 4 pieces -> 2, 2, 1, 0. num_outputs is by default the number of the node's outputs.

    Raises InvalidModelError for an axis that is out of range. Raises it if `split` does not fit the axis or the number
    of outputs of the node. Without `split`, raises it if the number of pieces is below 1, or below the number of outputs.

    Raises LimitError if there are more pieces than the limit `sequence_items`, unless the sizes in `split` are known.
    """
    axis = p.existing_axis(axis, input)
    if split is not None:
        return _split_pieces(ctx, input, axis, as_sizes(split, ctx.outputs))
    count = ctx.outputs if num_outputs is None else num_outputs
    if count < 1 or count < ctx.outputs:
        raise InvalidModelError("a Split cannot make %d pieces for %d outputs" % (count, ctx.outputs))
    limits.check("sequence_items", count, "a Split")
    return p.split(input, axis, _chunk_sizes(input.shape[axis], count))


def _equal_parts(extent: Extent, count: int) -> List[Extent]:
    """Return `count` equal sizes. Raises InvalidModelError if `count` does not divide a static size.

    A symbolic size is divided without a check, and rounded down.
    """
    if is_static(extent) and extent % count:
        raise InvalidModelError("an axis of length %s cannot be split into %d equal parts" % (extent, count))
    return [floordiv(extent, count)] * count


def _chunk_sizes(extent: Extent, count: int) -> List[Extent]:
    """Return `count` sizes with the sum `extent`: ceil(extent / count) as often as possible, the rest, then zeros."""
    chunk = ceildiv(extent, count)
    bounds = [minimum(chunk * k, extent) for k in range(count)] + [extent]
    return [after - before for before, after in zip(bounds, bounds[1:])]


@op("Pad", since=1)
def pad_1(data: Tensor, *, paddings: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Pad by the attribute `paddings`; a negative size crops.

    `paddings` has the sizes at the start of each axis, then the sizes at the end: [start 0, start 1, end 0, end 1].
    The mode "constant" pads with `value`; the modes "edge", "reflect" and "wrap" copy elements. Raises
    InvalidModelError for another number of sizes, and if a static size of the result is negative.
    """
    return _pad_and_crop(data, list(paddings), mode, value)


@op("Pad", since=2)
def pad_2(data: Tensor, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0) -> Tensor:
    """Pad by the attribute `pads`; a negative size crops.

    `pads` has the sizes at the start of each axis, then the sizes at the end: [start 0, start 1, end 0, end 1]. The
    mode "constant" pads with `value`; the modes "edge", "reflect" and "wrap" copy elements. Raises InvalidModelError
    for another number of sizes, and if a static size of the result is negative.
    """
    return _pad_and_crop(data, list(pads), mode, value)


@op("Pad", since=(11, 13))
def pad_11(data: Tensor, pads: Tensor, constant_value: Optional[Tensor] = None, *, mode: str = "constant") -> Tensor:
    """Pad by the input `pads`; a negative size crops. A size that is not known must not be negative.

    `pads` has the sizes at the start of each axis, then the sizes at the end: [start 0, start 1, end 0, end 1]. The
    mode "constant" pads with `constant_value`, by default 0. The modes "edge", "reflect" and "wrap" copy elements.
    Raises InvalidModelError for another number of sizes, and if a static size of the result is negative.
    """
    return pad(data, pads, constant_value, mode=mode)


@op("Pad", since=(18, 19, 21, 23, 24, 25))
def pad(
    data: Tensor,
    pads: Tensor,
    constant_value: Optional[Tensor] = None,
    axes: Optional[Tensor] = None,
    *,
    mode: str = "constant",
) -> Tensor:
    """Pad the axes `axes` of data, by default all axes. A negative size crops the axis.

    `pads` has the sizes at the start of these axes, then the sizes at the end: [start 0, start 1, end 0, end 1]. A size
    that is not known must not be negative. The mode "constant" pads with `constant_value`, by default 0. The modes
    "edge", "reflect" and "wrap" copy elements.

    `pads` of an unknown length is read as two sizes for each axis.

    Raises InvalidModelError if an axis is out of range, or if `pads` does not have two sizes for each axis. Raises it
    as well if a static size of the result is negative. Raises NeedsKnownError if the axes are not known.
    """
    value = None if constant_value is None else p.reshape(constant_value, ())
    axis_indices = None if axes is None else known_integers(axes, "the axes of a Pad")
    count = data.rank if axis_indices is None else len(axis_indices)
    return _pad_and_crop(data, as_sizes(pads, 2 * count), mode, value, axis_indices)


def _pad_and_crop(
    x: Tensor, pads: Sequence[Extent], mode: str, value: Any, axes: Optional[Sequence[int]] = None
) -> Tensor:
    """Pad the axes of x by positive sizes, and crop them by negative sizes. A symbolic size is taken as positive.

    `pads` has the sizes at the start of `axes`, then the sizes at the end; `axes` None: all axes. The modes that copy
    elements (edge, reflect, wrap) crop first, and copy elements that remain.

    Raises InvalidModelError if an axis is out of range, or if `pads` does not have two sizes for each axis. Raises it
    as well if a static size of the result is negative.
    """
    low: List[Extent] = [0] * x.rank
    high: List[Extent] = [0] * x.rank
    axis_indices = normalize_axes(range(x.rank) if axes is None else axes, x.rank)
    if len(pads) != 2 * len(axis_indices):
        raise InvalidModelError("%d sizes of padding are given for %d axes" % (len(pads), len(axis_indices)))
    for axis, (before, after) in zip(axis_indices, split_pads(pads)):
        low[axis], high[axis] = before, after
    check_shape([before + size + after for before, size, after in zip(low, x.shape, high)], "Pad")
    if mode == "constant" and any(map(_crops_padding, low, x.shape, high)):
        padded = p.pad(x, [maximum(size, 0) for size in low], [maximum(size, 0) for size in high], value=value)
        ends = [size if is_static(size) and size < 0 else None for size in high]
        return p.slice(padded, [-minimum(size, 0) for size in low], ends, [1] * x.rank)
    if any(is_static(size) and size < 0 for size in low + high):
        starts = [-size if is_static(size) and size < 0 else 0 for size in low]
        ends = [size if is_static(size) and size < 0 else None for size in high]
        x = p.slice(x, starts, ends, [1] * x.rank)
        low, high = ([0 if is_static(size) and size < 0 else size for size in side] for side in (low, high))
    return p.pad(x, low, high, mode=mode, value=value)


def _crops_padding(before: Extent, extent: Extent, after: Extent) -> bool:
    """Return whether the crop at one end of an axis removes more elements than the axis has, and thus also padding.

    `before` and `after` are the padding at the two ends; a negative size crops. False if a size is symbolic.
    """
    if not all(map(is_static, (before, extent, after))):
        return False
    return min(int(before), 0) + int(extent) + min(int(after), 0) < 0  # type: ignore[arg-type]  # mypy does not narrow through all()


@op("CenterCropPad", since=18)
def center_crop_pad(input_data: Tensor, shape: Tensor, *, axes: Optional[Sequence[int]] = None) -> Tensor:
    """Give the axes `axes` the sizes in `shape`: crop each axis to its middle, or zero-pad it at both ends.

    By default, `axes` is all axes. If the number of elements to remove or to add is odd, the end gets the larger half.
    A `shape` of an unknown length is read as one size for each axis. Raises InvalidModelError for an axis that is out
    of range, and for another number of sizes than of axes.
    """
    x = input_data
    axis_indices = normalize_axes(range(x.rank) if axes is None else axes, x.rank)
    targets = as_sizes(shape, len(axis_indices))
    check_same("the number of sizes", len(targets), "the number of axes", len(axis_indices))
    for axis, target in zip(axis_indices, targets):
        current = x.shape[axis]
        if is_equal(current, target):
            continue
        start = floordiv(maximum(current - target, 0), 2)
        x = p.slice_axis(x, axis, start, start + minimum(current, target))
        missing = maximum(target - current, 0)
        before = [floordiv(missing, 2) if k == axis else 0 for k in range(x.rank)]
        after = [missing - floordiv(missing, 2) if k == axis else 0 for k in range(x.rank)]
        x = p.pad(x, before, after)
    return x

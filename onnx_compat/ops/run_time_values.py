"""Operators whose bounds, pads or ratios are only known when the model runs, as functions over primitives.

The meanings of these operators need known values: from them, shapes are known while tracing. The functions of this
module serve conversions to ONNX. Sizes of their results are sizes of recorded vectors.
"""

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import int64
from onnx_compat.ops.random import dropout_at_run_time
from onnx_compat.ops.resize import resize_at_run_time
from onnx_compat.tracing.values import Tensor, lift

__all__ = ["AT_RUN_TIME", "RunTimeForm"]

Inputs = Sequence[Optional[Tensor]]
Attributes = Mapping[str, Any]


class RunTimeForm(NamedTuple):
    """A function that computes an operator, from the inputs and the attributes of its node.

    begin: the first version of the operator that has these inputs.
    """

    begin: int
    compute: Callable[[Inputs, Attributes], List[Tensor]]


def _slice(inputs: Inputs, attributes: Attributes) -> List[Tensor]:
    """Return [data[start:end:step] along each of the axes], for bounds, axes and steps that may be known or not."""
    data, starts, ends, axes, steps = _pad_list(inputs, 5)
    for axis in _possible_axes(axes, starts, data.rank):
        size: Any = lift(data.shape[axis], int64)
        is_sliced = _matches(axes, starts, axis, data.rank)
        is_whole: Any = p.cast(p.equal(p.reduce_sum(p.cast(is_sliced, int64), [0]), 0), int64)
        step: Any = lift(1, int64) if steps is None else _choose(is_sliced, steps) + is_whole
        forward = p.less(0, step)
        start = _clamp(_choose(is_sliced, starts), size, forward)
        end = _clamp(_choose(is_sliced, ends) + is_whole * size, size, forward)
        count = 0 - p.floordiv(start - end, step)
        data = p.take(data, _count_to(count) * step + start, axis)
    return [data]


def _clamp(bound: Any, size: Any, forward: Tensor) -> Any:
    """Return a bound of a slice as an index, by Python's rules: from 0 to `size`, or from -1 to size - 1 backward."""
    offset = p.cast(forward, int64) - 1
    return p.minimum(p.maximum(p.where(p.less(bound, 0), bound + size, bound), offset), size + offset)


def _pad(inputs: Inputs, attributes: Attributes) -> List[Tensor]:
    """Return [the padded data]. A negative pad crops: after the padding by a constant, and before that by elements."""
    data, pads, value, axes = _pad_list(inputs, 4)
    assert pads is not None  # an input of every Pad
    count = data.rank if axes is None else axes.shape[0]
    before, after = p.split(pads, 0, [count, count])
    low, high = (
        [_choose(_matches(axes, side, axis, data.rank), side) for axis in range(data.rank)] for side in (before, after)
    )
    mode = attributes.get("mode", "constant")
    if mode != "constant":
        data = _crop(data, low, high)
    sides = [[_count_to(length).shape[0] for length in lengths] for lengths in (low, high)]
    data = p.pad(data, sides[0], sides[1], mode=mode, value=None if value is None else p.reshape(value, ()))
    return [_crop(data, low, high) if mode == "constant" else data]


def _crop(data: Tensor, low: Sequence[Any], high: Sequence[Any]) -> Tensor:
    """Return data without elements at both ends of each axis: as many as negative entries of `low` and `high` say."""
    for axis, (before, after) in enumerate(zip(low, high)):
        first: Any = p.maximum(0 - before, 0)
        count = lift(data.shape[axis], int64) - first - p.maximum(0 - after, 0)
        data = p.take(data, _count_to(count) + first, axis)
    return data


def _resize(inputs: Inputs, attributes: Attributes) -> List[Tensor]:
    """Return [the resized data], by scales or to sizes."""
    data, _, scales, sizes = _pad_list(inputs, 4)
    has_scales = scales is not None and scales.shape[0] != 0
    return [resize_at_run_time(data, scales if has_scales else None, None if has_scales else sizes, **attributes)]


def _dropout(inputs: Inputs, attributes: Attributes) -> List[Tensor]:
    """Return [result, mask of the kept elements]."""
    data, ratio, training_mode = _pad_list(inputs, 3)
    return dropout_at_run_time(data, ratio, training_mode, attributes.get("seed"))


AT_RUN_TIME: Dict[str, RunTimeForm] = {
    "Dropout": RunTimeForm(12, _dropout),
    "Pad": RunTimeForm(11, _pad),
    "Resize": RunTimeForm(11, _resize),
    "Slice": RunTimeForm(10, _slice),
}


def _pad_list(inputs: Inputs, count: int) -> List[Any]:
    """Return `count` inputs, with None for each input that is absent."""
    return [*inputs, *[None] * (count - len(inputs))]


def _possible_axes(axes: Optional[Tensor], entries: Tensor, rank: int) -> Sequence[int]:
    """Return the axes to which entries of a vector may belong. `axes`, `entries`: see `_matches`."""
    if axes is None:
        count = entries.shape[0]
        return range(int(count) if is_static(count) else rank)
    if axes.known and axes.value is not None:
        return [int(axis) % rank for axis in axes.value.reshape(-1)]
    return range(rank)


def _matches(axes: Optional[Tensor], entries: Tensor, axis: int, rank: int) -> Tensor:
    """Return a bool vector: which of the entries of a vector belong to `axis`.

    `axes` has the axis of each entry; a negative axis counts from the end. None: the entries belong to the first axes.
    """
    numbers: Any = p.iota(entries.shape[0]) if axes is None else p.cast(axes, int64)
    if axes is None:
        return p.equal(numbers, axis)
    return p.logical_or(p.equal(numbers, axis), p.equal(numbers, axis - rank))


def _choose(flags: Tensor, entries: Tensor) -> Any:
    """Return the entry whose flag is set, as an int64 scalar; 0 if no flag is set. At most one flag is set."""
    return p.reduce_sum(p.where(flags, p.cast(entries, int64), 0), [0])


def _count_to(length: Tensor) -> Any:
    """Return the int64 vector 0, 1, … length - 1. It is empty for a length below 1."""
    return p.arange(lift(0, int64), length, lift(1, int64))

"""Derivative rules of the primitives that move, repeat, join or slice data."""

from typing import Any, List

from onnx_compat import primitives as p
from onnx_compat.autodiff.indexing import add_at
from onnx_compat.autodiff.rules import RecordedNode, apply_pending_order, rule, sum_to
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import bool_
from onnx_compat.tracing.values import Tensor


@rule("reshape")
def _reshape(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a reshape, [by x, None]: g, reshaped to the shape of the operand x."""
    return [p.reshape(g, at.args[0].shape), None]


@rule("transpose")
def _transpose(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a transpose: g, transposed by the inverse permutation."""
    perm = at.params["perm"]
    return [apply_pending_order(p.transpose(g, [perm.index(axis) for axis in range(len(perm))]))]


@rule("broadcast_to")
def _broadcast_to(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a broadcast, [by x, None]: g, summed over the axes along which x is repeated."""
    return [sum_to(g, at.args[0].shape), None]


@rule("concat")
def _concat(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a concatenation: the parts of g that come from each operand."""
    axis = at.params["axis"]
    return [p.split(g, axis, [x.shape[axis] for x in at.args[0]])]


@rule("slice")
def _slice(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a slice: the elements of g at the positions that the slice read, and 0 elsewhere.

    Return the list [derivative of the operand, None, None]: the starts and the ends have no derivative.
    """
    x, starts, ends = at.args
    for axis, (start, end, step) in enumerate(zip(starts, ends, at.params["steps"])):
        extent, length = x.shape[axis], g.shape[axis]
        if step == 1 and all(is_static(size) for size in (start, length, extent)) and start >= 0:
            before, after = (
                [size if k == axis else 0 for k in range(x.rank)] for size in (start, extent - start - length)
            )
            g = p.pad(g, before, after)
        else:
            line = p.slice_axis(p.iota(extent), 0, start, end, step)
            g = add_at(g, line, axis, extent)
    return [g, None, None]


@rule("reverse")
def _reverse(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a reversal: g, reversed along the same axes."""
    return [p.reverse(g, at.params["axes"])]


@rule("tile")
def _tile(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a repetition, [by x, None]: g, summed over the copies of each element."""
    x, repeats = at.args
    shape: List[Extent] = [size for pair in zip(repeats, x.shape) for size in pair]
    return [p.reduce_sum(p.reshape(g, shape), range(0, 2 * x.rank, 2)), None]


@rule("pad")
def _pad(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a pad: the sum of the elements of g that are copies of an element.

    Return the list [derivative of the operand, None, None, derivative of the pad value]. The derivative of the pad value
    is the sum of g outside of the operand. It is None if the pad value is known, and for a mode that copies elements.
    """
    x, before, after, value = at.args
    mode = at.params["mode"]
    if mode != "constant":
        for axis, (low, high) in enumerate(zip(before, after)):
            source = p.pad(p.iota(x.shape[axis]), [low], [high], mode)
            g = add_at(g, source, axis, x.shape[axis])
        return [g, None, None, None]
    ends = [low + extent for low, extent in zip(before, x.shape)]
    inside = p.slice(g, before, ends, [1] * x.rank)
    if value.known:
        return [inside, None, None, None]
    is_padding = p.pad(p.full(x.shape, False, bool_), before, after, "constant", True)
    return [inside, None, None, p.reduce_sum(p.where(is_padding, g, 0), range(x.rank))]


@rule("arange")
def _arange(_: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivatives of a range: [sum of g for the start, None, sum of g times 0, 1, … for the step]."""
    numbers = p.cast(p.iota(g.shape[0]), g.dtype)
    return [p.reduce_sum(g), None, p.reduce_sum(p.mul(g, numbers))]

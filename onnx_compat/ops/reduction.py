"""Reductions along axes.

The axes are an attribute in old versions, and an input of ReduceSum since opset 13, of all reductions since opset 18.
"""

from typing import Any, Callable, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.ops.arguments import apply_in_float, known_integers
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift

Reduction = Callable[..., Tensor]


def _register_reduction(name: str, function: Reduction, old: List[int], new: List[int]) -> None:
    """Register a reduction: in the `old` versions the axes are an attribute, in the `new` versions an input.

    `function(x, axes, keepdims)` reduces all axes for axes=None, and no axis for an empty list.

    If the axes of the node are absent or empty, all axes are reduced. Exception: with `noop_with_empty_axes`, an
    attribute of the new versions, no axis is reduced. An input that is not known raises NeedsKnownError.
    """

    def by_attribute(data: Tensor, *, axes: Optional[Sequence[int]] = None, keepdims: int = 1) -> Tensor:
        return function(data, list(axes) if axes else None, bool(keepdims))

    def by_input(
        data: Tensor, axes: Optional[Tensor] = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Tensor:
        along = [] if axes is None else known_integers(axes, "the axes of a %s" % name)
        return function(data, along if along or noop_with_empty_axes else None, bool(keepdims))

    op(name, since=old)(by_attribute)
    op(name, since=new)(by_input)


def _l1(x: Tensor, axes: Optional[Sequence[int]], keepdims: bool) -> Tensor:
    return p.reduce_sum(p.abs(x), axes, keepdims)


def _sum_square(x: Tensor, axes: Optional[Sequence[int]], keepdims: bool) -> Tensor:
    return p.reduce_sum(p.mul(x, x), axes, keepdims)


def _l2(x: Tensor, axes: Optional[Sequence[int]], keepdims: bool) -> Tensor:
    return apply_in_float(lambda f: p.sqrt(_sum_square(f, axes, keepdims)), x)


def _log_sum(x: Tensor, axes: Optional[Sequence[int]], keepdims: bool) -> Tensor:
    return apply_in_float(lambda f: p.log(p.reduce_sum(f, axes, keepdims)), x)


def _log_sum_exp(x: Tensor, axes: Optional[Sequence[int]], keepdims: bool) -> Tensor:
    """Return log(sum(exp(x))) as m + log(sum(exp(x - m))) with the maximum m, so that no exponential overflows.

    If m is infinite, it is replaced by 0. `axes` None: all axes.
    """

    def stable(f: Tensor) -> Tensor:
        peak = p.reduce_max(f, axes, keepdims=True)
        peak = p.where(p.is_inf(peak), 0, peak)
        total = p.reduce_sum(p.exp(p.sub(f, peak)), axes, keepdims)
        return p.add(p.log(total), peak if keepdims else p.reduce_max(peak, axes))

    return apply_in_float(stable, x)


_register_reduction("ReduceSum", p.reduce_sum, [1, 11], [13])
_register_reduction("ReduceMean", p.reduce_mean, [1, 11, 13], [18])
_register_reduction("ReduceMax", p.reduce_max, [1, 11, 12, 13], [18, 20])
_register_reduction("ReduceMin", p.reduce_min, [1, 11, 12, 13], [18, 20])
_register_reduction("ReduceProd", p.reduce_prod, [1, 11, 13], [18])
_register_reduction("ReduceL1", _l1, [1, 11, 13], [18])
_register_reduction("ReduceL2", _l2, [1, 11, 13], [18])
_register_reduction("ReduceSumSquare", _sum_square, [1, 11, 13], [18])
_register_reduction("ReduceLogSum", _log_sum, [1, 11, 13], [18, 28])
_register_reduction("ReduceLogSumExp", _log_sum_exp, [1, 11, 13], [18, 28])


@op("ArgMax", since=(1, 11))
def argmax_11(data: Tensor, *, axis: int = 0, keepdims: int = 1) -> Tensor:
    """Return the int64 index of the first maximum along an axis.

    The axis keeps size 1 if `keepdims`, else it is removed. Raises InvalidModelError for an axis that is out of range.
    """
    return argmax(data, axis=axis, keepdims=keepdims)


@op("ArgMax", since=(12, 13))
def argmax(data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Return the int64 index of the first maximum along an axis, or of the last if `select_last_index`.

    The axis keeps size 1 if `keepdims`, else it is removed. Raises InvalidModelError for an axis that is out of range.
    """
    return _select_extreme(p.argmax, data, axis, keepdims, select_last_index)


@op("ArgMin", since=(1, 11))
def argmin_11(data: Tensor, *, axis: int = 0, keepdims: int = 1) -> Tensor:
    """Return the int64 index of the first minimum along an axis.

    The axis keeps size 1 if `keepdims`, else it is removed. Raises InvalidModelError for an axis that is out of range.
    """
    return argmin(data, axis=axis, keepdims=keepdims)


@op("ArgMin", since=(12, 13))
def argmin(data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    """Return the int64 index of the first minimum along an axis, or of the last if `select_last_index`.

    The axis keeps size 1 if `keepdims`, else it is removed. Raises InvalidModelError for an axis that is out of range.
    """
    return _select_extreme(p.argmin, data, axis, keepdims, select_last_index)


def _select_extreme(function: Callable[[Any, int], Tensor], x: Tensor, axis: int, keepdims: int, last: int) -> Tensor:
    """Return the int64 index of the first extreme along an axis, of the last if `last`.

    `function` is argmax or argmin. The axis keeps size 1 if `keepdims`, else it is removed. The last extreme is the
    first extreme of the reversed axis. Raises InvalidModelError for an axis that is out of range.
    """
    axis = p.axis_of(axis, x.rank)
    index = p.sub(lift(x.shape[axis] - 1), function(p.reverse(x, [axis]), axis)) if last else function(x, axis)
    return p.unsqueeze(index, [axis]) if keepdims else index

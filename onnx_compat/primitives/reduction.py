"""Reductions: combine the elements along axes. A reduction works in the stored order of its operand."""

from typing import Any, Callable, Optional, Sequence

from onnx_compat.ir.dims import is_equal
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.primitives.shape import axis_of, broadcast_source, broadcast_to
from onnx_compat.tracing.layout import order_without_axes, physical_axis
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, TensorLike, lift

Reduction = Callable[..., Tensor]


def reduction(kinds: str) -> Callable[[Callable[..., Any]], Reduction]:
    """Return a decorator for a primitive f(x, axes, keepdims) of the dtype kinds `kinds`.

    Of the decorated function, only the name and the docstring count. `axes=None` reduces all axes; an empty list
    returns x itself. `keepdims` keeps the reduced axes with length one; by default they are removed. A negative axis
    counts from the end.
    """

    def declare(function: Callable[..., Any]) -> Reduction:
        primitive(kinds)(function)
        name = function.__name__

        def apply_reduction(x: TensorLike, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Tensor:
            return reduce(name, lift(x), axes, keepdims)

        apply_reduction.__name__ = apply_reduction.__qualname__ = name
        apply_reduction.__doc__ = function.__doc__
        return apply_reduction

    return declare


def reduce(name: str, x: Tensor, axes: Optional[Sequence[int]], keepdims: bool) -> Tensor:
    """Fold or record a reduction over logical axes; None means all axes. x itself is returned if there are no axes.

    `keepdims`: the axes remain with length 1. Raises InvalidModelError for an axis that is out of range.

    reduce(broadcast_to(x))  =>  broadcast_to(reduce(x)) if the broadcast adds no axis and repeats x along no reduced
    axis.
    """
    logical_axes = sorted({axis_of(axis, x.rank) for axis in (range(x.rank) if axes is None else axes)})
    if not logical_axes:
        return x
    folded = fold(name, [x], [x.dtype], axes=tuple(logical_axes), keepdims=keepdims)
    if folded is not None:
        return folded[0]
    if keepdims:
        shape = tuple(1 if axis in logical_axes else extent for axis, extent in enumerate(x.shape))
        order = x.order
    else:
        shape = tuple(extent for axis, extent in enumerate(x.shape) if axis not in logical_axes)
        order = order_without_axes(x.order, logical_axes)
    narrow = broadcast_source(x)
    if (
        narrow is not x
        and narrow.rank == x.rank
        and all(is_equal(narrow.shape[axis], x.shape[axis]) for axis in logical_axes)
    ):
        return broadcast_to(reduce(name, narrow, logical_axes, keepdims), shape)
    params = {"axes": tuple(sorted(physical_axis(axis, x.order) for axis in logical_axes)), "keepdims": keepdims}
    return apply_primitive(name, [current_trace().argument(x, x.order)], params, [order])[0]


@reduction("fiuc")
def reduce_sum(x: TensorLike, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Any:
    """The sum over `axes`; zero without elements; integers wrap."""


@reduction("fiu")
def reduce_mean(x: TensorLike, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Any:
    """The mean over `axes`. The sum of integers is divided with truncation toward zero.

    Without elements, floats give NaN.
    """


@reduction("fiub")
def reduce_max(x: TensorLike, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Any:
    """The largest element over `axes`; for booleans, whether any is True. NaN if an element is NaN.

    Without elements: -inf, the least integer or False.
    """


@reduction("fiub")
def reduce_min(x: TensorLike, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Any:
    """The smallest element over `axes`; for booleans, whether all are True. NaN if an element is NaN.

    Without elements: inf, the largest integer or True.
    """


@reduction("fiu")
def reduce_prod(x: TensorLike, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Any:
    """The product over `axes`; 1 without elements; integers wrap."""


def _apply_along_axis(name: str, x: TensorLike, axis: int) -> Tensor:
    x = lift(x)
    axis = axis_of(axis, x.rank)
    folded = fold(name, [x], [x.dtype], axis=axis)
    if folded is not None:
        return folded[0]
    params = {"axis": physical_axis(axis, x.order)}
    return apply_primitive(name, [current_trace().argument(x, x.order)], params, [x.order])[0]


@primitive("f")
def softmax(x: TensorLike, axis: int) -> Tensor:
    """e^x / sum(e^x) along an axis (negative: from the end), without overflow for any x.

    Raises InvalidModelError for an axis that is out of range.
    """
    return _apply_along_axis("softmax", x, axis)


@primitive("f")
def log_softmax(x: TensorLike, axis: int) -> Tensor:
    """x - log(sum(e^x)) along an axis (negative: from the end), without overflow for any x.

    Raises InvalidModelError for an axis that is out of range.
    """
    return _apply_along_axis("log_softmax", x, axis)

"""Primitives that combine the elements along axes. Any layout goes through: the axes follow it."""

from typing import Any, Callable, Optional, Sequence

from onnx_compat.ir.dims import is_equal
from onnx_compat.primitives.base import apply_primitive, fold, primitive
from onnx_compat.primitives.shape import axis_of, broadcast_to, spread_from
from onnx_compat.tracing.layout import order_without_axes, physical_axis
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, TensorLike, lift

Reduction = Callable[..., Tensor]


def reduction(kinds: str) -> Callable[[Callable[..., Any]], Reduction]:
    """Declare a primitive f(x, axes, keepdims): over all axes when `axes` is None, over none when it is empty."""

    def declare(function: Callable[..., Any]) -> Reduction:
        primitive(kinds)(function)
        name = function.__name__

        def applied(x: TensorLike, axes: Optional[Sequence[int]] = None, keepdims: bool = False) -> Tensor:
            return reduce(name, lift(x), axes, keepdims)

        applied.__name__ = applied.__qualname__ = name
        applied.__doc__ = function.__doc__
        return applied

    return declare


def reduce(name: str, x: Tensor, axes: Optional[Sequence[int]], keepdims: bool) -> Tensor:
    places = sorted({axis_of(axis, x.rank) for axis in (range(x.rank) if axes is None else axes)})
    if not places:
        return x
    folded = fold(name, [x], [x.dtype], axes=tuple(places), keepdims=keepdims)
    if folded is not None:
        return folded[0]
    if keepdims:
        shape = tuple(1 if axis in places else extent for axis, extent in enumerate(x.shape))
        order = x.order
    else:
        shape = tuple(extent for axis, extent in enumerate(x.shape) if axis not in places)
        order = order_without_axes(x.order, places)
    narrow = spread_from(x)
    if (
        narrow is not x
        and narrow.rank == x.rank
        and all(is_equal(narrow.shape[axis], x.shape[axis]) for axis in places)
    ):
        return broadcast_to(reduce(name, narrow, places, keepdims), shape)  # it is repeated along other axes
    params = {"axes": tuple(sorted(physical_axis(axis, x.order) for axis in places)), "keepdims": keepdims}
    return apply_primitive(name, [current_trace().argument(x, x.order)], params, [order])[0]


@reduction("fiuc")
def reduce_sum(x: TensorLike, axes: Any = None, keepdims: bool = False) -> Any:
    """The sum; of nothing, zero."""


@reduction("fiu")
def reduce_mean(x: TensorLike, axes: Any = None, keepdims: bool = False) -> Any:
    """The mean; integers are divided with truncation; of nothing, NaN."""


@reduction("fiub")
def reduce_max(x: TensorLike, axes: Any = None, keepdims: bool = False) -> Any:
    """The largest (true if any is true); NaN if one is NaN; of nothing, -inf, the least integer, False."""


@reduction("fiub")
def reduce_min(x: TensorLike, axes: Any = None, keepdims: bool = False) -> Any:
    """The smallest (true if all are true); NaN if one is NaN; of nothing, inf, the greatest integer, True."""


@reduction("fiu")
def reduce_prod(x: TensorLike, axes: Any = None, keepdims: bool = False) -> Any:
    """The product; of nothing, one."""


def _along(name: str, x: TensorLike, axis: int) -> Tensor:
    x = lift(x)
    axis = axis_of(axis, x.rank)
    folded = fold(name, [x], [x.dtype], axis=axis)
    if folded is not None:
        return folded[0]
    params = {"axis": physical_axis(axis, x.order)}
    return apply_primitive(name, [current_trace().argument(x, x.order)], params, [x.order])[0]


@primitive("f")
def softmax(x: TensorLike, axis: int) -> Tensor:
    """e^x / sum(e^x) along an axis, without overflow for any x."""
    return _along("softmax", x, axis)


@primitive("f")
def log_softmax(x: TensorLike, axis: int) -> Tensor:
    """x - log(sum(e^x)) along an axis, without overflow for any x."""
    return _along("log_softmax", x, axis)

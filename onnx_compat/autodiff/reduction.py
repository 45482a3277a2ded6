"""Derivative rules of the primitives that reduce, and of running sums and softmax."""

from typing import Any, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.autodiff.rules import RecordedNode, rule
from onnx_compat.ir.dims import Extent
from onnx_compat.tracing.values import Tensor, lift


def _restore_axes(at: RecordedNode, value: Tensor) -> Any:
    """Insert the axes that the reduction `at` removed into `value`, each with size 1. Return a Tensor.

    `value` has the shape of the reduction's result. If the parameter `keepdims` is set, `value` has these axes already
    and is returned unchanged.
    """
    return value if at.params["keepdims"] else p.unsqueeze(value, at.params["axes"])


def _count(shape: Sequence[Extent], axes: Sequence[int]) -> Extent:
    total: Extent = 1
    for axis in axes:
        total = total * shape[axis]
    return total


@rule("reduce_sum")
def _reduce_sum(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a sum: g, repeated along the reduced axes."""
    return [p.broadcast_to(_restore_axes(at, g), at.args[0].shape)]


@rule("reduce_mean")
def _reduce_mean(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a mean: g, repeated along the reduced axes and divided by the number of elements."""
    (x,) = at.args
    count = p.cast(lift(_count(x.shape, at.params["axes"])), g.dtype)
    return [p.broadcast_to(p.div(_restore_axes(at, g), count), x.shape)]


@rule("reduce_max", "reduce_min")
def _reduce_extreme(at: RecordedNode, g: Tensor) -> List[Any]:
    """Differentiate a maximum or minimum: divide each element of g equally among the elements that equal the extreme.

    Return a list of one derivative, in the shape of the operand.
    """
    (x,) = at.args
    is_extreme = p.cast(p.equal(x, _restore_axes(at, at.y)), g.dtype)
    share = p.div(_restore_axes(at, g), p.reduce_sum(is_extreme, at.params["axes"], keepdims=True))
    return [p.mul(is_extreme, share)]


@rule("reduce_prod")
def _reduce_prod(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a product: g times the product of the other elements of the reduced slice.

    The product of the other elements is y / x, except where an element of the slice is 0.
    """
    x, _ = at.factors(g.dtype)
    axes = at.params["axes"]
    is_zero = p.equal(x, 0)
    nonzero = p.where(is_zero, 1, x)
    zeros = p.cast(is_zero, x.dtype)
    other_zeros = p.sub(p.reduce_sum(zeros, axes, keepdims=True), zeros)
    other_product = p.where(p.equal(other_zeros, 0), p.div(p.reduce_prod(nonzero, axes, keepdims=True), nonzero), 0)
    return [p.mul(_restore_axes(at, g), other_product)]


def _product_or_zero(g: Tensor, y: Tensor) -> Any:
    """Return g * y, and 0 where g is 0, also if y is NaN.

    A masked row of an attention has a softmax of NaN, which a model replaces by 0: then g is 0.
    """
    return p.where(p.equal(g, 0), 0, p.mul(g, y))


@rule("softmax")
def _softmax(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a softmax y: y * (g - sum(g * y))."""
    product = _product_or_zero(g, at.y)
    total = p.reduce_sum(product, [at.params["axis"]], keepdims=True)
    return [p.sub(product, _product_or_zero(total, at.y))]


@rule("log_softmax")
def _log_softmax(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a log softmax y: g - exp(y) * sum(g)."""
    axis = [at.params["axis"]]
    return [p.sub(g, p.mul(p.exp(at.y), p.reduce_sum(g, axis, keepdims=True)))]


@rule("cumsum")
def _cumsum(at: RecordedNode, g: Tensor) -> List[Any]:
    """Return the derivative of a running sum: the running sum of g in the opposite direction."""
    return [p.cumsum(g, at.params["axis"], at.params["exclusive"], not at.params["reverse"])]

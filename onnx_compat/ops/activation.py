"""Activation functions."""

import math
from typing import Any, Callable

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import is_static
from onnx_compat.ops.arguments import product
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor


@op("LeakyRelu", since=(1, 6, 16))
def leaky_relu(X: Tensor, *, alpha: float = 0.01) -> Tensor:
    """Return X where it is positive, else alpha * X."""
    return p.maximum(X, X * alpha) if 0 < alpha <= 1 else p.where(X < 0, X * alpha, X)


@op("PRelu", since=(1, 6))
def prelu_6(X: Tensor, slope: Tensor) -> Tensor:
    """Return X where X >= 0, else X * slope.

    A slope of rank 1 has a single element, or an element for each channel (axis 1). Any other slope broadcasts as in
    numpy.
    """
    if slope.rank == 1 and X.rank > 2:
        slope = p.reshape(slope, slope.shape + (1,) * (X.rank - 2))
    return prelu(X, slope)


@op("PRelu", since=(7, 9, 16))
def prelu(X: Tensor, slope: Tensor) -> Tensor:
    """Return X where X >= 0, else X * slope. The slope broadcasts to X as in numpy."""
    return p.where(X < 0, X * slope, X)


@op("ThresholdedRelu", since=(1, 10, 22))
def thresholded_relu(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return X where X > alpha, else 0; 0 for NaN.

    Before opset 10, PyTorch exported this operator as an experimental operator.
    """
    return p.where(alpha < X, X, 0)


@op("Elu", since=(1, 6, 22))
def elu(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return X where it is positive, else alpha * (exp(X) - 1)."""
    return p.relu(X) + (p.exp(p.clip(X, None, 0)) - 1) * alpha


@op("Celu", since=(12, 28))
def celu(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return max(0, X) + min(0, alpha * (exp(X / alpha) - 1))."""
    return p.clip(X, 0, None) + p.clip((p.exp(X / alpha) - 1) * alpha, None, 0)


@op("Selu", since=1)
def selu_1(X: Tensor, *, alpha: float = 1.6732, gamma: float = 1.0507) -> Tensor:
    """Return gamma * Elu(X, alpha), with the rounded default values of version 1."""
    return elu(X, alpha=alpha) * gamma


@op("Selu", since=(6, 22))
def selu(X: Tensor, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Tensor:
    """Return gamma * Elu(X, alpha)."""
    return elu(X, alpha=alpha) * gamma


@op("Shrink", since=9)
def shrink(input: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Return input + bias where input < -lambd, input - bias where input > lambd, else 0; 0 for NaN."""
    if input.dtype.name.startswith("uint") and lambd >= 0:  # no element is below -lambd, which the dtype may lack
        return p.where(input > lambd, input - bias, 0)
    return p.where(input < -lambd, input + bias, p.where(input > lambd, input - bias, 0))


@op("HardSigmoid", since=(1, 6, 22))
def hard_sigmoid(X: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    """Return alpha * X + beta, clipped to [0, 1]."""
    return p.clip(X * alpha + beta, 0, 1)


@op("HardSwish", since=(14, 22))
def hard_swish(X: Tensor) -> Tensor:
    """Return X * clip(X / 6 + 0.5, 0, 1)."""
    return X * p.clip(X * (1 / 6) + 0.5, 0, 1)


@op("Swish", since=24)
def swish(X: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return X * sigmoid(alpha * X)."""
    return X * p.sigmoid(X * alpha)


@op("SwiGLU", since=28)
def swiglu(A: Tensor, B: Tensor, *, alpha: float = 1.0) -> Tensor:
    """Return Swish(A, alpha) * B."""
    return p.mul(swish(A, alpha=alpha), B)


@op("Softplus", since=(1, 22))
def softplus(X: Tensor) -> Tensor:
    """Return log(1 + exp(X)).

    It is computed as max(X, 0) + log(1 + e) with e = exp(-abs(X)). For log(1 + e), 2 * atanh(e / (2 + e)) is used,
    which is accurate for a small e. -abs(X) is min(X, -X), whose derivative at 0 is 1: with it, that of the sum is 0.5.
    """
    e: Any = p.exp(p.minimum(X, p.neg(X)))
    return p.relu(X) + p.atanh(e / (e + 2)) * 2


@op("Softsign", since=(1, 22))
def softsign(input: Tensor) -> Tensor:
    """Return input / (1 + abs(input))."""
    return input / (p.abs(input) + 1)


@op("Mish", since=(18, 22))
def mish(X: Tensor) -> Tensor:
    """Return X * tanh(Softplus(X))."""
    return X * p.tanh(softplus(X))


@op("Gelu", since=20)
def gelu(X: Tensor, *, approximate: str = "none") -> Tensor:
    """Return X * Phi(X) with the normal distribution function Phi.

    `approximate`: "none" (by erf) or "tanh" (the tanh approximation). Raises InvalidModelError for any other text.
    """
    if approximate == "none":
        return X * 0.5 * (p.erf(X * math.sqrt(0.5)) + 1)
    if approximate != "tanh":
        raise InvalidModelError("Gelu is approximated by 'none' or 'tanh', not %r" % approximate)
    inner = (X * X * X * 0.044715 + X) * math.sqrt(2 / math.pi)
    return X * 0.5 * (p.tanh(inner) + 1)


@op("Softmax", since=(1, 11))
def softmax_11(input: Tensor, *, axis: int = 1) -> Tensor:
    """Return the softmax over the axes from `axis` to the last together, in the shape of the input.

    This is Softmax before opset 13. Raises InvalidModelError if the axis is out of range.
    """
    return _apply_flattened(p.softmax, input, axis)


@op("Softmax", since=13)
def softmax(input: Tensor, *, axis: int = -1) -> Tensor:
    """Return the softmax along an axis; a negative axis counts from the end.

    Raises InvalidModelError for an axis that is out of range.
    """
    return p.softmax(input, axis)


@op("LogSoftmax", since=(1, 11))
def log_softmax_11(input: Tensor, *, axis: int = 1) -> Tensor:
    """Return the log-softmax over the axes from `axis` to the last together, in the shape of the input.

    This is LogSoftmax before opset 13. Raises InvalidModelError if the axis is out of range.
    """
    return _apply_flattened(p.log_softmax, input, axis)


@op("LogSoftmax", since=13)
def log_softmax(input: Tensor, *, axis: int = -1) -> Tensor:
    """Return the logarithm of the softmax along an axis; a negative axis counts from the end.

    Raises InvalidModelError for an axis that is out of range.
    """
    return p.log_softmax(input, axis)


@op("Hardmax", since=(1, 11))
def hardmax_11(input: Tensor, *, axis: int = 1) -> Tensor:
    """Return 1 at the first maximum over the axes from `axis` to the last together, and 0 elsewhere.

    This is Hardmax before opset 13. The result has the shape and dtype of the input. Raises InvalidModelError if the
    axis is out of range.
    """
    return _apply_flattened(_hardmax, input, axis)


@op("Hardmax", since=13)
def hardmax(input: Tensor, *, axis: int = -1) -> Tensor:
    """Return 1 at the first maximum along an axis, else 0, in the dtype of the input.

    Raises InvalidModelError for an axis that is out of range.
    """
    return _hardmax(input, axis)


def _hardmax(x: Tensor, axis: int) -> Tensor:
    """Return 1 at the first maximum along an axis, else 0, in the dtype of x.

    Raises InvalidModelError for an axis that is out of range.
    """
    axis = p.axis_of(axis, x.rank)
    size = x.shape[axis]
    candidates = x
    if not is_static(size) or size == 0:  # argmax needs an element; the one that is added is the first maximum of none
        added = [int(k == axis) for k in range(x.rank)]
        candidates = p.pad(x, [0] * x.rank, added, value=float("-inf"))
    return p.cast(p.one_hot(p.argmax(candidates, axis), size, axis), x.dtype)


def _apply_flattened(function: Callable[[Tensor, int], Tensor], x: Tensor, axis: int) -> Tensor:
    """Flatten x to a matrix, apply function(matrix, 1), and restore the shape of x.

    The axes before `axis` become the rows, the other axes the columns: [2, 3, 4] with axis 1 -> [2, 12]. A negative
    axis counts from the end; an axis equal to the rank gives rows of one element. If all axes after `axis` have the
    known size 1, function(x, axis) is returned. Raises InvalidModelError if the axis is out of range.
    """
    if not -x.rank <= axis <= x.rank:
        raise InvalidModelError("the axis %d is out of range for a tensor of rank %d" % (axis, x.rank))
    axis = axis + x.rank if axis < 0 else axis
    later_sizes = x.shape[axis + 1 :]
    if axis < x.rank and all(is_static(extent) and extent == 1 for extent in later_sizes):
        return function(x, axis)
    flat = p.reshape(x, (product(x.shape[:axis]), product(x.shape[axis:])))
    return p.reshape(function(flat, 1), x.shape)

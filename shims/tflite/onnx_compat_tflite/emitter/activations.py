"""Activations with a kernel, or composed of a few operators. The pass `composed_activations` recognises them."""

from onnx_compat_tflite.emitter import division, elementary_functions, elementwise, extremes, reshaping
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["elu", "gelu", "leaky_relu", "mish", "prelu", "softplus"]

#: The polynomial of 2 atanh(x) / x in x^2 for x up to 1/3. Its error is at most 2e-7.
_ATANH_OF_A_THIRD = (0.342260643, 0.39589459, 0.66676003, 1.99999967)


@primitive
def gelu(builder: Builder, x: Handle, approximate: bool) -> Handle:
    """Emit GELU: x / 2 (1 + erf(x / sqrt 2)); with `approximate`, its approximation by tanh."""
    return builder.add_op("GELU", [x], x.dtype, x.dims, approximate=approximate)


@primitive
def elu(builder: Builder, x: Handle) -> Handle:
    """Emit ELU: x where x is positive, else e^x - 1."""
    return elementwise.unary(builder, "ELU", x)


@primitive
def leaky_relu(builder: Builder, x: Handle, alpha: float) -> Handle:
    """Emit LEAKY_RELU: x where x is positive, else alpha x."""
    return builder.add_op("LEAKY_RELU", [x], x.dtype, x.dims, alpha=alpha)


@primitive
def prelu(builder: Builder, x: Handle, slope: Handle) -> Handle:
    """Emit PRELU: x where x is positive, else x times the slope of its channel. Channels are the last axis.

    All other axes of `slope` must have length 1. The slopes are reshaped to one axis fewer than x, as some kernels
    require: [1, 1, C] for an x of [N, H, W, C].
    """
    slopes = reshaping.reshape_to(builder, slope, (1,) * (x.rank - 2) + slope.dims[-1:])
    return builder.add_op("PRELU", [x, slopes], x.dtype, x.dims)


@primitive
def softplus(builder: Builder, x: Handle) -> Handle:
    """Emit softplus: max(x, 0) + log(1 + e) with e = e^-|x|.

    log(1 + e) is computed as 2 atanh(e / (e + 2)). The argument of atanh is at most 1/3, so an odd polynomial suffices.
    A NaN passes through max(x, 0).
    """
    exponential = elementwise.unary(builder, "EXP", elementwise.neg(builder, elementwise.abs(builder, x)))
    ratio = division.div(builder, exponential, elementwise.add(builder, exponential, builder.like(x, 2)))
    square = elementwise.mul(builder, ratio, ratio)
    series = elementary_functions.polynomial(builder, square, _ATANH_OF_A_THIRD)
    logarithm = elementwise.mul(builder, ratio, series)
    return elementwise.add(builder, extremes.clip(builder, x, 0), logarithm)


@primitive
def mish(builder: Builder, x: Handle) -> Handle:
    """Emit mish: x tanh(softplus(x)).

    With XNNPACK it is computed as x q / (2 - q), with q = s (2 - s) and s = sigmoid(x). This form does not overflow or
    cancel.

    Without XNNPACK (`finite_arithmetic`), tanh and softplus are emitted, because the sigmoid has a relative error of
    5e-4 for small results.
    """
    if builder.finite_arithmetic:
        return elementwise.mul(builder, x, elementwise.tanh(builder, softplus(builder, x)))
    two = builder.like(x, 2)
    sigmoid = elementwise.logistic(builder, x)
    product = elementwise.mul(builder, sigmoid, elementwise.sub(builder, two, sigmoid))
    return elementwise.mul(builder, x, division.div(builder, product, elementwise.sub(builder, two, product)))

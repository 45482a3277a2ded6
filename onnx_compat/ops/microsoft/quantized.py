"""Quantized elementwise operators and pools that onnxruntime's quantizer writes (QOperator format).

Most of them are recorded as DequantizeLinear, float operator, QuantizeLinear. Sums and products add the zero point
before they round, as onnxruntime does. The order decides how a half is rounded.
"""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType, float32, int32
from onnx_compat.ops import activation
from onnx_compat.ops.arguments import normalize_axes, product
from onnx_compat.ops.microsoft.common import DOMAIN, channels_first, channels_last
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.pooling import average_pool
from onnx_compat.ops.quantization import (
    as_scalar,
    dequantize_linear,
    prefers_float_form,
    quantize_linear,
    round_to_integers,
)
from onnx_compat.ops.registry import REQUIRED, op
from onnx_compat.tracing.values import Tensor, lift

Ints = Optional[Sequence[int]]
Zero = Optional[Tensor]

_UNSEEN = ["block_size", "output_dtype", "precision", "saturate"]
op("QuantizeLinear", since=1, domain=DOMAIN)(older_version(quantize_linear, without=_UNSEEN))
op("DequantizeLinear", since=1, domain=DOMAIN)(older_version(dequantize_linear, without=_UNSEEN))


#: Quantized numbers, their scale and their zero point.
Quantized = Tuple[Tensor, Tensor, Zero]


def _apply_dequantized(function: Callable[..., Tensor], *operands: Quantized, scale: Tensor, zero: Zero) -> Tensor:
    """Dequantize the operands, apply a function of floats, and return the result quantized by `scale` and `zero`.

    An operand is (numbers, scale, zero point). The result has the dtype of `zero`; for None, the zero point is 0 and
    the dtype that of the first operand.
    """
    y = function(*[dequantize_linear(*operand) for operand in operands])
    return quantize_linear(y, scale, lift(0, operands[0][0].dtype) if zero is None else zero)


def _requantize(operand: Quantized, scale: Tensor, zero: Zero) -> Tensor:
    """Return an operand quantized again by another scale and zero point, in the dtype of the zero point.

    The zero point None is 0, in the dtype of the operand.
    """
    return _apply_dequantized(lambda x: x, operand, scale=scale, zero=zero)


def _zero_point_number(zero: Zero) -> Any:
    """Return a zero point as a float32 tensor of rank 0; a constant 0 for None.

    Raises InvalidModelError if the zero point has not exactly one element.
    """
    return lift(0, float32) if zero is None else p.cast(as_scalar(zero), float32)


@op("QLinearAdd", since=1, domain=DOMAIN)
def qlinear_add(
    A: Tensor,
    A_scale: Tensor,
    A_zero_point: Zero = None,
    B: Tensor = REQUIRED,
    B_scale: Tensor = REQUIRED,
    B_zero_point: Zero = None,
    C_scale: Tensor = REQUIRED,
    C_zero_point: Zero = None,
) -> Tensor:
    """Return the sum of quantized tensors, quantized by C_scale and C_zero_point. An absent zero point is 0.

    If the shim has integer kernels and all scales and zero points are known, record DequantizeLinear, Add,
    QuantizeLinear. Otherwise compute the sum in float32 and round once. The second form raises InvalidModelError
    unless scales and zero points have one element.
    """
    left, right = (A, A_scale, A_zero_point), (B, B_scale, B_zero_point)
    if prefers_float_form(*left[1:], *right[1:], C_scale, C_zero_point):
        return _apply_dequantized(p.add, left, right, scale=C_scale, zero=C_zero_point)
    ratio_a, ratio_b = (p.div(as_scalar(scale), as_scalar(C_scale)) for scale in (A_scale, B_scale))
    zero_point_terms = p.add(
        p.mul(ratio_a, _zero_point_number(A_zero_point)), p.mul(ratio_b, _zero_point_number(B_zero_point))
    )
    offset = p.add(p.mul(p.cast(B, float32), ratio_b), p.sub(_zero_point_number(C_zero_point), zero_point_terms))
    return round_to_integers(p.add(p.mul(p.cast(A, float32), ratio_a), offset), None, A.dtype)


@op("QLinearMul", since=1, domain=DOMAIN)
def qlinear_mul(
    A: Tensor,
    A_scale: Tensor,
    A_zero_point: Zero = None,
    B: Tensor = REQUIRED,
    B_scale: Tensor = REQUIRED,
    B_zero_point: Zero = None,
    C_scale: Tensor = REQUIRED,
    C_zero_point: Zero = None,
) -> Tensor:
    """Return the product of quantized tensors, quantized by C_scale and C_zero_point. An absent zero point is 0.

    If the shim has integer kernels and all scales and zero points are known, record DequantizeLinear, Mul,
    QuantizeLinear. Otherwise compute the product in float32 and round once. The second form raises InvalidModelError
    unless scales and zero points have one element.
    """
    left, right = (A, A_scale, A_zero_point), (B, B_scale, B_zero_point)
    if prefers_float_form(*left[1:], *right[1:], C_scale, C_zero_point):
        return _apply_dequantized(p.mul, left, right, scale=C_scale, zero=C_zero_point)
    ratio = p.div(p.mul(as_scalar(A_scale), as_scalar(B_scale)), as_scalar(C_scale))
    a, b = (p.sub(p.cast(x, float32), _zero_point_number(zero)) for x, zero in ((A, A_zero_point), (B, B_zero_point)))
    return round_to_integers(p.add(p.mul(p.mul(a, b), ratio), _zero_point_number(C_zero_point)), None, A.dtype)


@op("QLinearSigmoid", since=1, domain=DOMAIN)
def qlinear_sigmoid(
    X: Tensor, X_scale: Tensor, X_zero_point: Zero = None, Y_scale: Tensor = REQUIRED, Y_zero_point: Zero = None
) -> Tensor:
    """Return the sigmoid of a quantized tensor, quantized by Y_scale and Y_zero_point. An absent zero point is 0."""
    return _apply_dequantized(p.sigmoid, (X, X_scale, X_zero_point), scale=Y_scale, zero=Y_zero_point)


@op("QLinearLeakyRelu", since=1, domain=DOMAIN)
def qlinear_leaky_relu(
    X: Tensor,
    X_scale: Tensor,
    X_zero_point: Zero = None,
    Y_scale: Tensor = REQUIRED,
    Y_zero_point: Zero = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    """Return the LeakyRelu of a quantized tensor, quantized by Y_scale and Y_zero_point. An absent zero point is 0.

    `alpha` is the slope of negative numbers.
    """

    def leaky(x: Tensor) -> Tensor:
        return activation.leaky_relu(x, alpha=alpha)

    return _apply_dequantized(leaky, (X, X_scale, X_zero_point), scale=Y_scale, zero=Y_zero_point)


@op("QLinearSoftmax", since=1, domain=DOMAIN)
def qlinear_softmax(
    X: Tensor,
    X_scale: Tensor,
    x_zero_point: Zero = None,
    y_scale: Tensor = REQUIRED,
    y_zero_point: Tensor = REQUIRED,
    *,
    axis: int = -1,
    opset: int,
) -> Tensor:
    """Return the softmax of a quantized tensor, quantized by y_scale and y_zero_point. An absent x_zero_point is 0.

    If `opset` is 13 or more, the softmax is over `axis`. Otherwise it is over all axes from `axis` on together. There
    are two forms:

    - The shim has integer kernels, all scales and zero points are known, and 1 / y_scale is within 1e-4 of an
      integer: DequantizeLinear, Softmax, QuantizeLinear are recorded.
    - Otherwise: the softmax is multiplied by 1 / y_scale rounded down to an integer, as in onnxruntime. y_scale must
      have one element.

    Raises InvalidModelError for an axis that is out of range, and for a y_scale of several elements in the second form.
    """
    x = dequantize_linear(X, X_scale, x_zero_point)
    shares = activation.softmax(x, axis=axis) if opset >= 13 else activation.softmax_11(x, axis=axis)
    if prefers_float_form(X_scale, x_zero_point, y_scale, y_zero_point) and _has_whole_steps(y_scale):
        return quantize_linear(shares, y_scale, y_zero_point)
    steps = p.floor(p.div(1.0, y_scale))
    return quantize_linear(p.mul(shares, as_scalar(steps)), lift(1.0, float32), y_zero_point)


def _has_whole_steps(scale: Tensor) -> bool:
    """Return whether 1 / s is an integer, up to 1e-4, for each element s of `scale`, which must be known."""
    steps = 1 / scale.value.astype("float64")  # type: ignore[union-attr]  # callers pass known scales
    return bool((abs(steps - steps.round()) < 1e-4).all())


@op("QLinearConcat", since=1, domain=DOMAIN)
def qlinear_concat(Y_scale: Tensor, Y_zero_point: Tensor, *inputs: Tensor, axis: int) -> Tensor:
    """Concatenate quantized tensors along an axis. The result is quantized by Y_scale and Y_zero_point.

    `inputs` are triples: a tensor, its scale, its zero point. A negative axis counts from the end. Raises
    InvalidModelError for an axis that is out of range, and for tensors of different ranks or of different static sizes
    on another axis.
    """
    triples = list(zip(inputs[0::3], inputs[1::3], inputs[2::3]))
    if prefers_float_form(Y_scale, Y_zero_point, *inputs[1::3], *inputs[2::3]):
        numbers = [dequantize_linear(*triple) for triple in triples]
        return quantize_linear(p.concat(numbers, p.axis_of(axis, numbers[0].rank)), Y_scale, Y_zero_point)
    parts = [_requantize(operand, Y_scale, Y_zero_point) for operand in triples]
    return p.concat(parts, p.axis_of(axis, parts[0].rank))


@op("QLinearWhere", since=1, domain=DOMAIN)
def qlinear_where(
    condition: Tensor,
    X: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    Y: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    z_scale: Tensor,
    z_zero_point: Tensor,
) -> Tensor:
    """Return X where the condition holds, else Y, both quantized again by z_scale and z_zero_point."""
    operands = (X, x_scale, x_zero_point), (Y, y_scale, y_zero_point)
    return p.where(condition, *[_requantize(operand, z_scale, z_zero_point) for operand in operands])


@op("QLinearAveragePool", since=1, domain=DOMAIN)
def qlinear_average_pool(
    X: Tensor,
    x_scale: Tensor,
    x_zero_point: Zero = None,
    y_scale: Tensor = REQUIRED,
    y_zero_point: Zero = None,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    kernel_shape: Sequence[int],
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the mean of each window of a quantized image, quantized by y_scale and y_zero_point.

    X and the result have the channels first, or last if `channels_last` is nonzero. Padding counts in the mean only if
    `count_include_pad` is nonzero. An absent zero point is 0.
    """
    how: Dict[str, Any] = {"auto_pad": auto_pad, "ceil_mode": ceil_mode, "count_include_pad": count_include_pad}

    def pool(x: Tensor) -> Tensor:
        return average_pool(x, kernel_shape=kernel_shape, pads=pads, strides=strides, **how)

    function = _adapt_layout(pool, channels_last)
    return _apply_dequantized(function, (X, x_scale, x_zero_point), scale=y_scale, zero=y_zero_point)


def _adapt_layout(function: Callable[[Tensor], Tensor], last: int) -> Callable[[Tensor], Tensor]:
    """Return a function that applies `function` to channels-last images. `function` maps channels-first images.

    The returned function takes and returns channels-last images. Return `function` itself if not `last`.
    """
    return (lambda x: channels_last(function(channels_first(x)))) if last else function


@op("QLinearGlobalAveragePool", since=1, domain=DOMAIN)
def qlinear_global_average_pool(
    X: Tensor, x_scale: Tensor, x_zero_point: Tensor, y_scale: Tensor, y_zero_point: Tensor, *, channels_last: int = 0
) -> Tensor:
    """Return the mean of a quantized image over the spatial axes, quantized by y_scale and y_zero_point.

    X and the result have the channels first, or last if `channels_last` is nonzero. The spatial axes keep size 1. If
    the shim has integer kernels and all scales and zero points are known, the mean is computed from dequantized
    floats. Otherwise the integers are summed exactly, and the sum is multiplied by one factor. This form raises
    InvalidModelError unless scales and x_zero_point have one element.
    """
    axes: List[int] = list(range(1, X.rank - 1) if channels_last else range(2, X.rank))
    if prefers_float_form(x_scale, x_zero_point, y_scale, y_zero_point):
        mean = p.reduce_mean(dequantize_linear(X, x_scale, x_zero_point), axes, keepdims=True)
        return quantize_linear(mean, y_scale, y_zero_point)
    distance = p.sub(p.cast(X, int32), p.cast(as_scalar(x_zero_point), int32))
    total = p.cast(p.reduce_sum(distance, axes, keepdims=True), float32)
    count = p.cast(lift(product([X.shape[axis] for axis in axes]), DType.of("int64")), float32)
    factor = p.div(as_scalar(x_scale), p.mul(as_scalar(y_scale), count))
    return quantize_linear(p.mul(total, factor), lift(1.0, float32), y_zero_point)


@op("QLinearReduceMean", since=1, domain=DOMAIN)
def qlinear_reduce_mean(
    data: Tensor,
    data_scale: Tensor,
    data_zero_point: Zero = None,
    reduced_scale: Tensor = REQUIRED,
    reduced_zero_point: Zero = None,
    *,
    axes: Sequence[int],
    keepdims: int,
) -> Tensor:
    """Return the mean of a quantized tensor over `axes`, quantized by reduced_scale and reduced_zero_point.

    Empty `axes` are all axes. Reduced axes keep size 1 if `keepdims`. An absent zero point is 0. Raises
    InvalidModelError for an axis that is out of range.
    """

    def mean(x: Tensor) -> Tensor:
        return p.reduce_mean(x, normalize_axes(axes or range(x.rank), x.rank), keepdims=bool(keepdims))

    return _apply_dequantized(mean, (data, data_scale, data_zero_point), scale=reduced_scale, zero=reduced_zero_point)

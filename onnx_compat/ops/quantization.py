"""Quantization and dequantization per tensor, per axis or per block, and MatMul and Conv of quantized numbers."""

from typing import Any, Callable, Dict, Optional, Sequence, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.ir.dims import is_equal, is_static
from onnx_compat.ir.dtypes import DType, float32, float64, int32, uint8
from onnx_compat.ops.arguments import align_to_axis, product
from onnx_compat.ops.casting import convert
from onnx_compat.ops.convolution import conv
from onnx_compat.ops.linear import matmul
from onnx_compat.ops.older_versions import older_version
from onnx_compat.ops.registry import op
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import Tensor, known_array

Ints = Optional[Sequence[int]]


def _align_parameter(parameter: Tensor, x: Tensor, axis: int, block_size: int = 0) -> Any:
    """Reshape a scale or a zero point so that it broadcasts to x.

    A scalar stays a scalar. The other forms without blocks (`block_size` 0):

    - A vector of one element becomes a scalar.
    - Any other vector: its elements lie along `axis`. Raises InvalidModelError if x has no axis `axis`.

    With `block_size` > 0, the parameter has the rank of x. Each entry is repeated block_size times along `axis`, up to
    the size of x: [2, 3] -> [2, 2, 3, 3] for block_size 2.
    """
    is_single = parameter.rank == 1 and not block_size and (is_equal(parameter.shape[0], 1) or axis >= x.rank)
    if parameter.rank == 0 or is_single:
        return p.reshape(parameter, ())
    axis = p.axis_of(axis, x.rank)
    if not block_size:
        return align_to_axis(parameter, axis, x.rank)
    blocks = p.unsqueeze(parameter, [axis + 1])
    repeated = p.tile(blocks, [block_size if k == axis + 1 else 1 for k in range(blocks.rank)])
    shape = parameter.shape
    joined = p.reshape(repeated, (*shape[:axis], shape[axis] * block_size, *shape[axis + 1 :]))
    return p.slice_axis(joined, axis, 0, x.shape[axis])


def round_to_integers(x: Any, zero_point: Any, dtype: DType) -> Tensor:
    """Round x to integers (halves to even), add the zero point, clip to the range of an integer dtype, and cast.

    The zero point is added in float32, which holds all integers of up to 16 bits. A zero point None is 0.
    """
    nearest = p.cast(p.round(x), float32)
    shifted = nearest if zero_point is None else p.add(nearest, p.cast(zero_point, float32))
    return p.cast(p.clip(shifted, dtype.min, dtype.max), dtype)


@op("QuantizeLinear", since=(23, 24, 25, 28))
def quantize_linear(
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Optional[Tensor] = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """Return round(x / scale) + zero point, clipped to the range of the quantized dtype.

    The quantized dtype is the dtype of y_zero_point. Without a zero point, it is `output_dtype`, by default uint8. For
    a float dtype, the quotient is not rounded to integers.

    - y_scale: a scalar, a vector along `axis`, or an entry for each block of `block_size` elements along `axis`.
      Without blocks, a vector of one element counts as a scalar.
    - y_zero_point: of the shape of y_scale. Ignored for floats of 8 bits and more.
    - precision: the dtype of the division. 0 is the dtype of the scale if x and the scale are floats and the scale
      has more than 8 bits, else float32.
    - saturate: nonzero clips an 8-bit float; 0 turns numbers out of range into NaN or infinity.

    Raises InvalidModelError if y_scale or y_zero_point is a longer vector, and x has no axis `axis`.
    """
    dtype = y_zero_point.dtype if y_zero_point is not None else DType.of(output_dtype) if output_dtype else uint8
    both_float = x.dtype.kind == y_scale.dtype.kind == "f" and y_scale.dtype.bits > 8
    compute_type = DType.of(precision) if precision else y_scale.dtype if both_float else float32
    scaled = p.div(p.cast(x, compute_type), p.cast(_align_parameter(y_scale, x, axis, block_size), compute_type))
    zero = None if y_zero_point is None else _align_parameter(y_zero_point, x, axis, block_size)
    if dtype.kind != "f":
        return round_to_integers(scaled, zero, dtype)
    if zero is not None and dtype.bits < 8:  # the zero point of a float8 is 0
        scaled = p.add(scaled, p.cast(zero, compute_type))
    return convert(scaled, dtype, bool(saturate))


op("QuantizeLinear", since=21)(older_version(quantize_linear, without=["precision"]))
op("QuantizeLinear", since=19)(older_version(quantize_linear, without=["precision", "block_size", "output_dtype"]))
op("QuantizeLinear", since=13)(
    older_version(quantize_linear, without=["precision", "block_size", "output_dtype", "saturate"])
)


@op("QuantizeLinear", since=10)
def quantize_linear_10(x: Tensor, y_scale: Tensor, y_zero_point: Optional[Tensor] = None) -> Tensor:
    """Return round(x / scale) + zero point, clipped to the range of the dtype of y_zero_point, by default uint8.

    The scale and the zero point hold for the whole tensor: QuantizeLinear of opset 10. Raises InvalidModelError unless
    the scale and the zero point have one element.
    """
    return quantize_linear(x, as_scalar(y_scale), None if y_zero_point is None else as_scalar(y_zero_point))


@op("DequantizeLinear", since=(23, 24, 25, 28))
def dequantize_linear(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Optional[Tensor] = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """Return (x - zero point) * scale. The product is computed in float32, then cast to the dtype of the result.

    The result has the dtype `output_dtype`; 0 is the dtype of the scale. An absent zero point is 0. The scale is a
    scalar, a vector along `axis`, or has an entry for each block of `block_size` elements along `axis`. The zero point
    has the shape of the scale.

    Raises InvalidModelError if x has no axis `axis` for a vector x_scale.
    """
    scale = p.cast(_align_parameter(x_scale, x, axis, block_size), float32)
    numbers = p.cast(x, int32 if x.dtype.kind in "iu" and x_zero_point is not None else float32)
    if x_zero_point is not None:
        numbers = p.sub(numbers, p.cast(_align_parameter(x_zero_point, x, axis, block_size), numbers.dtype))
    scaled = p.mul(p.cast(numbers, float32), scale)
    return p.cast(scaled, DType.of(output_dtype) if output_dtype else x_scale.dtype)


op("DequantizeLinear", since=21)(older_version(dequantize_linear, without=["output_dtype"]))
op("DequantizeLinear", since=(13, 19))(older_version(dequantize_linear, without=["output_dtype", "block_size"]))


@op("DequantizeLinear", since=10)
def dequantize_linear_10(x: Tensor, x_scale: Tensor, x_zero_point: Optional[Tensor] = None) -> Tensor:
    """Return (x - zero point) * scale, in the dtype of the scale: DequantizeLinear of opset 10.

    The scale and the zero point, by default 0, hold for the whole tensor. Raises InvalidModelError unless both have
    one element.
    """
    return dequantize_linear(x, as_scalar(x_scale), None if x_zero_point is None else as_scalar(x_zero_point))


def as_scalar(values: Tensor) -> Tensor:
    """Return a scale or a zero point of shape [] or [1] as a scalar.

    Raises InvalidModelError if the tensor does not have exactly one element.
    """
    return p.reshape(values, [])


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Quantize x to uint8. Return (result, scale, zero point).

    The range is from the least to the greatest element of x, extended to include 0. If all elements are 0, the scale,
    the result and the zero point are 0.
    """
    low: Any = p.minimum(p.reduce_min(x), 0)
    high: Any = p.maximum(p.reduce_max(x), 0)
    scale = p.div(p.sub(high, low), 255)
    safe = p.where(p.equal(scale, 0), 1, scale)
    zero = p.cast(p.clip(p.round(p.div(p.neg(low), safe)), 0, 255), uint8)
    return round_to_integers(p.div(x, safe), zero, uint8), scale, zero


def prefers_float_form(*parameters: Optional[Tensor]) -> bool:
    """Return whether to record a quantized operator as DequantizeLinear, float operator, QuantizeLinear.

    True if the shim has integer kernels for that sequence, and all parameters are known. The parameters are scales,
    zero points, weights and a bias; None counts as known.
    """
    return current_trace().integers and all(parameter is None or parameter.known for parameter in parameters)


def _subtract_zero_point(x: Any, zero_point: Any, axis: int = 0) -> Any:
    """Return x minus its zero point, as an int32 tensor.

    The zero point is a scalar, or a vector along `axis`. A zero point of a higher rank broadcasts as it is. None counts
    as 0.
    """
    integers = p.cast(x, int32)
    if zero_point is None:
        return integers
    shaped = zero_point if zero_point.rank > 1 else _align_parameter(zero_point, x, axis)
    return p.sub(integers, p.cast(shaped, int32))


@op("MatMulInteger", since=10)
def matmul_integer(
    A: Tensor, B: Tensor, a_zero_point: Optional[Tensor] = None, b_zero_point: Optional[Tensor] = None
) -> Tensor:
    """Return the matrix product of A and B minus their zero points, in int32.

    a_zero_point is a scalar or has an entry for each row of A, b_zero_point a scalar or an entry for each column of B.
    An absent zero point is 0. If possible, the product is computed in float32 without loss, because few runtimes have
    integer matrix products.
    """
    rows, columns = (
        _subtract_zero_point(A, a_zero_point, -2 if A.rank > 1 else -1),
        _subtract_zero_point(B, b_zero_point, -1),
    )
    digits = _exact_digits(columns, [max(B.rank - 2, 0)])
    if not digits:
        return matmul(rows, columns)
    data = p.cast(rows, float32)
    return _multiply_by_digits(columns, digits, lambda part: p.cast(matmul(data, p.cast(part, float32)), int32))


@op("QLinearMatMul", since=(10, 21))
def qlinear_matmul(
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """Return the matrix product of quantized matrices, quantized again by y_scale and y_zero_point.

    a_scale is a scalar or has an entry for each row, b_scale a scalar or an entry for each column. The result has the
    dtype of y_zero_point.
    """
    if (
        prefers_float_form(a_scale, a_zero_point, b_scale, b_zero_point, y_scale, y_zero_point)
        and product(a_scale.shape) == 1
    ):
        numbers = dequantize_linear(a, a_scale, a_zero_point), dequantize_linear(b, b_scale, b_zero_point, axis=-1)
        return quantize_linear(matmul(*numbers), y_scale, y_zero_point)
    total = matmul_integer(a, b, a_zero_point, b_zero_point)
    scales = [p.cast(scale, float32) for scale in (_row_scale(a_scale, a), b_scale, y_scale)]
    factor = p.div(p.mul(scales[0], scales[1]), scales[2])
    return round_to_integers(p.mul(p.cast(total, float32), factor), y_zero_point, y_zero_point.dtype)


def _row_scale(scale: Tensor, x: Tensor) -> Any:
    """Reshape a vector with a scale for each row to a column [rows, 1].

    Return a scalar, a vector of one element, and a scale of a higher rank unchanged. `x` has no effect.
    """
    return p.unsqueeze(scale, [1]) if scale.rank == 1 and not is_equal(scale.shape[0], 1) else scale


@op("ConvInteger", since=10)
def conv_integer(
    x: Tensor,
    w: Tensor,
    x_zero_point: Optional[Tensor] = None,
    w_zero_point: Optional[Tensor] = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the convolution of x and w minus their zero points, in int32. An absent zero point is 0.

    x has a single zero point. w has a single zero point, or a zero point for each filter. The convolution is computed
    in float32 where that is exact, if need be as a sum over groups of binary digits of w. Otherwise it is computed in
    float64. Raises InvalidModelError for attributes and shapes that do not fit each other.
    """
    window: Dict[str, Any] = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape, "pads": pads}
    data, weights = _subtract_zero_point(x, x_zero_point), _subtract_zero_point(w, w_zero_point, 0)
    digits = _exact_digits(weights, range(1, w.rank))
    compute_type = float32 if digits else float64

    def convolve_part(part: Tensor) -> Tensor:
        sums = conv(p.cast(data, compute_type), p.cast(part, compute_type), group=group, strides=strides, **window)
        return p.cast(p.round(sums), int32)

    return _multiply_by_digits(weights, digits or 8, convolve_part)


def _multiply_by_digits(weights: Tensor, digits: int, multiply: Callable[[Tensor], Tensor]) -> Tensor:
    """Return multiply(weights) as a sum over groups of `digits` binary digits of the weights.

    The weights are from -255 to 255, and `multiply` must be linear. A group adds multiply(group) * 2 ** position, where
    the position is that of the group's lowest digit. With 8 digits, there is a single product.
    """
    if digits == 8:
        return multiply(weights)
    total: Optional[Tensor] = None
    remaining = weights
    for position in range(0, 8, digits):
        upper = p.floordiv(remaining, 1 << digits)
        part = remaining if position + digits >= 8 else p.sub(remaining, p.mul(upper, 1 << digits))
        scaled = p.mul(multiply(part), 1 << position)
        total, remaining = scaled if total is None else p.add(total, scaled), upper
    assert total is not None
    return total


def _exact_digits(weights: Tensor, axes: Sequence[int]) -> int:
    """Return how many binary digits of the weights a float32 product with bytes may take at once and stay exact.

    The result is 8, 4, 3, 2 or 1; 0 if none is exact, or if the number of summands is symbolic. `axes`: the axes of the
    weights over which the product sums. A sum must stay below 2^24. Known weights that are small enough give 8 in any
    case.
    """
    if weights.known and np.abs(known_array(weights, "the weights")).sum(tuple(axes)).max(initial=0) * 255 < 2**24:
        return 8
    count = product([weights.shape[axis] for axis in axes])
    if not is_static(count):
        return 0
    return next((digits for digits in (8, 4, 3, 2, 1) if int(count) * 255 * 2**digits < 2**24), 0)


@op("QLinearConv", since=10)
def qlinear_conv(
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    B: Optional[Tensor] = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return the convolution of a quantized image with quantized filters, quantized by y_scale and y_zero_point.

    The bias B is int32 with the scale x_scale * w_scale; an absent bias is 0. w_scale is a scalar, or has an entry for
    each filter. Raises InvalidModelError for attributes and shapes that do not fit each other.
    """
    window: Dict[str, Any] = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape, "pads": pads}
    if prefers_float_form(x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B):
        bias = None if B is None else dequantize_linear(B, p.mul(x_scale, w_scale), axis=0)
        weights = dequantize_linear(w, w_scale, w_zero_point, axis=0)
        y = conv(dequantize_linear(x, x_scale, x_zero_point), weights, bias, group=group, strides=strides, **window)
        return quantize_linear(y, y_scale, y_zero_point)
    total = conv_integer(x, w, x_zero_point, w_zero_point, group=group, strides=strides, **window)
    if B is not None:
        total = p.add(total, align_to_axis(B, 1, x.rank))
    factor = _align_parameter(p.div(p.mul(x_scale, w_scale), y_scale), x, 1)
    return round_to_integers(p.mul(p.cast(total, factor.dtype), factor), y_zero_point, y_zero_point.dtype)

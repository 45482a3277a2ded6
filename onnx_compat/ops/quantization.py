"""From numbers to their quantized form and back: per tensor, per axis, per block."""

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


def _align_parameter(parameter: Any, x: Tensor, axis: int, block_size: int = 0) -> Any:
    """A scale or a zero point shaped to meet x: a scalar, a vector along the axis, or one entry for each block."""
    single = parameter.rank == 1 and not block_size and (is_equal(parameter.shape[0], 1) or axis >= x.rank)
    if parameter.rank == 0 or single:
        return p.reshape(parameter, ())
    axis = p.axis_of(axis, x.rank)
    if not block_size:
        return align_to_axis(parameter, axis, x.rank)
    wide = p.unsqueeze(parameter, [axis + 1])
    repeated = p.tile(wide, [block_size if k == axis + 1 else 1 for k in range(wide.rank)])
    shape = parameter.shape
    joined = p.reshape(repeated, (*shape[:axis], shape[axis] * block_size, *shape[axis + 1 :]))
    return p.slice_axis(joined, axis, 0, x.shape[axis])


def round_to_integers(x: Any, zero_point: Any, dtype: DType) -> Tensor:
    """x to the nearest number of an integer dtype, beyond its ends to the ends. In float32, which holds all of these."""
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
    dtype = y_zero_point.dtype if y_zero_point is not None else DType.of(output_dtype) if output_dtype else uint8
    precise = x.dtype.kind == y_scale.dtype.kind == "f" and y_scale.dtype.bits > 8
    inside = DType.of(precision) if precision else y_scale.dtype if precise else float32
    scaled = p.div(p.cast(x, inside), p.cast(_align_parameter(y_scale, x, axis, block_size), inside))
    zero = None if y_zero_point is None else _align_parameter(y_zero_point, x, axis, block_size)
    if dtype.kind != "f":
        return round_to_integers(scaled, zero, dtype)
    if zero is not None and dtype.bits < 8:  # the one of a float8 is zero
        scaled = p.add(scaled, p.cast(zero, inside))
    return convert(scaled, dtype, bool(saturate))


op("QuantizeLinear", since=21)(older_version(quantize_linear, without=["precision"]))
op("QuantizeLinear", since=19)(older_version(quantize_linear, without=["precision", "block_size", "output_dtype"]))
op("QuantizeLinear", since=13)(
    older_version(quantize_linear, without=["precision", "block_size", "output_dtype", "saturate"])
)


@op("QuantizeLinear", since=10)
def quantize_linear_10(x: Tensor, y_scale: Tensor, y_zero_point: Optional[Tensor] = None) -> Tensor:
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
    """In float32, and rounded once."""
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
    return dequantize_linear(x, as_scalar(x_scale), None if x_zero_point is None else as_scalar(x_zero_point))


def as_scalar(values: Tensor) -> Tensor:
    """The one scale or zero point of a whole tensor, which may be written as a list of one."""
    return p.reshape(values, [])


@op("DynamicQuantizeLinear", since=11)
def dynamic_quantize_linear(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """To uint8, by a range that holds all elements and zero."""
    low: Any = p.minimum(p.reduce_min(x), 0)
    high: Any = p.maximum(p.reduce_max(x), 0)
    scale = p.div(p.sub(high, low), 255)
    safe = p.where(p.equal(scale, 0), 1, scale)
    zero = p.cast(p.clip(p.round(p.div(p.neg(low), safe)), 0, 255), uint8)
    return round_to_integers(p.div(x, safe), zero, uint8), scale, zero


def prefers_float_form(*parameters: Optional[Tensor]) -> bool:
    """Whether an operator on quantized numbers is better recorded as what it stands for, the operator on real numbers between
    a DequantizeLinear and a QuantizeLinear: where a shim has kernels for that, and knows all parameters.
    """
    return current_trace().integers and all(one is None or one.known for one in parameters)


def _subtract_zero_point(x: Any, zero_point: Any, axis: int = 0) -> Any:
    """The distance from the zero point, in int32; one zero point for all, or one along an axis."""
    wide = p.cast(x, int32)
    if zero_point is None:
        return wide
    shaped = zero_point if zero_point.rank > 1 else _align_parameter(zero_point, x, axis)
    return p.sub(wide, p.cast(shaped, int32))


@op("MatMulInteger", since=10)
def matmul_integer(
    A: Tensor, B: Tensor, a_zero_point: Optional[Tensor] = None, b_zero_point: Optional[Tensor] = None
) -> Tensor:
    """The zero points are one for all, or one for each row of A and each column of B. In float32 where it holds every sum:
    few runtimes multiply matrices of integers, and none of them fast.
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


def _row_scale(scale: Any, x: Tensor) -> Any:
    """A scale for each row as a column."""
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
    """In float32, with as many digits of the weights at once as it holds every sum of products of; else in float64."""
    window: Dict[str, Any] = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape, "pads": pads}
    data, weights = _subtract_zero_point(x, x_zero_point), _subtract_zero_point(w, w_zero_point, 0)
    digits = _exact_digits(weights, range(1, w.rank))
    inside = float32 if digits else float64

    def summed(part: Tensor) -> Tensor:
        sums = conv(p.cast(data, inside), p.cast(part, inside), group=group, strides=strides, **window)
        return p.cast(p.round(sums), int32)

    return _multiply_by_digits(weights, digits or 8, summed)


def _multiply_by_digits(weights: Tensor, digits: int, summed: Callable[[Tensor], Tensor]) -> Tensor:
    """The sums of products with all eight digits, from those with some."""
    if digits == 8:
        return summed(weights)
    total: Optional[Tensor] = None
    rest = weights
    for place in range(0, 8, digits):
        high = p.floordiv(rest, 1 << digits)
        part = rest if place + digits >= 8 else p.sub(rest, p.mul(high, 1 << digits))
        scaled = p.mul(summed(part), 1 << place)
        total, rest = scaled if total is None else p.add(total, scaled), high
    assert total is not None
    return total


def _exact_digits(weights: Tensor, axes: Sequence[int]) -> int:
    """How many binary digits of the weights, if their products with bytes are to be summed over these axes in float32; 0 if
    none. Known ones may be small.
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

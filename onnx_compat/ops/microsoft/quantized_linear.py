"""Matrix products, convolutions and LSTM of com.microsoft on quantized numbers.

Some of them quantize their input first (dynamic quantization).
"""

from typing import Any, Dict, List, Optional, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType
from onnx_compat.ops.arguments import take_slice
from onnx_compat.ops.microsoft.common import DOMAIN, channels_first
from onnx_compat.ops.microsoft.common import channels_last as to_channels_last
from onnx_compat.ops.quantization import (
    dequantize_linear,
    dynamic_quantize_linear,
    matmul_integer,
    prefers_float_form,
    qlinear_conv,
    quantize_linear,
)
from onnx_compat.ops.recurrent import lstm_activations, run_lstm
from onnx_compat.ops.recurrent_network import Product
from onnx_compat.ops.registry import REQUIRED, op
from onnx_compat.tracing.values import Tensor, lift

Ints = Optional[Sequence[int]]


@op("QLinearConv", since=1, domain=DOMAIN)
def qlinear_conv_in_either_layout(
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
    channels_last: int = 0,
    dilations: Ints = None,
    group: int = 1,
    kernel_shape: Ints = None,
    pads: Ints = None,
    strides: Ints = None,
) -> Tensor:
    """Return QLinearConv of images. x and the result have the channels first, or last if `channels_last`.

    The filters w have the channels first in both cases. An absent bias B is 0. Raises InvalidModelError for attributes
    and shapes that do not fit each other.
    """
    window: Dict[str, Any] = {"auto_pad": auto_pad, "dilations": dilations, "kernel_shape": kernel_shape, "pads": pads}
    image = channels_first(x) if channels_last else x
    parameters = [x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B]
    y = qlinear_conv(image, *parameters, group=group, strides=strides, **window)  # type: ignore[arg-type]  # the last of these, the bias, may be None
    return to_channels_last(y) if channels_last else y


@op("MatMulIntegerToFloat", since=1, domain=DOMAIN)
def matmul_integer_to_float(
    A: Tensor,
    B: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero_point: Optional[Tensor] = None,
    b_zero_point: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
) -> Tensor:
    """Return the matrix product of integers minus their zero points, times both scales, plus a bias.

    An absent zero point or bias is 0. a_scale has one element; b_scale one, or one for each column. The result has the
    dtype of a_scale.
    """
    total = matmul_integer(A, B, a_zero_point, b_zero_point)
    y = p.mul(p.cast(total, a_scale.dtype), p.mul(p.reshape(a_scale, ()), b_scale))
    return y if bias is None else p.add(y, bias)


@op("DynamicQuantizeMatMul", since=1, domain=DOMAIN)
def dynamic_quantize_matmul(
    A: Tensor, B: Tensor, b_scale: Tensor, b_zero_point: Optional[Tensor] = None, bias: Optional[Tensor] = None
) -> Tensor:
    """Return the float matrix product of A, quantized to uint8 first, with the quantized weights B, plus a bias.

    The quantized range is from min(A, 0) to max(A, 0), over all elements of A. `b_scale` has one element, or one for
    each column. An absent zero point or bias is 0.
    """
    a, a_scale, a_zero_point = dynamic_quantize_linear(A)
    return matmul_integer_to_float(a, B, a_scale, b_scale, a_zero_point, b_zero_point, bias)


@op("QGemm", since=1, domain=DOMAIN)
def qgemm(
    A: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    B: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    C: Optional[Tensor] = None,
    y_scale: Optional[Tensor] = None,
    y_zero_point: Optional[Tensor] = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """Return Gemm of quantized matrices: alpha * (A' @ B' + C).

    A' is A, transposed if transA is nonzero. B' is B, transposed if transB is nonzero. C is int32 with the scale
    a_scale * b_scale; an absent C is 0. The result is quantized if both y_scale and y_zero_point are given. Otherwise
    it is a float tensor.
    """
    left, right = (p.transpose(x, (1, 0)) if is_transposed else x for x, is_transposed in ((A, transA), (B, transB)))
    parameters = [a_scale, a_zero_point, b_scale, b_zero_point, C]
    if y_scale is not None and y_zero_point is not None and prefers_float_form(*parameters, y_scale, y_zero_point):
        numbers = (
            dequantize_linear(left, a_scale, a_zero_point),
            dequantize_linear(right, b_scale, b_zero_point, axis=1),
        )
        y = p.mul(p.matmul(*numbers), lift(alpha, a_scale.dtype)) if alpha != 1 else p.matmul(*numbers)
        steps = p.mul(p.mul(p.reshape(a_scale, ()), b_scale), lift(alpha, a_scale.dtype))
        y = y if C is None else p.add(y, p.mul(p.cast(C, a_scale.dtype), steps))
        return quantize_linear(y, y_scale, y_zero_point)
    total = matmul_integer(left, right, a_zero_point, b_zero_point)
    total = total if C is None else p.add(total, C)
    factor = p.mul(p.mul(p.reshape(a_scale, ()), b_scale), lift(alpha, a_scale.dtype))
    if y_scale is None or y_zero_point is None:
        return p.mul(p.cast(total, factor.dtype), factor)
    factor = p.div(factor, p.reshape(y_scale, ()))
    return quantize_linear(p.mul(p.cast(total, factor.dtype), factor), lift(1.0, factor.dtype), y_zero_point)


@op("DynamicQuantizeLSTM", since=1, domain=DOMAIN)
def dynamic_quantize_lstm(
    X: Tensor,
    W: Tensor,
    R: Tensor,
    B: Optional[Tensor] = None,
    sequence_lens: Optional[Tensor] = None,
    initial_h: Optional[Tensor] = None,
    initial_c: Optional[Tensor] = None,
    P: Optional[Tensor] = None,
    W_scale: Tensor = REQUIRED,
    W_zero_point: Tensor = REQUIRED,
    R_scale: Tensor = REQUIRED,
    R_zero_point: Tensor = REQUIRED,
    *,
    activation_alpha: Sequence[float] = (),
    activation_beta: Sequence[float] = (),
    activations: Sequence[str] = (),
    clip: Optional[float] = None,
    direction: str = "forward",
    hidden_size: Optional[int] = None,
    input_forget: int = 0,
) -> List[Tensor]:
    """Return [Y, last hidden state, last cell state] of an LSTM with quantized weights.

    - Y: [steps, directions, batch, hidden size]
    - states: [directions, batch, hidden size]
    - W: [directions, input size, 4 * hidden size], transposed compared to LSTM
    - R: [directions, hidden size, 4 * hidden size], transposed compared to LSTM

    X and the hidden state are floats and are quantized to uint8: X as a whole, the hidden state at each step. Before X
    is quantized, its steps after the longest sequence are set to 0. The other parameters are those of LSTM.
    """
    functions = lstm_activations(activations, activation_alpha, activation_beta, clip, direction)
    products = (_quantized_product(W_scale, W_zero_point), _quantized_product(R_scale, R_zero_point))
    if sequence_lens is not None:
        X = _zero_after(X, p.reduce_max(sequence_lens))
    W, R = (p.transpose(weights, (0, 2, 1)) for weights in (W, R))
    initial = [initial_h, initial_c]
    return run_lstm(X, W, R, B, sequence_lens, initial, P, functions, direction, input_forget, 0, products)


def _quantized_product(scales: Tensor, zero_points: Tensor) -> Product:
    """Return a function (x, weights, bias, k) -> x @ weights^T + bias. It first quantizes x to uint8 by the range of x.

    The weights are quantized already: `scales` and `zero_points` have an entry for each direction k of the LSTM.
    """

    def product(x: Tensor, weights: Tensor, bias: Optional[Tensor], k: int) -> Tensor:
        scale, zero = (take_slice(parameters, k) for parameters in (scales, zero_points))
        return dynamic_quantize_matmul(x, p.transpose(weights, (1, 0)), scale, zero, bias)

    return product


def _zero_after(x: Tensor, count: Tensor) -> Tensor:
    """Return x with zeros in x[count:] (the first axis). `count` is a run-time scalar."""
    is_before_end = p.less(p.iota(x.shape[0], DType.of("int32")), p.cast(count, DType.of("int32")))
    return p.where(p.reshape(is_before_end, (x.shape[0],) + (1,) * (x.rank - 1)), x, lift(0, x.dtype))

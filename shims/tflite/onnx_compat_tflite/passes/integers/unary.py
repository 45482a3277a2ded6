"""Find the integer kernels of ops with a single data input. Each function returns a Writer or None; see `operators`."""

from typing import Optional

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.parameters import QuantParams, are_int8, bias_type, have_common_type
from onnx_compat_tflite.passes.integers.region import MaybeWriter, QuantizedRegion
from onnx_compat_tflite.passes.rewriter import is_unfused

__all__ = [
    "RANGES",
    "average_pool",
    "count_reduced",
    "fixed_range",
    "hard_swish",
    "leaky_relu",
    "mean",
    "resize_bilinear",
]


def mean(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of the integer kernel of MEAN. `op` is a MEAN, or a SUM that a DIV makes a mean.

    Returns None if

    - the input has no integers (see `QuantizedRegion.parameters_of`), or its dtype differs from the dtype of the
      result,
    - the dtype is int16, and the number of summed elements is unknown or at least 2**16: the kernel sums in 32 bits.
    """
    x, count = op.inputs[0], count_reduced(region, op)
    data = region.parameters_of(x)
    if data is None or x is None or not have_common_type(data, parameters):
        return None
    if data.dtype == "int16" and (count is None or count >= 2**16):
        return None
    return lambda output: region.append("MEAN", [region.integers_of(x), op.inputs[1]], output, **op.options)


def count_reduced(region: QuantizedRegion, op: fb.OperatorSpec) -> Optional[int]:
    """Return the number of elements that a reduction combines into one.

    Returns None if the axes are no constant, or if the size of a reduced axis is open.
    """
    sizes, axes = region.graph.sizes(op.inputs[0] or 0), region.graph.constant(op.inputs[1])
    lengths = None if axes is None else [sizes[axis] for axis in axes.reshape(-1)]
    return None if lengths is None or min(lengths, default=0) < 0 else int(np.prod(lengths))


def leaky_relu(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of LEAKY_RELU for a MAXIMUM(x, MUL(x, slope)) with a constant slope, 0 < slope <= 1.

    The operands of the MAXIMUM may be in any order. The slope must be the second operand of the MUL, which has no fused
    activation. Returns None for any other MAXIMUM. Returns None also if x has no integers, or if its dtype differs from
    the dtype of the result.
    """
    for x, part in (op.inputs, list(op.inputs)[::-1]):
        product = region.graph.producer(part, "MUL")
        is_product_of_x = product is not None and product.inputs[0] == x and is_unfused(product)
        slope = region.graph.number(product.inputs[1]) if product is not None and is_product_of_x else None
        data = region.parameters_of(x)
        if (
            slope is not None
            and 0 < slope <= 1
            and x is not None
            and data is not None
            and have_common_type(data, parameters)
        ):
            source, alpha = x, slope
            return lambda output: region.append("LEAKY_RELU", [region.integers_of(source)], output, alpha=alpha)
    return None


def hard_swish(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of the integer kernel of HARD_SWISH. Returns None if the input or the result is not int8."""
    x = op.inputs[0]
    data = region.parameters_of(x)
    if data is None or x is None or not are_int8(data, parameters):
        return None
    return lambda output: region.append("HARD_SWISH", [region.integers_of(x)], output)


def _then_quantize(
    region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams, own: QuantParams, most: float
) -> MaybeWriter:
    """Return a Writer of an op whose integer kernel requires the parameters `own` for its result.

    If `own` and `parameters` differ, a QUANTIZE from `own` to `parameters` follows. Returns None if

    - the input has no integers (see `QuantizedRegion.parameters_of`),
    - the kernel does not accept the dtypes of the input, `own` and `parameters` together,
    - the scale of `own` is more than `most` times the scale of `parameters`.
    """
    x = op.inputs[0]
    data = region.parameters_of(x)
    if data is None or x is None or not have_common_type(data, parameters, own) or own.scale > most * parameters.scale:
        return None

    def write(output: int) -> None:
        first = output if own == parameters else region.add_tensor(op.outputs[0], own)
        region.append(op.builtin, [region.integers_of(x), *op.inputs[1:]], first, **op.options)
        if own != parameters:
            region.append("QUANTIZE", [first], output)

    return write


def average_pool(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of AVERAGE_POOL_2D, whose integer kernel gives its result the parameters of the input.

    - If the scale of the input is at most the scale of `parameters`, the kernel is used. If the input has other
      parameters than `parameters`, a QUANTIZE follows.
    - If the scale of the input is larger, the QUANTIZE would lose precision. A VALID pool with a known number of
      channels then becomes a DEPTHWISE_CONV_2D with equal weights.
    - For any other pool, the kernel and a QUANTIZE are used if the scale is at most twice as large. Otherwise returns
      None.

    Returns None also if the input has no integers, or if no kernel accepts the dtypes together.
    """
    x, options = op.inputs[0], op.options
    data = region.parameters_of(x)
    if data is None or x is None:
        return None
    own = _then_quantize(region, op, parameters, data, 1)
    channels = region.graph.sizes(x)[-1]
    if own is not None or options["padding"] != "VALID" or channels < 0 or not have_common_type(data, parameters):
        return own or _then_quantize(region, op, parameters, data, 2)
    taps = (options["filter_height"], options["filter_width"])
    weights = np.full((1, *taps, channels), 127, np.int8)
    step = np.float32(1 / (127 * taps[0] * taps[1]))
    kernel = weights, fb.Quantization([float(step)], [0])
    bias = np.zeros(channels, bias_type(data)), fb.Quantization([float(step * np.float32(data.scale))], [0])
    where = {name: options[name] for name in ("padding", "stride_h", "stride_w")}

    def write(output: int) -> None:
        operands = [region.integers_of(x), region.add_constant(*kernel), region.add_constant(*bias)]
        region.append("DEPTHWISE_CONV_2D", operands, output, depth_multiplier=1, **where)

    return write


def resize_bilinear(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of the integer kernel of RESIZE_BILINEAR, which rounds sampling positions to 1/1024 pixel.

    The kernel gives its result the parameters of the input. If `parameters` differ from them, a QUANTIZE follows.
    Returns None if

    - the input has no integers, or its dtype differs from the dtype of the result,
    - the height or width of the input or of the result is open, or the result is empty,
    - for the height or the width, (input size / result size) is no multiple of 1/1024,
    - the scale of the input is larger than the scale of `parameters`.

    With align_corners, the ratio is (input size - 1) / (result size - 1), unless the result size is 1.
    """
    data = region.parameters_of(op.inputs[0])
    aligned = op.options.get("align_corners", False)
    for axis in (1, 2):
        size, resized = (region.graph.sizes(index or 0)[axis] for index in (op.inputs[0], op.outputs[0]))
        if aligned and resized > 1:
            size, resized = size - 1, resized - 1
        if size < 0 or resized <= 0 or 1024 * size % resized:
            return None
    return None if data is None else _then_quantize(region, op, parameters, data, 1)


#: Op -> (parameters that its integer kernel requires for the result, largest ratio of their scale to the model's scale).
RANGES = {
    "LOGISTIC": (QuantParams(1 / 256, -128, "int8"), 1.5),
    "TANH": (QuantParams(1 / 128, 0, "int8"), 1.5),
    "SOFTMAX": (QuantParams(1 / 256, -128, "int8"), 1.02),
}


def fixed_range(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of the integer kernel of LOGISTIC, TANH or SOFTMAX, whose result has the parameters in `RANGES`.

    If these parameters differ from `parameters`, a QUANTIZE follows. Returns None if

    - the input has no integers, or the input or the result is not int8,
    - the scale in `RANGES` divided by the scale of `parameters` exceeds the largest ratio in `RANGES`.
    """
    return _then_quantize(region, op, parameters, *RANGES[op.builtin])

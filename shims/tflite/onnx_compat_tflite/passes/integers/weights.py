"""Find the integer kernels of convolutions and FULLY_CONNECTED with constant weights.

Weights become int8 with a zero point of 0, with a single scale or one for each channel. uint8 weights with a zero point may
need more than 8 bits in that form. Then the uint8 kernel is used, with a single scale and zero point.
"""

from typing import Any, Callable, List, Optional

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.parameters import (
    QuantParams,
    are_int8,
    bias_type,
    have_common_type,
    parameters_of_constant,
    quantize,
    quantize_rows,
)
from onnx_compat_tflite.passes.integers.region import MaybeWriter, QuantizedRegion

__all__ = ["convolution", "fully_connected", "transpose_conv"]

#: The largest error of a rounded bias, in units of the result's scale.
_BIAS = 1 / 64


class _Weights:
    """Constant weights as integers: `array` (int8 or uint8), with their scales `steps` for `channels` output channels.

    `steps` is a float32 vector with a single scale, or one for each channel. `quantization` has the scales and zero
    points.
    """

    def __init__(self, array: np.ndarray, steps: np.ndarray, quantization: fb.Quantization, channels: int) -> None:
        self.array, self.steps, self.quantization, self.channels = array, steps, quantization, channels

    @staticmethod
    def of(region: QuantizedRegion, index: Optional[int], axis: int) -> "Optional[_Weights]":
        """Return the float32 constant `index` as integer weights. `axis` is the axis of its output channels.

        The first of these forms is used that reproduces the constant exactly (within a relative 2**-21):

        - int8 with a zero point of 0 and a single scale
        - int8 with a zero point of 0 and a scale for each channel
        - uint8 with a single scale and zero point

        A constant of zeros has the uint8 form. Returns None if no form reproduces the constant, or if the tensor is no
        float32 constant.
        """
        array = region.graph.constant(index)
        if array is None or array.dtype != np.float32:
            return None
        moved = np.moveaxis(array, axis, 0)
        rows = quantize_rows(moved.reshape(len(moved), -1))
        if rows is not None:
            stored, steps = rows
            scales = fb.Quantization([float(step) for step in steps], [0] * len(steps), axis)
            return _Weights(np.moveaxis(stored.reshape(moved.shape), 0, axis), steps, scales, len(moved))
        parameters = parameters_of_constant(array, "uint8")
        if parameters is None:
            return None
        return _Weights(
            quantize(array, parameters), np.asarray([parameters.scale], np.float32), parameters.quantization, len(moved)
        )

    def have_kernel(self, *all_parameters: QuantParams) -> bool:
        """Whether an integer kernel accepts these weights together with data and a result of these parameters.

        The parameters must satisfy `have_common_type`. For uint8 weights, they must also all be int8.
        """
        return have_common_type(*all_parameters) and (self.array.dtype == np.int8 or are_int8(*all_parameters))

    def constant(self, region: QuantizedRegion) -> int:
        """Append the integers as a constant tensor and return its index."""
        return region.add_constant(self.array, self.quantization)

    def write_in_type(
        self, region: QuantizedRegion, x: int, out: int, output: int, write: Callable[[int, int], None]
    ) -> None:
        """Run `write(source, result)`, a function that appends the kernel to `region`, on integer tensors.

        `source` has the integers of the float tensor `x`. `out` is the float tensor of the result, and `output` its
        integer tensor.

        - For int8 weights, `result` is `output`.
        - For uint8 weights, `source` and `result` are new uint8 tensors. A QUANTIZE before the kernel and another after
          it convert them.
        """
        if self.array.dtype == np.int8:
            write(region.integers_of(x), output)
            return
        integers = region.integers_of(x)
        source = region.add_tensor(x, region.parameters_of_integers(integers).unsigned)
        result = region.add_tensor(out, region.parameters_of_integers(output).unsigned)
        region.append("QUANTIZE", [integers], source)
        write(source, result)
        region.append("QUANTIZE", [result], output)

    def bias(
        self, region: QuantizedRegion, index: Optional[int], data: QuantParams, parameters: QuantParams
    ) -> Optional[Any]:
        """Return (integers, quantization) of the bias tensor `index`, with the scales (data scale * weight scale).

        The integers are a vector of `bias_type(data)` with an element for each output channel. If `index` has the value
        None, all elements are 0. `data`: the parameters of the input. `parameters`: the parameters of the result.

        Returns None if

        - the bias is no constant,
        - an integer exceeds 32 bits,
        - rounding changes an element by more than 1/64 of the result's scale.
        """
        steps = (self.steps * np.float32(data.scale)).astype(np.float32)
        floats = region.graph.constant(index) if index is not None else np.zeros(1, np.float32)
        if floats is None:
            return None
        floats = np.broadcast_to(floats.astype(np.float64), (self.channels,))
        stored = np.rint(floats / steps)
        if (np.abs(stored) >= 2**31).any() or (np.abs(stored * steps - floats) > _BIAS * parameters.scale).any():
            return None
        return stored.astype(bias_type(data)), fb.Quantization([float(step) for step in steps], [0] * len(steps))


def convolution(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams, activation: str) -> MaybeWriter:
    """Return a Writer of the integer kernel of CONV_2D or DEPTHWISE_CONV_2D, with `activation` fused.

    Returns None if

    - the input has no integers, or the kernel does not accept the dtypes together,
    - the filters or the bias are no constants,
    - integers cannot reproduce the filters exactly (see `_Weights.of`), or the bias well enough (see `_Weights.bias`).
    """
    x, w, b = op.inputs
    data = region.parameters_of(x)
    weights = _Weights.of(region, w, 3 if op.builtin == "DEPTHWISE_CONV_2D" else 0)
    if data is None or weights is None or x is None or not weights.have_kernel(data, parameters):
        return None
    bias = weights.bias(region, b, data, parameters)
    if bias is None:
        return None
    known, options = weights, dict(op.options, fused_activation_function=activation)

    def write(source: int, result: int) -> None:
        region.append(op.builtin, [source, known.constant(region), region.add_constant(*bias)], result, **options)

    return lambda output: known.write_in_type(region, x, op.outputs[0], output, write)


def transpose_conv(region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams) -> MaybeWriter:
    """Return a Writer of the integer kernel of TRANSPOSE_CONV. Without a bias in `op`, the integer kernel has no bias.

    Returns None if

    - the input has no integers, or the kernel does not accept the dtypes together,
    - the filters or the bias are no constants,
    - integers cannot reproduce the filters exactly (see `_Weights.of`), or the bias well enough (see `_Weights.bias`).
    """
    shape, w, x = op.inputs[:3]
    data, weights = region.parameters_of(x), _Weights.of(region, w, 0)
    if data is None or weights is None or x is None or not weights.have_kernel(data, parameters):
        return None
    extra = op.inputs[3] if len(op.inputs) > 3 else None
    bias = weights.bias(region, extra, data, parameters)
    if bias is None:
        return None
    known = weights

    def write(source: int, result: int) -> None:
        operands = [shape, known.constant(region), source, *([] if extra is None else [region.add_constant(*bias)])]
        region.append("TRANSPOSE_CONV", operands, result, **op.options)

    return lambda output: known.write_in_type(region, x, op.outputs[0], output, write)


def fully_connected(
    region: QuantizedRegion, op: fb.OperatorSpec, parameters: QuantParams, activation: str
) -> MaybeWriter:
    """Return a Writer of the integer kernel of FULLY_CONNECTED, with `activation` fused.

    Some runtimes refuse a FULLY_CONNECTED with a scale for each channel. For such weights, the Writer appends a CONV_2D
    with 1x1 filters between two RESHAPEs. Returns None if

    - the input has no integers, or the kernel does not accept the dtypes together,
    - the weights or the bias are no constants,
    - integers cannot reproduce the weights exactly (see `_Weights.of`), or the bias well enough (see `_Weights.bias`),
    - the weights have a scale for each channel, and the result has several open sizes, or a size of 0.
    """
    x, w = op.inputs[:2]
    data, weights = region.parameters_of(x), _Weights.of(region, w, 0)
    if data is None or weights is None or x is None or not weights.have_kernel(data, parameters):
        return None
    bias = weights.bias(region, op.inputs[2] if len(op.inputs) > 2 else None, data, parameters)
    if bias is None:
        return None
    known, out = weights, op.outputs[0]
    options = dict(op.options, fused_activation_function=activation)
    sizes = list(region.graph.sizes(out))

    def dense(source: int, result: int) -> None:
        region.append(
            "FULLY_CONNECTED", [source, known.constant(region), region.add_constant(*bias)], result, **options
        )

    def as_convolution(output: int) -> None:
        filters, fan_in = known.array.shape
        kernel = region.add_constant(known.array.reshape(filters, 1, 1, fan_in), known.quantization)
        images = region.add_shaped(x, data, *_image_shape(sizes, fan_in))
        result = region.add_shaped(out, parameters, *_image_shape(sizes, filters))
        region.append(
            "RESHAPE", [region.integers_of(x), region.add_constant(np.asarray([-1, 1, 1, fan_in], np.int32))], images
        )
        where = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "fused_activation_function": activation}
        region.append("CONV_2D", [images, kernel, region.add_constant(*bias)], result, **where)
        region.append("RESHAPE", [result, region.add_constant(np.asarray(sizes, np.int32))], output)

    if len(known.steps) == 1:
        return lambda output: known.write_in_type(region, x, out, output, dense)
    return as_convolution if sum(size < 0 for size in sizes) <= 1 and 0 not in sizes else None


def _image_shape(sizes: List[int], last: int) -> Any:
    """Return (shape, signature) of vectors as images of one pixel: [2, 3, 8] with `last` 5 => ((6, 1, 1, 5), None).

    `sizes`: the shape of the vectors. `last`: the number of channels of the images. If a size is open, the signature
    has -1 for the number of images: [-1, 8] with `last` 5 => ((1, 1, 1, 5), (-1, 1, 1, 5)).
    """
    count = -1 if any(size < 0 for size in sizes) else int(np.prod(sizes[:-1], dtype=np.int64))
    return (max(count, 1), 1, 1, last), (count, 1, 1, last) if count < 0 else None

"""Convolutions and products with known weights, on integers.

Weights are int8 without a zero point, of one scale or of one for each channel. What has too many steps for that, uint8 weights
with a zero point in their midst, goes to the kernels of uint8, which know one scale and one zero point.
"""

from typing import Any, Callable, List, Optional

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.grid import (
    Grid,
    bytes_only,
    centred,
    grid_of_constant,
    on_grid,
    rows_of_steps,
    sums,
)
from onnx_compat_tflite.passes.integers.region import Found, Region

__all__ = ["connected", "convolution", "transposed"]

#: A float bias may be off by so much of a step of the result.
_BIAS = 1 / 64


class _Weights:
    """Integers for a constant, and for a bias in the steps of the products."""

    def __init__(self, array: Any, steps: Any, quantization: fb.Quantization, channels: int) -> None:
        self.array, self.steps, self.quantization, self.channels = array, steps, quantization, channels

    @staticmethod
    def of(region: Region, index: Optional[int], axis: int) -> "Optional[_Weights]":
        array = region.view.constant(index)
        if array is None or array.dtype != np.float32:
            return None
        moved = np.moveaxis(array, axis, 0)
        rows = rows_of_steps(moved.reshape(len(moved), -1))
        if rows is not None:
            stored, steps = rows
            scales = fb.Quantization([float(one) for one in steps], [0] * len(steps), axis)
            return _Weights(np.moveaxis(stored.reshape(moved.shape), 0, axis), steps, scales, len(moved))
        grid = grid_of_constant(array, "uint8")
        if grid is None:
            return None
        return _Weights(on_grid(array, grid), np.asarray([grid.scale], np.float32), grid.quantization, len(moved))

    def suit(self, *grids: Grid) -> bool:
        """Whether there is a kernel for them with these grids of the data and of the result."""
        return centred(*grids) and (self.array.dtype == np.int8 or bytes_only(*grids))

    def constant(self, region: Region) -> int:
        return region.constant(self.array, self.quantization)

    def beside(self, region: Region, x: int, out: int, output: int, write: Callable[[int, int], None]) -> None:
        """Write an output from the twin of x, both in the type of the weights."""
        if self.array.dtype == np.int8:
            write(region.twin(x), output)
            return
        twin = region.twin(x)
        source = region.tensor(x, region.grid(twin).unsigned)
        result = region.tensor(out, region.grid(output).unsigned)
        region.put("QUANTIZE", [twin], source)
        write(source, result)
        region.put("QUANTIZE", [result], output)

    def bias(self, region: Region, index: Optional[int], given: Grid, grid: Grid) -> Optional[Any]:
        """The bias as integers with their scales; None where they cannot be had. One is always there."""
        steps = (self.steps * np.float32(given.scale)).astype(np.float32)
        floats = region.view.constant(index) if index is not None else np.zeros(1, np.float32)
        if floats is None:
            return None
        floats = np.broadcast_to(floats.astype(np.float64), (self.channels,))
        stored = np.rint(floats / steps)
        if (np.abs(stored) >= 2**31).any() or (np.abs(stored * steps - floats) > _BIAS * grid.scale).any():
            return None
        return stored.astype(sums(given)), fb.Quantization([float(one) for one in steps], [0] * len(steps))


def convolution(region: Region, operator: fb.OperatorSpec, grid: Grid, bound: str) -> Found:
    """CONV_2D, DEPTHWISE_CONV_2D."""
    x, w, b = operator.inputs
    given = region.grid_of(x)
    weights = _Weights.of(region, w, 3 if operator.builtin == "DEPTHWISE_CONV_2D" else 0)
    if given is None or weights is None or x is None or not weights.suit(given, grid):
        return None
    bias = weights.bias(region, b, given, grid)
    if bias is None:
        return None
    held, options = weights, dict(operator.options, fused_activation_function=bound)

    def write(source: int, result: int) -> None:
        region.put(operator.builtin, [source, held.constant(region), region.constant(*bias)], result, **options)

    return lambda output: held.beside(region, x, operator.outputs[0], output, write)


def transposed(region: Region, operator: fb.OperatorSpec, grid: Grid) -> Found:
    shape, w, x = operator.inputs[:3]
    given, weights = region.grid_of(x), _Weights.of(region, w, 0)
    if given is None or weights is None or x is None or not weights.suit(given, grid):
        return None
    extra = operator.inputs[3] if len(operator.inputs) > 3 else None
    bias = weights.bias(region, extra, given, grid)
    if bias is None:
        return None
    held = weights

    def write(source: int, result: int) -> None:
        operands = [shape, held.constant(region), source, *([] if extra is None else [region.constant(*bias)])]
        region.put("TRANSPOSE_CONV", operands, result, **operator.options)

    return lambda output: held.beside(region, x, operator.outputs[0], output, write)


def connected(region: Region, operator: fb.OperatorSpec, grid: Grid, bound: str) -> Found:
    """FULLY_CONNECTED; with a scale for each row of the weights, which not every runtime has of it, a CONV_2D of 1 x 1."""
    x, w = operator.inputs[:2]
    given, weights = region.grid_of(x), _Weights.of(region, w, 0)
    if given is None or weights is None or x is None or not weights.suit(given, grid):
        return None
    bias = weights.bias(region, operator.inputs[2] if len(operator.inputs) > 2 else None, given, grid)
    if bias is None:
        return None
    held, out = weights, operator.outputs[0]
    options = dict(operator.options, fused_activation_function=bound)
    sizes = list(region.view.sizes(out))

    def dense(source: int, result: int) -> None:
        region.put("FULLY_CONNECTED", [source, held.constant(region), region.constant(*bias)], result, **options)

    def rows(output: int) -> None:
        filters, fan_in = held.array.shape
        kernel = region.constant(held.array.reshape(filters, 1, 1, fan_in), held.quantization)
        images, result = region.tensor(x, given), region.tensor(out, grid)
        for index, last in ((images, fan_in), (result, filters)):
            spec = region.graph.tensors[index]
            spec.shape, spec.shape_signature = _as_images(sizes, last)
        region.put("RESHAPE", [region.twin(x), region.constant(np.asarray([-1, 1, 1, fan_in], np.int32))], images)
        where = {"padding": "VALID", "stride_h": 1, "stride_w": 1, "fused_activation_function": bound}
        region.put("CONV_2D", [images, kernel, region.constant(*bias)], result, **where)
        region.put("RESHAPE", [result, region.constant(np.asarray(sizes, np.int32))], output)

    if len(held.steps) == 1:
        return lambda output: held.beside(region, x, out, output, dense)
    return rows if sum(size < 0 for size in sizes) <= 1 and 0 not in sizes else None


def _as_images(sizes: List[int], last: int) -> Any:
    """Shape and signature of so many images of one point as there are vectors."""
    count = -1 if any(size < 0 for size in sizes) else int(np.prod(sizes[:-1], dtype=np.int64))
    return (max(count, 1), 1, 1, last), (count, 1, 1, last) if count < 0 else None

"""Maximum, minimum and clip, which keep NaN as ONNX does."""

from typing import Callable, Optional

import numpy as np

from onnx_compat_tflite.emitter import broadcasting, casting, comparison, elementwise, float64
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.known_shapes import is_same_shape
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["clip", "maximum", "minimum"]


def _extreme(builtin: str, logical: str) -> Callable[[Builder, Handle, Handle], Handle]:
    """Return a function of (builder, x, y) that emits `builtin` ("MAXIMUM" or "MINIMUM"). NaN of x or y gives NaN.

    - float32: the kernels lose a NaN of the first operand, some also of the second. The function restores it by
      SELECT_V2.
    - float16 is computed in float32, because all kernels lose its NaN.
    - float64: NaN may be lost. The caller restores it by `float64.propagate_nan`.
    - Booleans: the op `logical` is emitted in place of `builtin`.
    """

    def emit(builder: Builder, x: Handle, y: Handle) -> Handle:
        if x.dtype == "bool":
            return broadcasting.add_op(builder, logical, [x, y])
        if y.is_constant:
            x, y = y, x
        if x.dtype == "float16":
            x = Handle.of(x.array.astype(np.float32)) if x.is_constant else x
            return casting.call_in_float32(builder, emit_ordered, x, y)
        return emit_ordered(builder, x, y)

    @widen_for(builtin)
    def emit_ordered(builder: Builder, x: Handle, y: Handle) -> Handle:
        """Emit `builtin`, then restore a NaN of float32 that the kernel loses.

        If one operand is a constant, it should be x: a constant x without NaN needs no SELECT_V2.
        """
        result = broadcasting.add_op(builder, builtin, [x, y])
        keeps_second = builder.kernels.quirks.maximum_keeps_nan or is_same_shape(x.dims, y.dims)
        operands_with_nan = [x] if keeps_second else [x, y]
        for operand in operands_with_nan if x.dtype == "float32" else []:
            if not (operand.is_constant and not np.isnan(operand.array).any()):
                result = comparison.where(builder, comparison.is_nan(builder, operand), operand, result)
        return result

    return emit


_plain_maximum = _extreme("MAXIMUM", "LOGICAL_OR")
_plain_minimum = _extreme("MINIMUM", "LOGICAL_AND")


@primitive
def maximum(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the elementwise maximum of x and y, which broadcast. The result is NaN where an operand is NaN.

    For booleans, the result is the logical OR.
    """
    return float64.propagate_nan(builder, _plain_maximum(builder, x, y), x, y)


@primitive
def minimum(builder: Builder, x: Handle, y: Handle) -> Handle:
    """Emit the elementwise minimum of x and y, which broadcast. The result is NaN where an operand is NaN.

    For booleans, the result is the logical AND.
    """
    return float64.propagate_nan(builder, _plain_minimum(builder, x, y), x, y)


@primitive
def clip(builder: Builder, x: Handle, low: Optional[float] = None, high: Optional[float] = None) -> Handle:
    """Emit min(max(x, low), high), NaN where x is NaN. A bound of None does not limit.

    For a float32 x, RELU is emitted for the bounds (0, None), and RELU6 for (0, 6). Exception: RELU6 of tflite-runtime
    2.7 returns 0 for NaN.

    For an integer x, fractional bounds are rounded inwards: `low` up, `high` down.
    """
    if x.dtype == "float32" and low == 0 and high in (None, 6):
        result = elementwise.unary(builder, "RELU" if high is None else "RELU6", x)
        result.is_nonnegative = True
        return result
    if x.dtype == "float32" and not builder.kernels.quirks.maximum_keeps_nan:
        return _clip_keeping_nan(builder, x, low, high)
    if low is not None:
        x = maximum(builder, _bound(x, low, np.ceil), x)
    if high is not None:
        x = minimum(builder, _bound(x, high, np.floor), x)
    return x


def _clip_keeping_nan(builder: Builder, x: Handle, low: Optional[float], high: Optional[float]) -> Handle:
    """Clip a float32 x by MAXIMUM and MINIMUM, then restore NaN by a SELECT_V2, for kernels that lose NaN.

    `low` and `high` are the bounds, or None without a bound. The pass `hard_activations` recognises this form.
    """
    bounded = x
    if low is not None:
        bounded = broadcasting.add_op(builder, "MAXIMUM", [_bound(x, low, np.ceil), bounded])
    if high is not None:
        bounded = broadcasting.add_op(builder, "MINIMUM", [_bound(x, high, np.floor), bounded])
    return comparison.where(builder, comparison.is_nan(builder, x), x, bounded)


def _bound(x: Handle, value: float, rounding: Callable[[float], float]) -> Handle:
    """Return the bound `value` as a constant scalar of x's dtype.

    For an integer dtype, the bound is limited to the range of the dtype, then rounded by `rounding`: ceil or floor.
    """
    kind = np.dtype(x.dtype)
    if kind.kind == "f":
        return Handle.of(np.asarray(value).astype(kind))
    info = np.iinfo(kind)
    return Handle.of(np.asarray(int(rounding(min(max(value, int(info.min)), int(info.max)))), kind))

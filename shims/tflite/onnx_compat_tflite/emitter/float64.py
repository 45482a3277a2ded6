"""Primitives of float64 by its bits, on runtimes with BITCAST: signs, and the detection of NaN and infinity."""

import numpy as np

from onnx_compat_tflite.emitter import comparison, elementwise, int64_views
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["abs", "false_on_nan", "is_inf", "is_nan", "is_viewed", "neg", "propagate_nan"]


def is_viewed(builder: Builder, x: Handle) -> bool:
    """Whether x is a float64 whose bits the runtime can read as int64 (it has BITCAST)."""
    return x.dtype == "float64" and int64_views.has_bitcast(builder)


def is_nan(builder: Builder, x: Handle) -> Handle:
    """Return a boolean tensor: true where x is NaN. `is_viewed` must hold for x.

    x is NaN where its bits without the sign, read as int64, exceed the bits of infinity.
    """
    magnitude = _magnitude_bits(builder, x)
    return comparison.less(builder, builder.like(magnitude, int64_views.INFINITY), magnitude)


def is_inf(builder: Builder, x: Handle) -> Handle:
    """Return a boolean tensor: true where x is infinite, of either sign. `is_viewed` must hold for x."""
    magnitude = _magnitude_bits(builder, x)
    return comparison.equal(builder, magnitude, builder.like(magnitude, int64_views.INFINITY))


def abs(builder: Builder, x: Handle) -> Handle:
    """Return |x|: x with the sign bit cleared. `is_viewed` must hold for x."""
    return int64_views.view_as(builder, _magnitude_bits(builder, x), x.dtype)


def neg(builder: Builder, x: Handle) -> Handle:
    """Return -x: x with the sign bit flipped. `is_viewed` must hold for x."""
    bits = int64_views.view_as(builder, x, "int64")
    return int64_views.view_as(builder, elementwise.add(builder, bits, builder.like(bits, int64_views.LEAST)), x.dtype)


def _magnitude_bits(builder: Builder, x: Handle) -> Handle:
    """Return the bits of a float64 as int64, with the sign bit cleared."""
    bits = int64_views.view_as(builder, x, "int64")
    return int64_views.clear_sign(builder, bits)


def propagate_nan(builder: Builder, extreme: Handle, x: Handle, y: Handle) -> Handle:
    """Return `extreme`, the maximum or minimum of x and y, with NaN where a float64 operand is NaN.

    If neither operand is a float64 that may be NaN, return `extreme` itself.
    """
    for operand in (x, y):
        if _may_be_nan(operand):
            extreme = comparison.where(builder, comparison.is_nan(builder, operand), operand, extreme)
    return extreme


def false_on_nan(builder: Builder, comparison_result: Handle, x: Handle, y: Handle) -> Handle:
    """Return `comparison_result`, a comparison of x and y, with false where a float64 operand is NaN.

    If neither operand is a float64 that may be NaN, return `comparison_result` itself.
    """
    for operand in (x, y):
        if _may_be_nan(operand):
            is_number = comparison.logical_not(builder, comparison.is_nan(builder, operand))
            comparison_result = comparison.logical_and(builder, comparison_result, is_number)
    return comparison_result


def _may_be_nan(x: Handle) -> bool:
    """Whether x is float64, and is computed at run time or is a constant with a NaN."""
    return x.dtype == "float64" and not (x.is_constant and not np.isnan(x.array).any())

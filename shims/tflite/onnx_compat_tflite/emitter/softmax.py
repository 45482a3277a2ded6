"""Softmax and its logarithm, along any axis."""

from typing import Any, List, Mapping

import numpy as np

from onnx_compat_tflite.emitter import casting, empty_axes, reshaping, transposing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["log_softmax", "softmax"]


@primitive
def softmax(builder: Builder, x: Handle, axis: int) -> Handle:
    """Emit the softmax along an axis. float16 is computed in float32.

    If x has a known size 0, returns x. Otherwise raises UnsupportedError for another dtype than float32 and float16.
    """
    return _apply_along(builder, x, axis, "SOFTMAX", beta=1.0)


@primitive
def log_softmax(builder: Builder, x: Handle, axis: int) -> Handle:
    """Emit the logarithm of the softmax along an axis. float16 is computed in float32.

    If x has a known size 0, returns x. Otherwise raises UnsupportedError for another dtype than float32 and float16.
    """
    return _apply_along(builder, x, axis, "LOG_SOFTMAX")


def _apply_along(builder: Builder, x: Handle, axis: int, builtin: str, **options: Any) -> Handle:
    """Append SOFTMAX or LOG_SOFTMAX (`builtin`) along an axis.

    - If x has a known size 0, returns x.
    - If the axis is the last and x is static with a rank above 5, x is computed as a matrix. So is an x whose axis may
      be empty at run time: the kernels divide by the length of the axis, and end the process for 0.
    - If the axis is not the last, it is swapped with the last axis before the op, and swapped back after it.
    """
    last = x.rank - 1
    if x.is_empty:
        return x
    if x.rank > 5 and x.is_static and axis == last:
        flat = reshaping.reshape_to(builder, x, (int(np.prod(x.dims[:-1])), x.dims[-1]))
        return reshaping.reshape_to(builder, _add_softmax(builder, flat, builtin, options), x.dims)
    if axis == last and empty_axes.may_become_empty(builder, x.dims[last]):
        rows = _add_softmax(builder, empty_axes.flatten_empty_rows(builder, x), builtin, options)
        return builder.add_op("RESHAPE", [rows, builder.shape_tensor(x)], x.dtype, x.dims)
    if axis == last:
        return _add_softmax(builder, x, builtin, options)
    perm: List[int] = list(range(x.rank))
    perm[axis], perm[last] = last, axis
    swapped = transposing.transpose(builder, x, perm)
    return transposing.transpose(builder, _apply_along(builder, swapped, last, builtin, **options), perm)


def _add_softmax(builder: Builder, x: Handle, builtin: str, options: Mapping[str, Any]) -> Handle:
    """Emit SOFTMAX or LOG_SOFTMAX, in float32 for float16. Raises UnsupportedError if the kernel lacks the dtype."""
    if x.dtype == "float16":
        return casting.to(
            builder, _add_softmax(builder, casting.to(builder, x, "float32"), builtin, options), "float16"
        )
    builder.demand(builtin, x.dtype)
    return builder.add_op(builtin, [x], x.dtype, x.dims, **options)

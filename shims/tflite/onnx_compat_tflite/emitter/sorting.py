"""Sorts, and the indices of extreme elements."""

from typing import Any, Tuple

import numpy as np

from onnx_compat.shim import Sizes
from onnx_compat_tflite.emitter import casting, elementwise, extremes, narrowing, runtime_sizes, slicing, transposing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["add_top_k", "argmax", "argmin", "sort_last", "top_k"]


@primitive
def top_k(builder: Builder, x: Handle, sizes: Sizes, axis: int, largest: bool) -> Tuple[Handle, ...]:
    """Return (elements, int64 indices) of the k largest elements of x along an axis, the largest first.

    Without `largest`, these are the k smallest elements, the smallest first. `sizes` has k as its only size. Equal
    elements keep their order. If k exceeds the length of the axis, the kernel fails at run time.
    """
    (count,) = sizes.scalars
    # For a negative k, the kernel of LiteRT returns no elements. It refuses a k beyond the axis.
    k = narrowing.narrow_clamped(builder, count) if isinstance(count, Handle) else runtime_sizes.scalar(builder, count)
    last = x.rank - 1
    perm = [a for a in range(x.rank) if a != axis] + [axis]
    back = [perm.index(a) for a in range(x.rank)]
    transposed = transposing.transpose(builder, x, perm) if axis != last else x
    values, indices = sort_last(builder, transposed, k, largest)
    if axis != last:
        values, indices = transposing.transpose(builder, values, back), transposing.transpose(builder, indices, back)
    results = values, casting.to(builder, indices, "int64")
    for handle, ref in zip(results, builder.node.outputs):
        builder.refine(handle, ref.spec.shape)
    return results


def sort_last(builder: Builder, x: Handle, k: Handle, largest: bool = True) -> Tuple[Handle, Handle]:
    """Return (elements, int32 indices) of the k largest elements of x along the last axis, the largest first.

    Without `largest`, these are the k smallest elements, the smallest first. `k` is an int32 scalar. Equal elements
    keep their order.
    """
    if not largest:
        values, indices = sort_last(builder, _reverse_order(builder, x), k)
        return _reverse_order(builder, values), indices
    first: Tuple[Handle, Handle] = _safe_top_k(builder, x, k)
    return first


@widen_for("TOPK_V2")
def _safe_top_k(builder: Builder, x: Handle, k: Handle) -> Any:
    """Return (the k largest elements along the last axis, their int32 indices) by TOPK_V2.

    On runtimes from 2.11 to LiteRT 2.1.0, TOPK_V2 ends the process for k = 0 and several rows. On these runtimes, for a
    rank above 1:

    - If k is the constant 0, the empty results are made without TOPK_V2.
    - If k is computed at run time, TOPK_V2 gets max(k, 1), and the results are sliced to k elements.
    """
    if builder.accepts("TOPK_V2", x.dtype, "none") or x.rank == 1 or (k.is_constant and k.array > 0):
        return add_top_k(builder, x, k)
    if k.is_constant:
        values = slicing.slice_axis(builder, x, x.rank - 1, 0, 0)
        zero = Handle.of(np.zeros((), np.int32))
        return values, builder.add_op("FILL", [builder.shape_tensor(values), zero], "int32", values.dims)
    size = runtime_sizes.stack(builder, [*[-1] * (x.rank - 1), k])
    parts = add_top_k(builder, x, extremes.maximum(builder, builder.like(k, 1), k))
    return tuple(
        slicing.add_slice(builder, part, builder.ints(*[0] * x.rank), size, (*x.dims[:-1], None)) for part in parts
    )


def add_top_k(builder: Builder, x: Handle, k: Handle) -> Tuple[Handle, ...]:
    """Append TOPK_V2: return (k largest elements along the last axis, their int32 indices). `k` is an int32 scalar."""
    dims = (*x.dims[:-1], int(k.array) if k.is_constant else None)
    return tuple(builder.add_ops("TOPK_V2", [x, k], [(x.dtype, dims), ("int32", dims)]))


def _reverse_order(builder: Builder, x: Handle) -> Handle:
    """Map each element of x to a number of the same dtype, so that the order of the elements is reversed.

    - float: -x
    - signed integer: -1 - x
    - unsigned integer: the greatest number of the dtype - x

    No integer overflows. Applied twice, the function gives x.
    """
    if np.dtype(x.dtype).kind == "f":
        return elementwise.neg(builder, x)
    last = np.iinfo(x.dtype).max if x.dtype.startswith("uint") else -1
    return elementwise.sub(builder, builder.like(x, last), x)


@primitive
def argmax(builder: Builder, x: Handle, axis: int) -> Handle:
    """Return the int64 index of the greatest element along an axis, the first of equal elements.

    The axis is removed.
    """
    if x.dtype == "int64" or not builder.accepts("ARG_MAX", "int32"):
        return _arg_by_sorting(builder, x, axis, True)
    return _add_arg(builder, x, axis, "ARG_MAX")


@primitive
def argmin(builder: Builder, x: Handle, axis: int) -> Handle:
    """Return the int64 index of the least element along an axis, the first of equal elements. The axis is removed."""
    return _arg_by_sorting(builder, x, axis, False) if x.dtype == "int64" else _add_arg(builder, x, axis, "ARG_MIN")


def _add_arg(builder: Builder, x: Handle, axis: int, builtin: str) -> Handle:
    """Emit `builtin`, ARG_MAX or ARG_MIN, along an axis. x is cast to a wider dtype if the kernel lacks its dtype."""
    if not builder.accepts(builtin, x.dtype):
        return _arg_in_wider_type(builder, casting.widen(builder, x, builtin), axis, builtin)
    axis_tensor = Handle.of(np.asarray(axis, np.int32))
    dims = x.dims[:axis] + x.dims[axis + 1 :]
    return builder.add_op(builtin, [x, axis_tensor], "int64", dims, output_type="int64")


def _arg_in_wider_type(builder: Builder, x: Handle, axis: int, builtin: str) -> Handle:
    """Return `argmax` or `argmin` of x, as `builtin` (ARG_MAX or ARG_MIN) says. The caller has widened x."""
    return argmax(builder, x, axis) if builtin == "ARG_MAX" else argmin(builder, x, axis)


def _arg_by_sorting(builder: Builder, x: Handle, axis: int, largest: bool) -> Handle:
    """Return the int64 index of the greatest (`largest`) or least element along an axis by TOPK_V2 with k = 1.

    The axis is removed.
    """
    perm = [a for a in range(x.rank) if a != axis] + [axis]
    transposed = transposing.transpose(builder, x, perm)
    _, indices = sort_last(builder, transposed, Handle.of(np.asarray(1, np.int32)), largest)
    first = builder.add_op("SQUEEZE", [indices], "int32", indices.dims[:-1], squeeze_dims=[x.rank - 1])
    return casting.to(builder, first, "int64")

"""Transposes. All kernels take five axes; for more, axes that move together are merged."""

from typing import List, Sequence

from onnx_compat.shim import is_equal
from onnx_compat_tflite.emitter import reshaping
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.known_shapes import is_viewable, product
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.widening import widen_for
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["swap_last_axes", "transpose"]


@primitive
def transpose(builder: Builder, x: Handle, perm: Sequence[int]) -> Handle:
    """Permute the axes of x: axis k of the result is axis perm[k] of x.

    - If x is a constant, the result is a constant, whose array is a view of the array of x.
    - Otherwise, if `perm` changes nothing, the result is x.
    - Otherwise TRANSPOSE computes the result, or RESHAPE if no element moves. Above rank 5, axes are merged first if
      RESHAPE can express the shape of x by constant sizes (`is_viewable`).

    Raises UnsupportedError above rank 5 if `is_viewable` does not hold and the kernel does not accept the rank. Raises
    it also if the kernel accepts neither x's dtype nor a wider dtype.
    """
    if x.is_constant:
        return Handle.of(x.array.transpose(perm))
    if list(perm) == sorted(perm):
        return x
    if x.is_static and 0 in x.dims:  # nothing to move, and older kernels divide by the first size
        return reshaping.reshape_to(builder, x, [x.dims[axis] for axis in perm])
    if len(perm) > 5 and is_viewable(x.dims):
        return _transpose_merged(builder, x, perm)
    return _add_transpose(builder, x, tuple(perm))


@widen_for("TRANSPOSE")
def _add_transpose(builder: Builder, x: Handle, perm: Sequence[int]) -> Handle:
    if len(perm) > 5:
        builder.demand("TRANSPOSE", x.dtype, "rank %d" % len(perm))
    return builder.add_op("TRANSPOSE", [x, builder.ints(*perm)], x.dtype, [x.dims[axis] for axis in perm])


def _transpose_merged(builder: Builder, x: Handle, perm: Sequence[int]) -> Handle:
    """Permute the axes of x, after axes of length 1 are dropped, and axes that stay adjacent and in order are merged.

    If more than five merged axes remain and the runtime does not permute so many, `_transpose_stepwise` permutes them.
    `is_viewable` must hold for x.dims.
    """
    groups: List[List[int]] = []
    for axis in perm:
        if is_equal(x.dims[axis], 1):
            continue
        if groups and all(is_equal(x.dims[k], 1) for k in range(groups[-1][-1] + 1, axis)) and groups[-1][-1] < axis:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    order = sorted(groups)
    merged = reshaping.reshape_to(builder, x, [product([x.dims[axis] for axis in group]) for group in order])
    order_of_groups = [order.index(group) for group in groups]
    if len(order_of_groups) > 5 and not builder.accepts("TRANSPOSE", x.dtype, "rank %d" % len(order_of_groups)):
        transposed = _transpose_stepwise(builder, merged, order_of_groups)
    else:
        transposed = _add_transpose(builder, merged, tuple(order_of_groups)) if len(order_of_groups) > 1 else merged
    return reshaping.reshape_to(builder, transposed, [x.dims[axis] for axis in perm])


def _transpose_stepwise(builder: Builder, x: Handle, perm: Sequence[int]) -> Handle:
    """Permute in two calls of `transpose`: move axis perm[1] directly after axis perm[0], then permute all axes.

    The first call has at most four groups of merged axes. The second call can merge the axes perm[0] and perm[1].
    """
    first, second = perm[:2]
    order = [axis for axis in range(x.rank) if axis != second]
    order.insert(order.index(first) + 1, second)
    return transpose(builder, transpose(builder, x, order), [order.index(axis) for axis in perm])


def swap_last_axes(builder: Builder, x: Handle) -> Handle:
    """Swap the last two axes of x, of rank 2 or more. A constant is transposed as a view."""
    last = x.rank - 1
    return transpose(builder, x, [*range(last - 1), last, last - 1])

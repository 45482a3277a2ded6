"""Pools: kernels for two axes of floats; otherwise the maximum or the sum of shifted slices, axis by axis.

A single spatial axis becomes two axes; three axes are pooled in two steps.
"""

from typing import Callable, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import Window
from onnx_compat_tflite.emitter import casting, elementwise, extremes, pad, reshaping, slicing
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.emitter.window_padding import padding_of, result_space
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["add_pool", "avg_pool", "max_pool"]

#: A function that combines two slices, as `elementwise.add` does.
Combine = Callable[[Builder, Handle, Handle], Handle]


@primitive
def max_pool(builder: Builder, x: Handle, window: Window) -> Handle:
    """Emit the maximum of each window over a channels-last x with one, two or three spatial axes. Pads do not count."""
    rank = len(window.kernel)
    if x.dtype == "float16":
        return casting.call_in_float32(builder, max_pool, x, window=window)
    if rank == 1:
        return reshaping.remove_height(
            builder, max_pool(builder, reshaping.insert_height(builder, x), window.as_plane())
        )
    has_kernel = builder.accepts("MAX_POOL_2D", x.dtype) and rank == 2 and _is_dense(window)
    padding = padding_of(x.dims[1:-1], window) if has_kernel else None
    if padding is None:
        x = _pad_with_least(builder, x, [(0, 0), *window.pads, (0, 0)])
        padding = "VALID"
    if has_kernel:
        return add_pool(builder, "MAX_POOL_2D", x, window, padding)
    if rank == 3 and x.dtype == "float32" and _can_merge_axes(x) and _is_dense(window):
        return _pool_3d(builder, "MAX_POOL_2D", x, window)
    return _pool_by_slices(builder, x, window, extremes.maximum)


def _pad_with_least(builder: Builder, x: Handle, pads: Sequence[Tuple[int, int]]) -> Handle:
    """Pad x with the least value of its dtype (-inf for floats), or with zeros if `x.is_nonnegative`."""
    if x.is_nonnegative:
        return pad.pad_known(builder, x, pads)
    dtype = np.dtype(x.dtype)
    least = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    return pad.pad_known(builder, x, pads, builder.like(x, least))


@primitive
def avg_pool(builder: Builder, x: Handle, window: Window) -> Handle:
    """Emit the mean of each window over a channels-last x. The pads of the window are not read: x is not padded.

    Raises UnsupportedError for another dtype than float32 and float16.
    """
    rank = len(window.kernel)
    if x.dtype == "float16":
        return casting.call_in_float32(builder, avg_pool, x, window=window)
    if x.dtype != "float32":
        raise builder.kernel_error("AVERAGE_POOL_2D", x.dtype)
    if rank == 1:
        return reshaping.remove_height(
            builder, avg_pool(builder, reshaping.insert_height(builder, x), window.as_plane())
        )
    if rank == 2 and _is_dense(window):
        return add_pool(builder, "AVERAGE_POOL_2D", x, window, "VALID")
    if rank == 3 and _can_merge_axes(x) and _is_dense(window):
        return _pool_3d(builder, "AVERAGE_POOL_2D", x, window)
    total = _pool_by_slices(builder, x, window, elementwise.add)
    return elementwise.mul(builder, total, builder.like(x, 1 / np.prod(window.kernel)))


def add_pool(builder: Builder, builtin: str, x: Handle, window: Window, padding: str) -> Handle:
    """Append the pool op `builtin` over a channels-last x with two spatial axes, and return its result.

    `padding` is "VALID" or "SAME". The pads of the window are not read. `_is_dense` must hold for the window. No op is
    appended in these cases:

    - If the window is 1x1 with strides of 1, returns x.
    - If x is empty and the sizes of the result are known, returns a constant without elements.
    """
    kernel, strides = window.kernel, window.strides
    if all(size == 1 for size in (*kernel, *strides)):  # a step of `_pool_3d` without an effect
        return x
    space = result_space(x.dims[1:-1], window, padding)
    options = {"padding": padding, "filter_height": kernel[0], "filter_width": kernel[1]}
    options.update(stride_h=strides[0], stride_w=strides[1])
    dims = (x.dims[0], *space, x.dims[-1])
    if x.is_empty and all(isinstance(size, int) for size in dims):
        return Handle.of(np.zeros(dims, x.dtype))
    result = builder.add_op(builtin, [x], x.dtype, dims, **options)
    result.is_nonnegative = x.is_nonnegative
    return result


def _pool_3d(builder: Builder, builtin: str, x: Handle, window: Window) -> Handle:
    """Pool x [N, D, H, W, C] by the two-axis pool op `builtin`: first along H and W, then along D.

    The pads and dilations of the window are not read. `_can_merge_axes` must hold for x.
    """
    batch, depth, height, width, channels = x.dims
    kernel, strides = window.kernel, window.strides
    rows = batch * depth if isinstance(batch, int) else None
    flat = reshaping.reshape_to(builder, x, (rows, height, width, channels))
    first = add_pool(builder, builtin, flat, Window.of(kernel[1:], strides[1:]), "VALID")
    high, wide = first.dims[1:3]
    deep = reshaping.reshape_to(builder, first, (batch, depth, high * wide, channels))
    second = add_pool(builder, builtin, deep, Window.of((kernel[0], 1), (strides[0], 1)), "VALID")
    return reshaping.reshape_to(builder, second, (batch, second.dims[1], high, wide, channels))


def _pool_by_slices(builder: Builder, x: Handle, window: Window, combine: Combine) -> Handle:
    """Pool a channels-last x axis by axis: `combine` joins the shifted slices, one for each tap of the window.

    The pads of the window are not read. An axis with one tap and stride 1 is skipped.
    """
    for axis, along in enumerate(zip(window.kernel, window.strides, window.dilations), 1):
        if along[:2] != (1, 1):
            x = _pool_axis(builder, x, axis, along, combine)
    return x


def _pool_axis(builder: Builder, x: Handle, axis: int, along: Tuple[int, int, int], combine: Combine) -> Handle:
    """Pool x along a single axis: combine a shifted slice for each tap. `along`: (taps, stride, dilation)."""
    taps, stride, dilation = along
    total: Optional[Handle] = None
    for k in range(taps):
        left_over = (taps - 1 - k) * dilation
        tap = _slice_every(builder, x, axis, k * dilation, -left_over if left_over else 2**31 - 1, stride)
        total = tap if total is None else combine(builder, total, tap)
    assert total is not None
    return total


def _slice_every(builder: Builder, x: Handle, axis: int, start: int, stop: int, stride: int) -> Handle:
    """Return every `stride`-th element along an axis, from `start` up to `stop`.

    A negative `stop` counts from the end.
    """
    begin, end, steps = [0] * x.rank, [2**31 - 1] * x.rank, [1] * x.rank
    begin[axis], end[axis], steps[axis] = start, stop, stride
    return slicing.slice_known(builder, x, begin, end, steps)


def _can_merge_axes(x: Handle) -> bool:
    """Whether RESHAPE can merge and split axes of x.

    It can if all sizes are known. It can also if only the first size is unknown, and no other size is zero.
    """
    return x.is_static or all(isinstance(size, int) and size for size in x.dims[1:])


def _is_dense(window: Window) -> bool:
    """Whether no axis with several taps is dilated."""
    return all(dilation == 1 or taps == 1 for taps, dilation in zip(window.kernel, window.dilations))

"""Pools: kernels for two axes of floats; otherwise axis by axis, as the largest (or the sum) of shifted slices."""

from typing import Any, Callable, Optional, Sequence, Tuple

import numpy as np

from onnx_compat_tflite.emitter.windows import Windows, padding_of, raise_parameters, result_space
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["Pools"]

Ints = Sequence[int]


class Pools(Windows):
    """The same trick as for convolutions serves one spatial axis; three are pooled two and one."""

    def max_pool(
        self, x: Handle, kernel: Ints, strides: Ints, dilations: Ints, pads: Sequence[Tuple[int, int]]
    ) -> Handle:
        where: Any = {"kernel": kernel, "strides": strides, "dilations": dilations, "pads": pads}
        if x.dtype == "float16":
            return self.call_in_float32(self.max_pool, x, **where)
        if len(kernel) == 1:
            return self.remove_height(self.max_pool(self.insert_height(x), **raise_parameters(where)))
        fits = self.accepts("MAX_POOL_2D", x.dtype) and len(kernel) == 2 and _dense(kernel, dilations)
        padding = padding_of(x.dims[1:-1], kernel, strides, dilations, pads) if fits else None
        if padding is None:
            x = self._pad_with_least(x, [(0, 0), *pads, (0, 0)])
            padding = "VALID"
        if fits:
            return self._add_pool("MAX_POOL_2D", x, padding, where)
        if len(kernel) == 3 and x.dtype == "float32" and _told_apart(x) and _dense(kernel, dilations):
            return self._pool_3d("MAX_POOL_2D", x, where)
        return self._pool_by_slices(x, where, self.maximum)

    def _pad_with_least(self, x: Handle, pads: Sequence[Tuple[int, int]]) -> Handle:
        """With what never wins around it; beside numbers that are not negative that is zero."""
        if x.is_nonnegative:
            return self.pad_known(x, pads)
        kind = np.dtype(x.dtype)
        least = -np.inf if kind.kind == "f" else np.iinfo(kind).min
        return self.pad_known(x, pads, self.like(x, least))

    def avg_pool(self, x: Handle, kernel: Ints, strides: Ints, dilations: Ints) -> Handle:
        where = {"kernel": kernel, "strides": strides, "dilations": dilations, "pads": [(0, 0)] * len(kernel)}
        if x.dtype == "float16":
            return self.call_in_float32(self.avg_pool, x, kernel=kernel, strides=strides, dilations=dilations)
        if x.dtype != "float32":
            raise self.kernel_error("AVERAGE_POOL_2D", x.dtype)
        if len(kernel) == 1:
            parts = raise_parameters(where)
            return self.remove_height(
                self.avg_pool(self.insert_height(x), parts["kernel"], parts["strides"], parts["dilations"])
            )
        if len(kernel) == 2 and _dense(kernel, dilations):
            return self._add_pool("AVERAGE_POOL_2D", x, "VALID", where)
        if len(kernel) == 3 and _told_apart(x) and _dense(kernel, dilations):
            return self._pool_3d("AVERAGE_POOL_2D", x, where)
        total = self._pool_by_slices(x, where, self.add)
        return self.mul(total, self.like(x, 1 / np.prod(kernel)))

    def _add_pool(self, builtin: str, x: Handle, padding: str, where: Any) -> Handle:
        kernel, strides = where["kernel"], where["strides"]
        if all(size == 1 for size in (*kernel, *strides)):  # along the other axes of three
            return x
        space = result_space(x.dims[1:-1], kernel, where, padding)
        options = {"padding": padding, "filter_height": kernel[0], "filter_width": kernel[1]}
        options.update(stride_h=strides[0], stride_w=strides[1])
        dims = (x.dims[0], *space, x.dims[-1])
        if x.is_empty and all(isinstance(size, int) for size in dims):
            return Handle.of(np.zeros(dims, x.dtype))
        result = self.add_op(builtin, [x], x.dtype, dims, **options)
        result.is_nonnegative = x.is_nonnegative
        return result

    def _pool_3d(self, builtin: str, x: Handle, where: Any) -> Handle:
        """Height and width, then depth: windows are boxes."""
        batch, depth, height, width, channels = x.dims
        kernel, strides = where["kernel"], where["strides"]
        rows = batch * depth if isinstance(batch, int) else None
        flat = self.reshape_to(x, (rows, height, width, channels))
        inner = {"kernel": kernel[1:], "strides": strides[1:], "dilations": (1, 1)}
        first = self._add_pool(builtin, flat, "VALID", inner)
        high, wide = first.dims[1:3]
        deep = self.reshape_to(first, (batch, depth, high * wide, channels))
        outer = {"kernel": (kernel[0], 1), "strides": (strides[0], 1), "dilations": (1, 1)}
        second = self._add_pool(builtin, deep, "VALID", outer)
        return self.reshape_to(second, (batch, second.dims[1], high, wide, channels))

    def _pool_by_slices(self, x: Handle, where: Any, combine: Callable[[Handle, Handle], Handle]) -> Handle:
        for axis, along in enumerate(zip(where["kernel"], where["strides"], where["dilations"]), 1):
            if along[:2] != (1, 1):
                x = self._pool_axis(x, axis, along, combine)
        return x

    def _pool_axis(
        self, x: Handle, axis: int, along: Tuple[int, int, int], combine: Callable[[Handle, Handle], Handle]
    ) -> Handle:
        taps, stride, dilation = along
        total: Optional[Handle] = None
        for k in range(taps):
            left_over = (taps - 1 - k) * dilation
            seen = self._slice_every(x, axis, k * dilation, -left_over if left_over else 2**31 - 1, stride)
            total = seen if total is None else combine(total, seen)
        assert total is not None
        return total

    def _slice_every(self, x: Handle, axis: int, start: int, stop: int, stride: int) -> Handle:
        begin, end, steps = [0] * x.rank, [2**31 - 1] * x.rank, [1] * x.rank
        begin[axis], end[axis], steps[axis] = start, stop, stride
        return self._slice_known(x, begin, end, steps)


def _told_apart(x: Handle) -> bool:
    """Whether axes can be merged and parted again: all are known, or all but the batch."""
    return x.is_static or all(isinstance(size, int) and size for size in x.dims[1:])


def _dense(kernel: Ints, dilations: Ints) -> bool:
    """Whether no window has gaps."""
    return all(dilation == 1 or taps == 1 for taps, dilation in zip(kernel, dilations))

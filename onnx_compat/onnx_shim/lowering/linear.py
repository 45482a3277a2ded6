"""Matrix products, convolutions and pools as ONNX operators."""

from typing import Any, Dict, List, Optional, Sequence

import numpy as np

from onnx_compat.ir import dtypes
from onnx_compat.ir.window import Window
from onnx_compat.onnx_shim.graph_builder import Value
from onnx_compat.onnx_shim.lowering.base import EXACT, WRAPPING, broadcast_shape
from onnx_compat.onnx_shim.lowering.sorting import SortingLowering

__all__ = ["LinearLowering"]


class LinearLowering(SortingLowering):
    """The primitives of `onnx_compat.primitives.linear`."""

    def matmul(
        self, x: Value, y: Value, bias: Optional[Value] = None, transpose_x: bool = False, transpose_y: bool = False
    ) -> Value:
        rows, columns = x.shape[-1 if transpose_x else -2], y.shape[-2 if transpose_y else -1]
        shape = (*broadcast_shape(x.shape[:-2], y.shape[:-2]), rows, columns)
        if x.rank == y.rank == 2 and (transpose_x or transpose_y or bias is not None) and x.dtype.kind == "f":
            return self._gemm(x, y, bias, transpose_x, transpose_y, shape)
        left = self._swap_axes(x) if transpose_x else x
        right = self._swap_axes(y) if transpose_y else y
        product = self._product(left, right, shape)
        return product if bias is None else self.add(product, bias)

    def _gemm(
        self, x: Value, y: Value, bias: Optional[Value], transpose_x: bool, transpose_y: bool, shape: Sequence[Any]
    ) -> Value:
        flags: Dict[str, Any] = {"transA": int(transpose_x), "transB": int(transpose_y)}
        for kind in self.kinds(x.dtype, EXACT):
            inputs = [self.convert(value, kind) for value in (x, y, bias) if value is not None]
            results = self.attempts("Gemm", inputs, [(kind, shape)], **flags)
            if results is not None:
                return self.convert(results[0], x.dtype)
        raise self.refusal("Gemm", x.dtype)

    def _product(self, x: Value, y: Value, shape: Sequence[Any]) -> Value:
        if x.dtype.kind == "u":  # onnxruntime 1.31 loads MatMul of uint32 and uint64, and fails in the run
            signed = dtypes.int64 if x.dtype.bits == 64 else dtypes.int32
            return self.convert(self._product(self.convert(x, signed), self.convert(y, signed), shape), x.dtype)
        results = self.attempt("MatMul", [x, y], ladder=WRAPPING, shape=shape)
        if results is not None:
            return results
        left = self.call("Unsqueeze", [x], [self.vector([x.rank])], WRAPPING, shape=(*x.shape, 1))
        axis = y.rank - 2
        right = self.call(
            "Unsqueeze", [y], [self.vector([axis])], WRAPPING, shape=(*y.shape[:axis], 1, *y.shape[axis:])
        )
        products = self.mul(left, right)
        return self.reduce_sum(products, [products.rank - 2], False)

    def _swap_axes(self, x: Value) -> Value:
        return self.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])

    # -- convolutions --------------------------------------------------------------------------------------------------
    def conv(self, x: Value, w: Value, bias: Optional[Value] = None, *, window: Window, groups: int = 1) -> Value:
        pads = [*(low for low, _ in window.pads), *(high for _, high in window.pads)]
        attributes = {**_strides(window), "pads": pads, "group": groups}
        if None not in w.shape[2:]:
            attributes["kernel_shape"] = list(w.shape[2:])
        results = self._call_windowed("Conv", [x, w], bias, attributes)
        if results is None:
            raise self.refusal("Conv", x.dtype)
        return results

    def conv_transpose(
        self, x: Value, w: Value, bias: Optional[Value] = None, *, window: Window, groups: int = 1
    ) -> Value:
        filters = self.transpose(w, [1, 0, *range(2, w.rank)])
        attributes = {**_strides(window), "group": groups}
        if None not in w.shape[2:]:
            attributes["kernel_shape"] = list(w.shape[2:])
        results = self._call_windowed("ConvTranspose", [x, filters], bias, attributes)
        if results is None:
            raise self.refusal("ConvTranspose", x.dtype)
        return results

    def _call_windowed(
        self, operator: str, operands: List[Value], bias: Optional[Value], attributes: Dict[str, Any]
    ) -> Optional[Value]:
        shape = self.node.outputs[0].spec.shape
        return self.attempt(operator, [*operands, *([] if bias is None else [bias])], shape=shape, **attributes)

    # -- pools ---------------------------------------------------------------------------------------------------------
    def max_pool(self, x: Value, window: Window) -> Value:
        least = -np.inf if x.dtype.kind == "f" else x.dtype.min
        is_inside = all(max(pair) < taps for pair, taps in zip(window.pads, window.kernel))
        if is_inside and not (window.is_dilated and window.is_padded) and x.dtype.kind == "f":
            pads = [*(low for low, _ in window.pads), *(high for _, high in window.pads)]
            attributes = {"kernel_shape": list(window.kernel), **_strides(window), "pads": pads}
            results = self.attempt(
                "MaxPool", [x], shape=self.node.outputs[0].spec.shape, behaviour="MaxPool of NaN and -inf", **attributes
            )
            if results is not None:
                return results
        return self._pool(self.maximum, self._pad_window(x, window, least), window)

    def _pad_window(self, x: Value, window: Window, value: float) -> Value:
        if not window.is_padded:
            return x
        padding = self.scalar(value, x.dtype)
        for axis, (low, high) in enumerate(window.pads, 2):
            sizes = [[self.dim(x, k) if k != axis else n for k in range(x.rank)] for n in (low, high)]
            x = self.concat([self.expand(padding, sizes[0]), x, self.expand(padding, sizes[1])], axis)
        return x

    def avg_pool(self, x: Value, window: Window) -> Value:
        attributes = {"kernel_shape": list(window.kernel), **_strides(window)}
        results = self.attempt(
            "AveragePool", [x], ladder={"float16": ("float32",)}, shape=self.node.outputs[0].spec.shape, **attributes
        )
        if results is not None:
            return results
        count = self.scalar(float(np.prod(window.kernel)), x.dtype)
        return self.div(self._pool(self.add, x, window), count)

    def _pool(self, combine: Any, x: Value, window: Window) -> Value:
        """Return x pooled by slices, one axis after the other: a maximum or a sum over a box is separable.

        `combine`: the method that gives the maximum or the sum of two values.
        """
        for axis, (span, taps, stride, dilation, _) in enumerate(zip(window.spans, *window), 2):
            total = None
            for tap in range(taps):
                start = tap * dilation
                seen = self.slice_axis(x, axis, start, start - span + 1, stride)
                total = seen if total is None else combine(total, seen)
            assert total is not None
            x = total
        return x


def _strides(window: Window) -> Dict[str, Any]:
    """Return the strides and dilations as attributes; dilations of 1 are left out, as older operators lack them."""
    attributes = {"strides": list(window.strides)}
    if window.is_dilated:
        attributes["dilations"] = list(window.dilations)
    return attributes

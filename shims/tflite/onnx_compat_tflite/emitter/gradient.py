"""The gradient, by the core's rules: TFLite does not differentiate."""

from typing import Any, Tuple

from onnx_compat.shim import composed_gradient
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["gradient"]


@primitive
def gradient(builder: Builder, *xs: Handle, **params: Any) -> Tuple[Handle, ...]:
    """Return the derivatives of the sum of the first body's result with respect to each of `xs`, in order.

    `params` are `bodies`, `captures` and `refusal` of `onnx_compat.shim.composed_gradient`: the second body computes
    the derivatives.

    Raises UnsupportedError with the reason `refusal`, if it is not empty: the core has no derivative rule for an
    operator.
    """
    return composed_gradient(*xs, **params)

"""The gradient, by the core's rules: TFLite does not differentiate."""

from typing import Any, Tuple

from onnx_compat.shim import composed_gradient
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["gradient"]


@primitive
def gradient(builder: Builder, *xs: Handle, **params: Any) -> Tuple[Handle, ...]:
    """Return the derivative for each of `xs`, in order: emit the second body of the parameter `bodies`.

    `params` are those of `onnx_compat.shim.composed_gradient`. Raises UnsupportedError if the core has no derivative
    rule for an operator. The parameter `refusal` has the reason.
    """
    return composed_gradient(*xs, **params)

"""The decorator of functions whose kernels lack a dtype."""

import functools
from typing import Any, Callable, TypeVar, cast

from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["widen_for"]

F = TypeVar("F", bound=Callable[..., Any])


def widen_for(*builtins: str) -> Callable[[F], F]:
    """Return a decorator of functions (builder, x, ...) that need these kernels, for dtypes that a kernel lacks.

    If a kernel lacks x's dtype, the function is called with x, and each operand of x's dtype, in a wider dtype or as
    int64. Results are converted back. The call raises UnsupportedError without such a dtype: see
    `casting.call_widened`. A kernel's feature may follow its name: "MIRROR_PAD reflect".
    """

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def call(builder: Builder, x: Handle, *arguments: Any, **params: Any) -> Any:
            if all(builder.accepts(builtin, x.dtype) for builtin in builtins):
                return function(builder, x, *arguments, **params)
            from onnx_compat_tflite.emitter import casting  # it imports modules that use this decorator

            return casting.call_widened(builder, call, builtins, x, arguments, params)

        return cast(F, call)

    return decorate

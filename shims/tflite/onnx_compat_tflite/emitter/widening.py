"""The decorator of functions whose kernels lack a dtype."""

import functools
from typing import Any, Callable, TypeVar, cast

from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.subgraph_builder import Handle

__all__ = ["widen_for"]

F = TypeVar("F", bound=Callable[..., Any])


def widen_for(*builtins: str) -> Callable[[F], F]:
    """Return a decorator of functions (builder, x, ...), for dtypes of x that the kernels `builtins` do not accept.

    - If each kernel accepts x's dtype, the function is called unchanged.
    - Otherwise x, and each positional operand of x's dtype, is converted to a wider dtype or int64. Results of this
      wider dtype, or of int64, are converted back. See `casting.call_widened`.

    The decorated function raises UnsupportedError if no wider dtype holds the values of x. An entry of `builtins` may
    name a feature after the kernel: "MIRROR_PAD reflect".
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

"""Casts, and calls in a wider dtype where a kernel lacks the dtype of its operands.

If a kernel lacks a dtype, the operands are cast to the next wider dtype that holds all their values. The result is cast
back. Integers wrap as before, and float16 is rounded once. 64-bit dtypes are viewed as int64 where that gives the same
results (`int64_views`). Otherwise the primitive is unsupported: it is never computed in a dtype that holds less.
"""

from typing import Any, Callable, Dict, Optional, Sequence

from onnx_compat.shim import DType
from onnx_compat_tflite.emitter import int64_views, uint64
from onnx_compat_tflite.emitter.builder import Builder
from onnx_compat_tflite.emitter.registry import primitive
from onnx_compat_tflite.subgraph_builder import Handle, storage_type

__all__ = ["call_in_float32", "call_widened", "cast", "to", "widen"]

_WIDER = {
    "bool": "uint8",
    "int8": "int32",
    "uint8": "int32",
    "int16": "int32",
    "uint16": "int32",
    "int32": "int64",
    "uint32": "int64",
    "float16": "float32",
}


@primitive
def cast(builder: Builder, x: Handle, dtype: DType) -> Handle:
    """Cast x to a dtype. Raises UnsupportedError if the runtime has no tensors of the dtype, or cannot cast x to it."""
    return to(builder, x, builder.require_type(storage_type(dtype.numpy)))


def to(builder: Builder, x: Handle, dtype: str) -> Handle:
    """Cast x to a dtype by the rules of C. Returns x itself if x already has the dtype.

    - A constant gives a constant, unless it holds floats or strings.
    - `uint64.cast` casts from and to uint64 if `uint64.can_cast` is true.
    - If CAST does not accept float16, DEQUANTIZE casts a float16 x to float32. If another dtype is wanted, float32 is
      then cast to it.
    - Otherwise CAST is appended. int8 is checked as int32, because the pass `int8_casts` replaces a CAST of int8.

    Raises UnsupportedError if the runtime cannot cast x.
    """
    if x.dtype == dtype:
        return x
    if x.is_constant and x.array.dtype.kind != "f" and x.dtype != "string":
        return Handle.of(x.array.astype(dtype))
    if uint64.can_cast(builder, x, dtype):
        return uint64.cast(builder, x, dtype)
    if x.dtype == "float16" and not builder.accepts("CAST", "float16", "to float32"):
        single = builder.add_op("DEQUANTIZE", [x], "float32", x.dims)
        return single if dtype == "float32" else to(builder, single, dtype)
    before, after = ("int32" if name == "int8" else name for name in (x.dtype, dtype))
    builder.demand("CAST", before, "to %s" % after)
    return builder.add_op("CAST", [x], dtype, x.dims, in_data_type=x.dtype, out_data_type=dtype)


def call_in_float32(
    builder: Builder, function: Callable[..., Handle], *operands: Optional[Handle], **params: Any
) -> Handle:
    """Cast the operands to float32, call `function(builder, *operands, **params)`, and cast its result to float16.

    Returns the float16 result. An operand of None stays None.
    """
    single = [None if operand is None else to(builder, operand, "float32") for operand in operands]
    return to(builder, function(builder, *single, **params), "float16")


def widen(builder: Builder, x: Handle, builtin: str) -> Handle:
    """Cast x to the next wider dtype that holds all its values.

    Raises UnsupportedError if no such dtype exists; the error names the kernel `builtin`. Raises UnsupportedError also
    if the runtime cannot cast x to the wider dtype.
    """
    return to(builder, x, _wider_type(builder, x.dtype, builtin))


def _wider_type(builder: Builder, dtype: str, builtin: str) -> str:
    """Return the next wider dtype that holds all values of `dtype`.

    Raises UnsupportedError if no such dtype exists. The error names the kernel `builtin`.
    """
    if dtype not in _WIDER:
        raise builder.kernel_error(builtin, dtype)
    return _WIDER[dtype]


def call_widened(
    builder: Builder,
    function: Callable[..., Any],
    builtins: Sequence[str],
    x: Handle,
    arguments: Sequence[Any],
    params: Dict[str, Any],
) -> Any:
    """Call `function(builder, x, *arguments, **params)` in a wider dtype than x's, and convert the results back.

    `builtins` are the ops that the function needs. At least one of them must not accept x's dtype.

    - A uint64, float64 or complex64 x is viewed as int64 if that gives the same results (`find_views`). Any other x is
      cast to the next wider dtype.
    - Each of `arguments` that has x's dtype, also inside a list, is converted in the same way. `params` stay.
    - Results of the wider dtype get x's dtype. Results of another dtype, such as bool, stay.

    Returns the result of the function: a handle, or a tuple of handles. Raises UnsupportedError if no wider dtype holds
    the values of x. The error names the first of `builtins` that does not accept x's dtype.
    """
    views = int64_views.find_views(builder, x.dtype, {name.partition(" ")[0] for name in builtins})
    if views is not None:
        return _call_converted(builder, function, x, arguments, params, "int64", *views)
    builtin = next(name for name in builtins if not builder.accepts(name, x.dtype))
    wider = _wider_type(builder, x.dtype, builtin)
    return _call_converted(
        builder,
        function,
        x,
        arguments,
        params,
        wider,
        lambda operand: to(builder, operand, wider),
        lambda result: to(builder, result, x.dtype),
    )


def _call_converted(
    builder: Builder,
    function: Callable[..., Any],
    x: Handle,
    arguments: Sequence[Any],
    params: Dict[str, Any],
    wider: str,
    convert: Callable[[Handle], Handle],
    restore: Callable[[Handle], Handle],
) -> Any:
    """Call `function` with x, and each of `arguments` that has x's dtype (also in lists), converted by `convert`.

    Returns the result of the function: a handle, or a tuple of handles. Results of the dtype `wider` are converted by
    `restore`; results of another dtype stay.
    """

    def convert_item(item: Any) -> Any:
        if isinstance(item, (list, tuple)):
            return [convert_item(part) for part in item]
        return convert(item) if isinstance(item, Handle) and item.dtype == x.dtype else item

    result = function(builder, convert_item(x), *convert_item(arguments), **params)
    if isinstance(result, tuple):
        return tuple(restore(part) if part.dtype == wider else part for part in result)
    return restore(result) if result.dtype == wider else result

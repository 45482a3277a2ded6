"""Cases of the elementwise primitives."""

from typing import Any

import numpy as np

from cases.making import Making, case
from onnx_compat import primitives
from onnx_compat.ir import dtypes as all_dtypes
from onnx_compat.ir.dtypes import DType

_BOUNDED = {  # where it is smooth enough to be compared
    "sin": 30, "cos": 30, "tan": 1.4, "asin": 1, "acos": 1, "atanh": 0.95, "sinh": 5, "cosh": 5, "exp": 8,
}  # fmt: skip


@case(
    "neg abs sign exp log sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf sigmoid floor ceil round "
    "is_nan is_inf logical_not bitwise_not string_lower string_upper"
)
def unary(make: Making) -> Any:
    make.exact = make.name in ("neg", "abs", "logical_not", "bitwise_not", "floor", "ceil", "round")
    if make.dtype.kind == "c":
        make.exact = make.name == "neg"
    shape = make.shape()
    array = make.values(shape)
    bound = _BOUNDED.get(make.name)
    if bound is not None and make.dtype.kind == "f":
        array = make.within(shape, -bound, bound)
        if make.flavour.values == "special":
            array = make.mix(array, [np.nan, np.inf, -np.inf, 0.0, -0.0]).astype(array.dtype)
    if make.name == "acosh":
        array = make.dtype.round(np.abs(array) + 1)
    make.feed(array)
    return getattr(primitives, make.name)


@case(
    "add sub mul div floordiv mod fmod pow atan2 maximum minimum equal less less_equal logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor shift_left shift_right"
)
def binary(make: Making) -> Any:
    make.exact = False
    full = make.shape()
    shapes = [full, make.narrow(full)]
    if make.yes():
        shapes.reverse()
    arrays = _operands(make, *shapes)
    if make.name in ("div", "floordiv", "mod", "fmod") and make.dtype.kind in "iu":
        make.ignored = np.broadcast_to(arrays[1] == 0, np.broadcast(*arrays).shape)
    first = make.feed(arrays[0])
    second = make.feed_or_fix(arrays[1])
    return lambda *tensors: getattr(primitives, make.name)(tensors[first], second(tensors))


def _operands(make: Making, left: Any, right: Any) -> Any:
    """Return two arrays. They hold numbers without rounding where a difference in rounding would be visible."""
    if make.name.startswith("shift"):
        return make.values(left), make.within(right, 0, make.dtype.bits + 3)
    if make.name == "pow":
        if make.dtype.kind == "f":
            return make.within(left, 0.2, 4), make.within(right, -3, 3)
        return make.values(left), make.values(right) if make.flavour.values == "extreme" else make.within(right, 0, 6)
    if make.name in ("floordiv", "mod", "fmod") and make.dtype.kind == "f":
        whole = np.ldexp(make.within(left, -20, 20, DType.of("int32")).astype(np.float64), -1)
        halves = np.exp2(make.within(right, -2, 2, DType.of("int32")).astype(np.float64))
        signs = make.within(right, 0, 1, DType.of("int32")) * 2 - 1
        return make.dtype.round(whole), make.dtype.round(halves * signs)
    if make.name in ("add", "sub", "mul", "div") and make.flavour.values == "extreme" and make.dtype.kind == "f":
        return make.values(left, values="special"), make.values(right, values="special")
    return make.values(left), make.values(right)


@case("where")
def where(make: Making) -> Any:
    full = make.shape()
    condition = make.feed(make.values(make.narrow(full), all_dtypes.bool_), all_dtypes.bool_)
    x = make.feed_or_fix(make.values(full))
    y = make.feed_or_fix(make.values(make.narrow(full)))
    return lambda *tensors: primitives.where(tensors[condition], x(tensors), y(tensors))


_SOURCES = ["float32", "int64", "int32", "uint8", "bool", "float64", "float16", "int8"]


@case("cast")
def cast(make: Making) -> Any:
    """Cast another dtype to the dtype under test."""
    source = DType.of(make.choose([name for name in _SOURCES if name != make.dtype.name]))
    if make.dtype.kind == "c":
        source = all_dtypes.complex128 if make.dtype.name == "complex64" else all_dtypes.complex64
    array = make.values(make.shape(), source)
    if source.kind == "f" and make.dtype.kind in "iu":
        with np.errstate(all="ignore"):
            whole = np.trunc(array.astype(np.float64))
            make.ignored = ~((whole >= float(make.dtype.min)) & (whole < float(make.dtype.max) + 1))
    make.feed(array, source)
    make.note(dtype=make.dtype)
    return lambda x: primitives.cast(x, make.dtype)


@case("clip")
def clip(make: Making) -> Any:
    low, high = make.choose([(-2, 3), (0, None), (None, 6), (1, 1), (0, 6), (-1e9, 1e9)])
    make.note(low=low, high=high)
    make.feed(make.values(make.shape()))
    return lambda x: primitives.clip(x, low, high)

"""Elementwise primitives of the reference, compared with Python's own arithmetic."""

import math
import warnings
from typing import Any, Iterator

import numpy as np
import pytest

from onnx_compat import primitives
from onnx_compat.ir.dtypes import DType
from onnx_compat.tracing.values import lift

FLOATS = [np.float16, np.float32, np.float64]
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]


@pytest.fixture(autouse=True)
def _no_warning_leaks() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def _of(name: str, *operands: Any, **params: Any) -> Any:
    result = getattr(primitives, name)(*operands, **params)
    return result.value


def _extremes(dtype: Any) -> Any:
    info = np.iinfo(dtype)
    return [info.min, info.min + 1, -3, -1, 0, 1, 2, 7, info.max - 1, info.max] if info.min else [0, 1, 2, 7, info.max]


def _wrap(number: int, dtype: Any) -> int:
    info = np.iinfo(dtype)
    return (number - info.min) % (info.max - info.min + 1) + int(info.min)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("add", lambda x, y: x + y),
        ("sub", lambda x, y: x - y),
        ("mul", lambda x, y: x * y),
        ("div", lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)),
        ("floordiv", lambda x, y: x // y),
        ("mod", lambda x, y: x % y),
        ("fmod", lambda x, y: x - y * (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))),
        ("maximum", max),
        ("minimum", min),
        ("bitwise_and", lambda x, y: x & y),
        ("bitwise_or", lambda x, y: x | y),
        ("bitwise_xor", lambda x, y: x ^ y),
    ],
)
def test_integers_are_exact_and_wrap(name: str, meaning: Any, dtype: Any) -> None:
    pairs = [(x, y) for x in _extremes(dtype) for y in _extremes(dtype)]
    x, y = (np.asarray(side, dtype) for side in zip(*pairs))
    result = _of(name, x, y)
    assert result.dtype == dtype
    for got, (left, right) in zip(result, pairs):
        if right != 0 or name not in ("div", "floordiv", "mod", "fmod"):
            assert int(got) == _wrap(meaning(left, right), dtype), (name, left, right)


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
def test_integers_of_one_operand_wrap(dtype: Any) -> None:
    x = _extremes(dtype)
    for name, meaning in [("neg", lambda n: -n), ("abs", abs), ("sign", lambda n: (n > 0) - (n < 0))]:
        assert _of(name, np.asarray(x, dtype)).tolist() == [_wrap(meaning(n), dtype) for n in x]
    assert _of("bitwise_not", np.asarray(x, dtype)).tolist() == [_wrap(~n, dtype) for n in x]


@pytest.mark.parametrize("dtype", SIGNED)
def test_integer_powers(dtype: Any) -> None:
    x, y = np.asarray([-2, -1, 0, 1, 2, 3], dtype)[:, None], np.asarray([0, 1, 2, 3, 5, 70], dtype)
    expected = [[_wrap(int(a) ** int(b), dtype) for b in y] for a in x[:, 0]]
    assert _of("pow", x, y).tolist() == expected
    negative = _of("pow", np.asarray([-2, -1, -1, 1, 5], dtype), np.asarray([-1, -1, -2, -3, -2], dtype))
    assert negative.tolist() == [0, -1, 1, 1, 0]


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_shifts_beyond_the_width_give_zero(dtype: Any) -> None:
    bits = 8 * np.dtype(dtype).itemsize
    y = np.asarray([0, 1, bits - 1, bits, bits + 1, 255], dtype)
    x = np.full(y.shape, np.iinfo(dtype).max - 4, dtype)
    assert _of("shift_left", x, y).tolist() == [_wrap(int(x[0]) << int(n), dtype) for n in y]
    assert _of("shift_right", x, y).tolist() == [int(x[0]) >> int(n) for n in y]


_UNARY = {
    "exp": math.exp,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "tanh": math.tanh,
    "asinh": math.asinh,
    "erf": math.erf,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
    "log": lambda x: math.log(x) if x > 0 else -math.inf if x == 0 else math.nan,
    "sqrt": lambda x: math.sqrt(x) if x >= 0 else math.nan,
    "asin": lambda x: math.asin(x) if abs(x) <= 1 else math.nan,
    "acos": lambda x: math.acos(x) if abs(x) <= 1 else math.nan,
    "acosh": lambda x: math.acosh(x) if x >= 1 else math.nan,
    "atanh": lambda x: math.atanh(x) if abs(x) < 1 else math.copysign(math.inf, x) if abs(x) == 1 else math.nan,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", sorted(_UNARY))
def test_functions_of_one_number(name: str, dtype: Any) -> None:
    x = np.concatenate([np.linspace(-6, 6, 97), [0.5, 1.5, 2.5, -0.5, -1.5]]).astype(dtype)
    result = _of(name, x)
    assert result.dtype == dtype
    expected = np.asarray([_UNARY[name](float(number)) for number in x])
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=8 * np.finfo(dtype).eps, atol=1e-7)


def test_erf_to_the_last_bits() -> None:
    x = np.concatenate([np.linspace(-7, 7, 20001), np.logspace(-300, 0, 200)])
    np.testing.assert_allclose(_of("erf", x), [math.erf(number) for number in x], rtol=4e-16)


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_and_infinity(dtype: Any) -> None:
    nan, inf = math.nan, math.inf
    x = np.asarray([nan, inf, -inf, -0.0], dtype)
    assert _of("is_nan", x).tolist() == [True, False, False, False]
    assert _of("is_inf", x).tolist() == [False, True, True, False]
    np.testing.assert_array_equal(_of("erf", x), np.asarray([nan, 1, -1, 0], dtype))
    np.testing.assert_array_equal(_of("sigmoid", x), np.asarray([nan, 1, 0, 0.5], dtype))
    np.testing.assert_array_equal(_of("sign", x), np.asarray([nan, 1, -1, 0], dtype))
    np.testing.assert_array_equal(_of("clip", x, -1, 2), np.asarray([nan, 2, -1, 0], dtype))
    for name, bound in [("maximum", 3), ("minimum", -3)]:
        both = _of(name, x, np.asarray(bound, dtype)), _of(name, np.asarray(bound, dtype), x)
        assert np.isnan(both[0][0]) and np.isnan(both[1][0])
    assert _of("equal", x, x).tolist() == [False, True, True, True]
    assert _of("less_equal", x, x).tolist() == [False, True, True, True]
    assert np.signbit(_of("neg", np.asarray(0, dtype)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainders_of_floats(dtype: Any) -> None:
    x, y = np.asarray([5.5, -5.5, 5.5, -5.5, 6.0], dtype), np.asarray([2, 2, -2, -2, -3], dtype)
    assert _of("mod", x, y).tolist() == [1.5, 0.5, -0.5, -1.5, 0.0]
    assert _of("fmod", x, y).tolist() == [1.5, -1.5, 1.5, -1.5, 0.0]
    assert _of("floordiv", x, y).tolist() == [2, -3, -3, 2, -2]
    zero = np.zeros((), dtype)
    assert np.isnan(_of("mod", x, zero)).all() and np.isnan(_of("fmod", x, zero)).all()


def test_division_by_zero_raises_nothing() -> None:
    for name in ("div", "floordiv", "mod", "fmod"):
        for dtype in SIGNED + UNSIGNED:
            assert _of(name, np.asarray(_extremes(dtype), dtype), np.asarray(0, dtype)).dtype == dtype
    assert _of("div", np.float32(1), np.float32(0)) == np.inf


@pytest.mark.parametrize("dtype", [*FLOATS, *SIGNED, *UNSIGNED])
def test_scalars_stay_scalars_of_their_dtype(dtype: Any) -> None:
    for result in (
        _of("add", dtype(3), dtype(4)),
        _of("clip", dtype(9), 0, 6),
        _of("reduce_sum", np.ones((2,), dtype)),
    ):
        assert isinstance(result, np.ndarray) and result.shape == () and result.dtype == dtype


def test_bounds_outside_of_an_integer_dtype() -> None:
    assert _of("clip", np.asarray([0, 200, 255], np.uint8), -7.5, 1e9).tolist() == [0, 200, 255]
    assert _of("clip", np.asarray([-128, 5, 127], np.int8), -2.5, 2.5).tolist() == [-2, 2, 2]


def test_casts() -> None:
    def cast(values: Any, source: str, target: str) -> Any:
        return primitives.cast(
            lift(np.asarray(values, DType.of(source).numpy), DType.of(source)), DType.of(target)
        ).value

    assert cast([2.9, -2.9, 0.4], "float32", "int32").tolist() == [2, -2, 0]
    assert cast([300, -1, 128], "int32", "uint8").tolist() == [44, 255, 128]
    assert cast([300, -1, 128], "int32", "int8").tolist() == [44, -1, -128]
    assert cast([math.nan, 0.0, -0.0, 0.1], "float32", "bool").tolist() == [True, False, False, True]
    assert cast([True, False], "bool", "float16").tolist() == [1, 0]
    assert cast([9, -9, 7], "int32", "int4").tolist() == [-7, 7, 7]
    assert np.array_equal(np.isnan(cast([1e9, -1e9, 449], "float32", "float8e4m3fn")), [True, True, False])
    assert cast([1e9, -1e9, 1.06], "float32", "float8e5m2").tolist() == [math.inf, -math.inf, 1.0]
    assert cast([1e9, -1e9, 1.06], "float32", "float4e2m1").tolist() == [6, -6, 1.0]
    assert cast([1.00390625, 1.01171875], "float64", "bfloat16").tolist() == [1.0, 1.015625]
    assert cast([1 + 2j], "complex64", "float32").tolist() == [1]
    assert cast([math.nan, math.inf, -1e30], "float64", "int64").dtype == np.int64


def test_carried_dtypes_are_rounded_to_their_values() -> None:
    unit, small = lift(1.0, DType.of("bfloat16")), lift(0.00390625, DType.of("bfloat16"))
    assert float(primitives.add(unit, small).value) == 1.0
    many = lift(np.full(1000, 0.25, np.float32), DType.of("bfloat16"))
    assert float(primitives.reduce_sum(many).value) == 250.0
    seven = lift(7, DType.of("int4"))
    assert int(primitives.add(seven, seven).value) == -2
    assert int(primitives.shift_left(lift(9, DType.of("uint4")), lift(1, DType.of("uint4"))).value) == 2


def test_strings() -> None:
    x = np.asarray(["Straße", "İ", ""], object)
    assert _of("string_upper", x).tolist() == ["STRASSE", "İ", ""]
    assert _of("string_lower", np.asarray("ÉTÉ", object)).item() == "été"
    assert _of("equal", x, np.asarray(["", "İ", ""], object)).tolist() == [False, True, True]
    assert _of("where", np.asarray([True, False, True]), x, np.asarray("z", object)).tolist() == ["Straße", "z", ""]

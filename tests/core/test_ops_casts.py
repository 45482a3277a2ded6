"""Casts between texts, floats of few bits and integers, and reinterpretations of bits."""

from typing import Any, List

import numpy as np
import pytest
from meanings import apply_operator, meaning, record_function

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import DType
from onnx_compat.tracing.values import Tensor, lift

STRING = DType.of("string").onnx


def small_floats(values: List[float], name: str) -> Tensor:
    """Return a known tensor of a dtype that numpy lacks."""
    return p.cast(lift(np.float32(values)), DType.of(name))


def array(tensor: Tensor) -> Any:
    assert tensor.value is not None
    return tensor.value


def cast(x: Any, name: str, opset: int = 24, **attributes: Any) -> Tensor:
    result = meaning("Cast", opset)(x, to=DType.of(name).onnx, **attributes)
    assert result.dtype.name == name
    return result


# -- texts -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (np.float32([0.1, 1e20]), ["0.1", "1e+20"]),
        (np.float64([0.1]), ["0.1"]),
        (np.int64([-3, 7]), ["-3", "7"]),
        (np.float32([np.nan, -np.inf]), ["nan", "-inf"]),
    ],
)
def test_a_number_becomes_the_text_of_its_own_dtype(values: Any, texts: List[str]) -> None:
    assert apply_operator("Cast", 13, values, to=STRING).tolist() == texts


def test_a_bfloat16_becomes_the_text_of_its_value() -> None:
    assert array(cast(small_floats([0.5, -2], "bfloat16"), "string")).tolist() == ["0.5", "-2.0"]


@pytest.mark.parametrize(
    ("name", "numbers"), [("float32", [1.5, -2.0]), ("int64", [1, -2]), ("bfloat16", [1.5, -2.0]), ("int32", [1, -2])]
)
def test_a_text_becomes_a_number(name: str, numbers: List[float]) -> None:
    """A text of a float becomes an integer as the float does: it truncates."""
    result = cast(np.array(["1.5", "-2"], object), name)
    assert array(result).tolist() == numbers


# -- numbers -----------------------------------------------------------------------------------------------------------
def test_a_cast_to_the_same_dtype_is_the_tensor_itself() -> None:
    x = lift(np.float32([1, 2]))
    assert cast(x, "float32") is x


def test_a_float_is_clipped_to_an_integer_of_four_bits() -> None:
    assert array(cast(np.float32([99, -99, -0.5, 3.7, np.nan]), "int4", 21)).tolist() == [7, -8, 0, 3, 7]


def test_a_number_wraps_in_four_bits() -> None:
    """An integer wraps in each opset, and a float wraps in opset 24."""
    assert array(cast(np.float32([99, -0.5]), "int4", 24)).tolist() == [3, 0]
    assert array(cast(np.int32([9, -9, 3]), "int4", 21)).tolist() == [-7, 7, 3]


@pytest.mark.parametrize(("saturate", "largest"), [(1, 448.0), (0, np.nan)])
def test_a_large_number_saturates_in_eight_bits_or_becomes_nan(saturate: int, largest: float) -> None:
    result = array(cast(np.float32([1e6, 2]), "float8e4m3fn", 19, saturate=saturate))
    np.testing.assert_array_equal(np.float32(result), np.float32([largest, 2]))


def test_a_large_number_saturates_in_a_float_of_four_bits() -> None:
    assert np.float32(array(cast(np.float32([100, -100, 1.5]), "float4e2m1", 23))).tolist() == [6, -6, 1.5]


@pytest.mark.parametrize(("round_mode", "numbers"), [("up", [4, 4]), ("down", [2, 4]), ("nearest", [4, 4])])
def test_the_round_mode_selects_the_power_of_two(round_mode: str, numbers: List[float]) -> None:
    result = array(cast(np.float32([3, 4]), "float8e8m0", 24, round_mode=round_mode))
    assert np.float32(result).tolist() == numbers


# -- bits --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "values", "target", "expected"),
    [
        ("float32", [1.0], "int32", [0x3F800000]),
        ("bfloat16", [1.0, -2.0], "uint16", [0x3F80, 0xC000]),
        ("bfloat16", [1.0], "float16", [1.875]),
        ("float8e4m3fn", [1.0, -448.0], "uint8", [0x38, 0xFE]),
        ("float8e5m2", [1.0], "uint8", [0x3C]),
        ("uint8", [0x38, 0xFE], "float8e4m3fn", [1.0, -448.0]),
        ("uint16", [0x3F80], "bfloat16", [1.0]),
        ("float8e5m2", [1.0], "float8e4m3fn", [1.5]),
        ("bool", [True, False], "uint8", [1, 0]),
        ("uint8", [2, 0], "bool", [True, False]),
        ("float32", [1.5], "float32", [1.5]),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_the_bits_of_one_dtype_are_read_as_another(
    source: str, values: List[Any], target: str, expected: List[Any], is_known: bool
) -> None:
    x = array(p.cast(lift(np.asarray(values)), DType.of(source)))
    if is_known:
        result = array(p.bitcast(Tensor(DType.of(source), x.shape, x), DType.of(target)))
    else:
        record = record_function(lambda x: p.bitcast(x, DType.of(target)), [None], dtype=source)
        result = record(x)
    assert result.dtype == DType.of(target).numpy
    assert [float(item) for item in result] == [float(item) for item in expected]


@pytest.mark.parametrize(("name", "storage"), [("float32", "float32"), ("string", "str objects")])
def test_the_storage_of_a_native_dtype(name: str, storage: str) -> None:
    assert DType.of(name).storage == storage


def test_the_storage_of_a_carried_dtype_names_its_carrier() -> None:
    dtype = DType.of("bfloat16")
    assert dtype.storage == "%s values" % dtype.numpy.name


def test_the_limits_of_bool() -> None:
    assert (DType.of("bool").min, DType.of("bool").max) == (False, True)

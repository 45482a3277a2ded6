"""Lists and carrier arrays as inputs: they are converted exactly to the declared dtype, or refused."""

from typing import Any, List

import numpy as np
import pytest
from test_feeds import BFLOAT16, assert_pair, feed

from onnx_compat.errors import InputError
from onnx_compat.execution.feeds import MapItems
from onnx_compat.ir.dtypes import DType, string
from onnx_compat.model import TensorType

TEXTS = TensorType(string, (None,))


@pytest.mark.parametrize("value", [["a", "é"], [b"a", "é".encode()], ("a", b"\xc3\xa9")])
def test_a_list_of_texts_is_decoded(value: Any) -> None:
    assert_pair(feed(value, TEXTS), ["a", "é"], string)


@pytest.mark.parametrize("convert", [list, lambda numbers: np.array(numbers, np.float32)])
def test_numbers_are_rounded_to_a_type_without_a_numpy_dtype(convert: Any) -> None:
    """Both a list and a carrier array. A number beyond the range overflows as in ml_dtypes, and is not clipped."""
    array, dtype = feed(convert([1.001, -3.0, np.inf]), TensorType(BFLOAT16, (None,)))
    assert (array.tolist(), array.dtype, dtype) == ([1.0, -3.0, np.inf], np.float32, BFLOAT16)
    array, _ = feed(convert([17.0, 1000.0]), TensorType(DType.of("float8e4m3fn"), (None,)))
    assert array[0] == 16 and np.isnan(array[1])


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [("int4", [8]), ("int4", [0, -9]), ("uint4", [16]), ("uint2", [4]), ("int2", [1, -3])],
)
def test_an_integer_that_a_narrow_type_cannot_hold_is_refused(dtype: str, numbers: List[int]) -> None:
    declared = TensorType(DType.of(dtype), (None,))
    for given in (numbers, np.array(numbers, DType.of(dtype).numpy)):
        with pytest.raises(InputError, match="the number %d in the input 'a' does not fit %s" % (numbers[-1], dtype)):
            feed(given, declared)
    assert_pair(feed([1], declared), [1], DType.of(dtype))


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [("uint8", [300]), ("uint8", [-1]), ("int32", [2**40]), ("int64", [2**63]), ("int64", [1.5]), ("int64", [np.inf])],
)
def test_a_number_that_an_integer_type_cannot_hold_is_refused(dtype: str, numbers: List[Any]) -> None:
    declared = TensorType(DType.of(dtype), (None,))
    with pytest.raises(InputError, match="the input 'a' (does not fit|cannot be read as) %s" % dtype):
        feed(numbers, declared)
    assert_pair(feed([2.0, 3], declared), [2, 3], DType.of(dtype))


def test_the_carrier_of_one_type_is_not_that_of_another() -> None:
    """Each of the two is carried in float32 or int8. ml_dtypes arrays of one are no carrier arrays of the other."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    with pytest.raises(InputError, match="the input 'a' is bfloat16, the model takes float8e5m2"):
        feed(np.ones(1, ml_dtypes.bfloat16), TensorType(DType.of("float8e5m2"), (None,)))
    with pytest.raises(InputError, match="the input 'a' is int4, the model takes int2"):
        feed(np.ones(1, ml_dtypes.int4), TensorType(DType.of("int2"), (None,)))


@pytest.mark.parametrize(("key", "dtype"), [(2**40, "int32"), (2**70, "int64"), (-1, "uint8")])
def test_a_key_that_the_type_of_the_keys_cannot_hold_is_refused(key: int, dtype: str) -> None:
    with pytest.raises(InputError, match="does not fit %s" % dtype):
        MapItems.from_mapping({1: 1.0, key: 2.0}, "a", DType.of(dtype))

"""Element types: names, sizes, and the values of the small floats bit for bit."""

import copy
import pickle
import sys
import warnings

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType, from_public, to_public
from onnx_compat.ir.minifloat import FORMATS

SMALL = [element_type for element_type in dtypes.ALL if element_type.format is not None]


def every_code(dtype):
    return np.arange(1 << dtype.bits).astype(dtype.format.code_type)


def same(left, right):
    """Return whether values and signs of zeros are equal. NaN equals NaN."""
    nan = np.isnan(left)
    return (
        np.array_equal(nan, np.isnan(right))
        and np.array_equal(np.where(nan, 0, left), np.where(nan, 0, right))
        and np.array_equal(np.signbit(left) | nan, np.signbit(right) | nan)
    )


def test_every_type_of_onnx_is_known_by_number():
    ours = {element_type.onnx: element_type for element_type in dtypes.ALL}
    for name, number in onnx.TensorProto.DataType.items():
        if number:
            spelling = {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower())
            assert ours[number].name == spelling
    assert sorted(ours) == list(range(1, 29))


@pytest.mark.parametrize("element_type", dtypes.ALL, ids=str)
def test_lookup(element_type):
    assert (
        DType.of(element_type.onnx)
        is DType.of(element_type.name)
        is DType.of("tensor(%s)" % element_type.spelling)
        is DType.of(element_type)
        is element_type
    )
    assert pickle.loads(pickle.dumps(element_type)) is copy.deepcopy(element_type) is element_type  # noqa: S301
    if element_type.native:
        assert DType.of(element_type.numpy) is DType.of(np.zeros(2, element_type.numpy)) is element_type


def test_lookup_of_other_spellings():
    assert DType.of(np.float32) is DType.of(np.dtype(">f4")) is DType.of("float") is dtypes.float32
    assert DType.of(np.array(["a"])) is DType.of(np.array([b"a"])) is DType.of(str) is dtypes.string
    for wrong in (0, 29, -1, "float7", np.dtype("M8[s]"), "tensor(nothing)", None, True, [1], object()):
        with pytest.raises(UnsupportedError):
            DType.of(wrong)


def test_limits():
    assert (dtypes.int4.min, dtypes.int4.max, dtypes.uint2.max, dtypes.int2.min) == (-8, 7, 3, -2)
    assert (dtypes.int64.min, dtypes.uint64.max) == (-(2**63), 2**64 - 1)
    assert (dtypes.float8e4m3fn.max, dtypes.float8e5m2.max, dtypes.float4e2m1.max) == (448, 57344, 6)
    assert dtypes.float8e8m0.min == 2.0**-127
    with pytest.raises(UnsupportedError):
        _ = dtypes.string.max


@pytest.mark.parametrize("element_type", SMALL, ids=str)
def test_every_code_survives_a_round_trip(element_type):
    codes = every_code(element_type)
    values = element_type.format.decode(codes)
    assert values.dtype == np.float32
    finite = ~np.isnan(values)
    assert np.array_equal(element_type.format.encode(values, saturate=False)[finite], codes[finite])
    assert np.isnan(element_type.format.decode(element_type.format.encode(values)))[~finite].all()
    assert (
        values[np.isfinite(values)].max() == element_type.max and values[np.isfinite(values)].min() == element_type.min
    )


@pytest.mark.parametrize("element_type", SMALL, ids=str)
def test_every_code_against_ml_dtypes(element_type):
    pytest.importorskip("ml_dtypes")
    theirs = to_public(element_type.format.decode(every_code(element_type)), element_type).dtype
    assert same(
        element_type.format.decode(every_code(element_type)), every_code(element_type).view(theirs).astype(np.float32)
    )


@pytest.mark.parametrize("wide", [np.float32, np.float64])
@pytest.mark.parametrize(
    "element_type", [element_type for element_type in SMALL if element_type is not dtypes.float8e8m0], ids=str
)
def test_rounding_against_ml_dtypes(element_type, wide):
    pytest.importorskip("ml_dtypes")
    theirs = to_public(np.float32([1]), element_type).dtype
    random = np.random.RandomState(0)
    values = random.randint(0, 2**32, 100000, np.int64).astype(np.uint32).view(np.float32)
    table = element_type.format.decode(every_code(element_type))
    middles = (
        np.unique(table[np.isfinite(table)])[:-1].astype(np.float64) + np.unique(table[np.isfinite(table)])[1:]
    ) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # casts of NaN, and those that go to infinity
        values = np.concatenate([values, random.standard_normal(100000).astype(np.float32) * 8, table, middles])
        values = values[~np.isnan(values)]
        values = values.astype(np.float32).astype(wide)
        expected = values.astype(theirs).astype(np.float32)
    assert same(element_type.round(values, saturate=False), expected)


def test_float64_is_not_rounded_twice():
    value = np.float64(1 + 2**-8 + 2**-40)  # just above the middle of two bfloat16 values; float32 would say the middle
    assert dtypes.bfloat16.round(value) == 1 + 2**-7
    assert dtypes.bfloat16.round(np.float32(value)) == 1


@pytest.mark.parametrize(
    ("name", "saturated", "plain"),
    [
        ("float8e4m3fn", 448, np.nan),
        ("float8e4m3fnuz", 240, np.nan),
        ("float8e5m2", 57344, np.inf),
        ("float8e5m2fnuz", 57344, np.nan),
        ("bfloat16", np.inf, np.inf),
        ("float4e2m1", 6, 6),
    ],
)
def test_the_table_of_cast(name, saturated, plain):
    element_type = DType.of(name)
    large = np.float32([np.inf, -np.inf, 3.4e38, -3.4e38])
    signs = np.float32([1, -1, 1, -1])
    assert np.array_equal(element_type.round(large), saturated * signs)
    assert np.array_equal(np.nan_to_num(element_type.round(large, saturate=False)), np.nan_to_num(plain * signs))
    assert np.isnan(element_type.round(np.nan)) or name == "float4e2m1"
    assert np.signbit(element_type.round(np.float32(-0.0))) == (not name.endswith("uz"))


def test_scales():
    values = np.float32([0.3, 1, 1.1, 1.5, 1.9, 3.0, 0, np.inf, 2.0**-127])
    element_type = dtypes.float8e8m0
    low = 2.0**-127
    up = [0.5, 1, 2, 2, 2, 4, low, element_type.max, low]
    assert np.array_equal(element_type.round(values, mode="up"), np.float32(up))
    assert np.array_equal(element_type.round(values[:6], mode="down"), np.float32([0.25, 1, 1, 1, 1, 2]))
    assert np.array_equal(element_type.round(values[:6], mode="nearest"), np.float32([0.25, 1, 1, 2, 2, 4]))
    assert np.isnan(element_type.round([0.0, np.inf, np.nan, -1.0], saturate=False)).all()
    with pytest.raises(ValueError, match="sideways"):
        element_type.round(1.0, mode="sideways")


@given(
    st.lists(st.integers(-(2**40), 2**40)),
    st.sampled_from([element_type for element_type in dtypes.ALL if element_type.bits in (2, 4)]),
)
def test_small_integers_wrap(values, element_type):
    if element_type.kind == "f":
        return
    wrapped = element_type.round(np.array(values, np.int64))
    assert wrapped.dtype == element_type.numpy
    for value, got in zip(values, wrapped):
        assert element_type.min <= got <= element_type.max and (int(got) - value) % (1 << element_type.bits) == 0


@pytest.mark.parametrize("element_type", dtypes.ALL, ids=str)
def test_arrays_of_users_survive_a_round_trip(element_type):
    if element_type.kind == "s":
        carrier = np.array(["a", "ü", ""], object)
    elif element_type.format is not None:
        carrier = element_type.format.decode(every_code(element_type))
    else:
        carrier = np.array([0, 1, 1], element_type.numpy)
    public = to_public(carrier, element_type)
    back, dtype = from_public(public)
    assert back.dtype == element_type.numpy and back.shape == carrier.shape
    if element_type.native or public.dtype != carrier.dtype:
        assert dtype is element_type
    assert same(back, carrier) if element_type.kind == "f" else np.array_equal(back, carrier)


def test_from_public():
    array, dtype = from_public(np.array([b"x\xff", b"y"]))
    assert dtype is dtypes.string and array[1] == "y" and array[0].encode("utf-8", "surrogateescape") == b"x\xff"
    array, dtype = from_public(np.arange(3, dtype=">i4"))
    assert array.dtype == np.int32 and array.dtype.isnative and array.tolist() == [0, 1, 2] and dtype is dtypes.int32
    assert from_public(1.5)[1] is dtypes.float64
    with pytest.raises(UnsupportedError):
        from_public(np.array([1, "a"], object))
    with pytest.raises(UnsupportedError):
        from_public(np.array(["2020-01-01"], "M8[D]"))


def test_ml_dtypes_is_not_imported_by_looking():
    import subprocess

    code = "import sys, onnx_compat.ir.dtypes; sys.exit('ml_dtypes' in sys.modules)"
    assert subprocess.call([sys.executable, "-c", code]) == 0


def test_formats_are_those_of_the_types():
    assert {element_type.name for element_type in SMALL} == set(FORMATS)
    for element_type in SMALL:
        assert element_type.format.bits == element_type.bits

"""Types that numpy lacks, read from recorded files: the values equal those of onnx and ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from matrix.suites import values

NUMBERS = sorted(values._SMALL)


def _all(number: int) -> Any:
    """Return an array of every value of a type."""
    small = values._SMALL[number]
    if not small.exponent:
        low = -(1 << (small.bits - 1)) if small.name.startswith("int") else 0
        return np.arange(low, low + (1 << small.bits)).astype(getattr(ml_dtypes, small.name))
    codes = np.arange(1 << small.bits, dtype=np.uint16 if small.bits == 16 else np.uint8)
    return codes.view(getattr(ml_dtypes, small.name))


def _whole(raw: TensorProto, bits: int, array: Any) -> list[int]:
    """Return the content of the typed field: packed like the raw field, or one entry per element for 6-bit types."""
    if bits == 6:
        return array.view(np.uint8).tolist()
    return np.frombuffer(raw.raw_data, np.uint16 if bits == 16 else np.uint8).tolist()


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("length", [3, 4, None])
@pytest.mark.parametrize("known", [True, False], ids=["as ml_dtypes", "carried"])
def test_every_value_is_read(number: int, length: int | None, known: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = _all(number)[:length]
    raw = numpy_helper.from_array(wanted)
    typed = TensorProto(dims=raw.dims, data_type=number, int32_data=_whole(raw, values._SMALL[number].bits, wanted))
    if not known:
        monkeypatch.setattr(values, "_ml_dtype", lambda _: None)
    for tensor in (raw, typed):
        got = values.read_tensor(tensor)
        assert got.dtype == (wanted.dtype if known else values._SMALL[number].carrier)
        with np.errstate(invalid="ignore"):  # NaNs that signal
            np.testing.assert_array_equal(got.astype(np.float64), wanted.astype(np.float64))


def test_every_type_is_read_that_onnx_has() -> None:
    for number in TensorProto.DataType.values():
        if number:
            tensor = helper.make_tensor("x", number, [2], [b"a", b"b"] if number == TensorProto.STRING else [1, 1])
            np.testing.assert_array_equal(values.read_tensor(tensor), numpy_helper.to_array(tensor))


def test_text_is_python_text() -> None:
    tensor = helper.make_tensor("x", TensorProto.STRING, [1], ["\u00e9".encode()])
    assert values.read_tensor(tensor).dtype == object
    assert values.read_tensor(tensor)[0] == "\u00e9"


def _value(kind: str, message: Any) -> Any:
    type_ = onnx.TypeProto()
    getattr(type_, kind).SetInParent()
    return values.read_value(type_, message.SerializeToString())


def test_maps_sequences_and_optionals() -> None:
    unit_vector = np.ones(2, np.float32)
    by_number = numpy_helper.from_dict({3: np.array(1.5), 4: np.array(2.5)})
    by_text = onnx.MapProto(
        key_type=TensorProto.STRING, string_keys=[b"a"], values=numpy_helper.from_list([np.array(1.5)])
    )
    assert _value("map_type", by_number) == {3: 1.5, 4: 2.5}
    assert _value("map_type", by_text) == {"a": 1.5}
    assert _value("sequence_type", numpy_helper.from_list([{3: np.array(1.5)}])) == [{3: 1.5}]
    assert _value("sequence_type", numpy_helper.from_list([[unit_vector], []]))[0][0].tolist() == [1, 1]
    assert _value("optional_type", numpy_helper.from_optional(None)) is None
    assert _value("optional_type", onnx.OptionalProto(elem_type=onnx.OptionalProto.TENSOR)) is None
    assert _value("optional_type", numpy_helper.from_optional([unit_vector]))[0].tolist() == [1, 1]
    assert _value("optional_type", numpy_helper.from_optional(unit_vector)).tolist() == [1, 1]


def test_bits_are_a_bfloat16_if_the_graph_declares_it() -> None:
    bits = numpy_helper.from_array(np.array([0x3F80, 0xC000], np.uint16)).SerializeToString()
    for element, wanted in ((TensorProto.BFLOAT16, [1.0, -2.0]), (TensorProto.UINT16, [0x3F80, 0xC000])):
        got = values.read_value(helper.make_tensor_type_proto(element, [2]), bits)
        assert isinstance(got, np.ndarray)
        assert got.dtype.name == ("bfloat16" if element == TensorProto.BFLOAT16 else "uint16")
        assert got.astype(np.float64).tolist() == wanted


def test_bfloat16_under_another_name() -> None:
    """Up to 1.18, onnx recorded bfloat16 as uint16. The declared type of the model decides how the bits are read."""
    stored = TensorProto(dims=[2], data_type=TensorProto.UINT16, int32_data=[0x3F80, 0xC000])
    type_ = helper.make_tensor_type_proto(TensorProto.BFLOAT16, [2])
    assert values.read_value(type_, stored.SerializeToString()).astype(np.float32).tolist() == [1.0, -2.0]
    type_ = helper.make_tensor_type_proto(TensorProto.UINT16, [2])
    assert values.read_value(type_, stored.SerializeToString()).dtype == np.uint16

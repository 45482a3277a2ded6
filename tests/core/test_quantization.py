"""Quantisation options: the arguments that the shim gets, and the arguments that are refused."""

import os
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from building import model, node, relu_model, value
from registered import register

import onnx_compat
from onnx_compat.errors import ConversionError, InputError, UnsupportedError
from onnx_compat.reference.shim import ReferenceShim
from onnx_compat.shim.interface import Quantization, Scheme


class Writer(ReferenceShim):
    """A fake shim. It writes a word, and `quantize` shortens the word."""

    name = "writer"
    formats = {"word": (".tflite", "word"), "plain": ("", "file that cannot be quantised")}
    schemes = {
        "word": (
            Scheme("small", "short", 1),
            Scheme("learnt", "short", 1, calibrated=True),
            Scheme("cut", "", 1, blocks=True),
            Scheme("whole", "", 1, port_types=("int8", "uint8")),
        )
    }

    def __init__(self) -> None:
        super().__init__()
        self.quantizations: List[Quantization] = []
        self.seen: List[Any] = []

    def export(self, program: Any, path: str, file_format: str) -> None:
        Path(path).write_text("float")

    def quantize(self, path: str, file_format: str, quantization: Quantization) -> None:
        assert Path(path).read_text() == "float"
        self.quantizations.append(quantization)
        Path(path).write_text(quantization.scheme.kind)
        self.seen = list(quantization.samples)
        if len(self.seen) == 3:
            raise UnsupportedError("three is too many")


@pytest.fixture(name="writer")
def _writer(monkeypatch: pytest.MonkeyPatch) -> Writer:
    shim = Writer()
    register(monkeypatch, shim)
    return shim


def convert(path: Path, to: str = "word", **options: Any) -> Path:
    return onnx_compat.convert(relu_model(), path / "m.tflite", to=to, **options)


def test_the_shim_gets_the_requested_quantisation(writer: Writer, tmp_path: Path) -> None:
    assert convert(tmp_path).read_text() == "float"
    assert convert(tmp_path, quantize="small").read_text() == "small"
    assert convert(tmp_path, quantize="cut", block_size=np.int64(8)).read_text() == "cut"
    assert [(quantization.scheme.kind, quantization.block) for quantization in writer.quantizations] == [
        ("small", None),
        ("cut", 8),
    ]
    convert(tmp_path, quantize="whole", input_type="uint8", output_type="float32")
    assert (writer.quantizations[-1].input_type, writer.quantizations[-1].output_type) == ("uint8", None)
    assert convert(tmp_path, quantize="learnt", calibrate=np.ones((2, 3), np.float32)).read_text() == "learnt"
    assert [sample["x"].tolist() for sample in writer.seen] == [[[1, 1, 1]]] * 2
    assert os.listdir(str(tmp_path)) == ["m.tflite"]


@pytest.mark.parametrize(
    ("error", "reason", "options"),
    [
        (ConversionError, "no quantisation of the kind 'smal'", {"quantize": "smal"}),
        (ConversionError, "no quantisation of the kind 8", {"quantize": 8}),
        (ConversionError, "the kind 'small' takes no block size 32", {"quantize": "small", "block_size": 32}),
        (ConversionError, "the kind 'cut' takes no block size 0", {"quantize": "cut", "block_size": 0}),
        (ConversionError, "the kind 'cut' takes no block size True", {"quantize": "cut", "block_size": True}),
        (ConversionError, "a block size is given without a kind.*\n.*quantize='cut'$", {"block_size": 32}),
        (ConversionError, "calibration data is given without a kind", {"calibrate": "generated"}),
        (ConversionError, "outputs are int8 only.*\n.*quantize='whole'$", {"output_type": "int8"}),
        (
            ConversionError,
            "the kind 'small' has no .* of int8\n.*it has 'float32'$",
            {"quantize": "small", "input_type": "int8"},
        ),
        (ConversionError, "the kind 'whole' has no .* of int16", {"quantize": "whole", "output_type": "int16"}),
        (InputError, "none is given", {"quantize": "learnt"}),
        (InputError, "'small' uses no calibration data", {"quantize": "small", "calibrate": "generated"}),
        (InputError, "holds no sample", {"quantize": "learnt", "calibrate": []}),
        (InputError, "rank 1", {"quantize": "learnt", "calibrate": [np.ones(3, np.float32)]}),
        (UnsupportedError, "three is too many", {"quantize": "learnt", "calibrate": np.ones((3, 3), np.float32)}),
    ],
)
def test_wrong_arguments_are_refused_and_leave_no_file(
    writer: Writer, tmp_path: Path, error: Any, reason: str, options: Any
) -> None:
    (tmp_path / "m.tflite").write_text("before")
    with pytest.raises(error, match=reason) as caught:
        convert(tmp_path, **options)
    assert caught.value.hint or caught.value.shim == "writer"
    assert os.listdir(str(tmp_path)) == ["m.tflite"]
    assert (tmp_path / "m.tflite").read_text() == "before"


def test_a_format_without_schemes_is_named(writer: Writer, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="'plain' of the shim writer cannot be quantised"):
        onnx_compat.convert(relu_model(), tmp_path / "m", to="plain", quantize="small")
    with pytest.raises(ConversionError, match="no quantisation of the kind 'smalt'") as caught:
        convert(tmp_path, quantize="smalt")
    assert "did you mean 'small'" in str(caught.value)


def test_a_shim_without_quantisation_raises_an_error() -> None:
    with pytest.raises(UnsupportedError, match="quantises no file"):
        ReferenceShim().quantize("m", "word", Quantization(Scheme("small", "", 1)))


def test_calibration_data_gets_the_layout_of_the_file(writer: Writer, tmp_path: Path) -> None:
    image = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3, 4, 5])], [value("y", ["n", 3, 4, 5])])
    sample = np.arange(60, dtype=np.float32).reshape(1, 3, 4, 5)
    path = str(tmp_path / "m.tflite")
    onnx_compat.convert(image, path, "word", quantize="learnt", calibrate=[{"x": sample}], channels_last=["x"])
    ((name, seen),) = writer.seen[0].items()
    assert name == "x"
    np.testing.assert_array_equal(seen, sample.transpose(0, 2, 3, 1))

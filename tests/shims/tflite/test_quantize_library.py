"""Quantisation by ai-edge-quantizer: integer operators, unchanged names and dtypes of ports, and small errors."""

import importlib.util
import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import pytest
from networks import NETWORKS, feeds, network
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.quantize import library

import onnx_compat
from onnx_compat.errors import ConversionError, InputError, UnsupportedError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_quantizer") is None, reason="needs ai-edge-quantizer, which a cell of its own has"
)


def samples(name: str, count: int = 12) -> Iterator[Any]:
    return (feeds(name, seed, steps=4 + seed % 3) for seed in range(count))


def convert(folder: Path, name: str, kind: str, **how: Any) -> Path:
    if kind != "dynamic":
        how.setdefault("calibrate", samples(name))
    return onnx_compat.convert(network(name), folder / "m.tflite", shim="tflite", quantize=kind, **how)


@lru_cache(maxsize=None)
def quantise_once(name: str, kind: str) -> bytes:
    """Return the bytes of a network's quantised file, which several tests read."""
    with tempfile.TemporaryDirectory() as folder:
        return convert(Path(folder), name, kind).read_bytes()


@pytest.mark.parametrize("name", sorted(NETWORKS))
@pytest.mark.parametrize("kind", library.KINDS)
def test_each_kind_is_near(tmp_path: Path, kind: str, name: str) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(quantise_once(name, kind))
    report = onnx_compat.verify(network(name), feeds(name, 99), shim="tflite", converted=path, oracle="reference")
    assert report.ok, report
    assert report.outputs[0].accuracy.snr > {"dynamic": 30, "int8": 20, "int16x8": 30}[kind]
    more = onnx_compat.verify(network(name), feeds(name, 7, steps=9), shim="tflite", converted=path, oracle="reference")
    assert more.ok, more


@pytest.mark.parametrize(("kind", "values"), [("int8", "int8"), ("int16x8", "int16")])
def test_all_is_computed_with_integers(kind: str, values: str) -> None:
    model = fb.read(quantise_once("cnn", kind))
    main = model.subgraphs[0]
    names = [operator.builtin for operator in main.operators]
    assert names[0] == "QUANTIZE" and names[-1] == "DEQUANTIZE" and names.count("DEQUANTIZE") == 1
    floats = [index for index, tensor in enumerate(main.tensors) if tensor.dtype == "float32"]
    assert sorted(floats) == sorted([*main.inputs, *main.outputs])
    (convolution, *_) = [operator for operator in main.operators if operator.builtin == "CONV_2D"]
    assert main.tensors[convolution.outputs[0]].dtype == values
    assert main.tensors[convolution.inputs[1] or 0].dtype == "int8"
    assert convolution.version == {"int8": 3, "int16": 4}[values]


def test_names_and_open_sizes_stay() -> None:
    model = fb.read(quantise_once("cnn", "int8"))
    main, (signature,) = model.subgraphs[0], model.signatures
    assert list(signature.inputs) == ["x"] and list(signature.outputs) == ["y"]
    assert main.tensors[signature.inputs["x"]].shape_signature == (-1, 3, 16, 16)
    for tensor in (main.tensors[index] for index in (*main.inputs, *main.outputs)):
        assert tensor.dtype == "float32" and (tensor.quantization is None or not tensor.quantization.scale)


def test_the_ranges_are_those_of_all_samples(tmp_path: Path) -> None:
    """The order of the samples and the position of the extremes do not matter."""
    data = list(samples("mlp"))
    data[5] = {"x": data[5]["x"] * 20}
    files = {convert(tmp_path, "mlp", "int8", calibrate=order).read_bytes() for order in (data, data[::-1])}
    assert len(files) == 1
    model = fb.read(tmp_path / "m.tflite")
    (quantize,) = [operator for operator in model.subgraphs[0].operators if operator.builtin == "QUANTIZE"]
    scale = model.subgraphs[0].tensors[quantize.outputs[0]].quantization
    assert scale is not None
    values = np.concatenate([sample["x"] for sample in data])
    assert scale.scale[0] == pytest.approx((values.max() - values.min()) / 255, rel=0.01)


def test_the_body_of_a_loop_stays_float_with_weights_of_int8() -> None:
    model = fb.read(quantise_once("gru", "int8"))
    body = max(model.subgraphs[1:], key=lambda graph: len(graph.operators))
    assert "int8" in {tensor.dtype for tensor in body.tensors if tensor.buffer is not None}
    assert "int8" not in {tensor.dtype for tensor in body.tensors if tensor.buffer is None}


@pytest.mark.parametrize("kind", library.KINDS)
def test_an_lstm_stays_float_with_weights_of_int8(kind: str) -> None:
    """The operators that write its states, which are variables, stay float too."""
    main = fb.read(quantise_once("lstm", kind)).subgraphs[0]
    (kernel,) = [operator for operator in main.operators if operator.builtin == "UNIDIRECTIONAL_SEQUENCE_LSTM"]
    (begun,) = [operator for operator in main.operators if operator.builtin == "SPLIT_V"]
    assert begun.outputs == kernel.inputs[18:20] and main.tensors[begun.outputs[0]].dtype == "float32"
    written = {index: operator for operator in main.operators for index in operator.outputs}
    for index in kernel.inputs[1:9]:
        assert main.tensors[written[index].inputs[0] or 0].dtype == "int8"


@pytest.mark.parametrize(
    ("error", "reason", "data"),
    [
        (InputError, "rank 1", [np.zeros(3, np.float32)]),
        (InputError, "no sample", []),
        (InputError, "sample 1: the input 'x' has size 31", [feeds("mlp", 0), {"x": np.zeros((2, 31), np.float32)}]),
    ],
)
def test_unsuitable_data_keeps_the_old_file(tmp_path: Path, error: Any, reason: str, data: Any) -> None:
    (tmp_path / "m.tflite").write_text("before")
    with pytest.raises(error, match=reason):
        convert(tmp_path, "mlp", "int8", calibrate=data)
    assert os.listdir(str(tmp_path)) == ["m.tflite"] and (tmp_path / "m.tflite").read_text() == "before"


def test_values_that_are_too_large_are_reported(tmp_path: Path) -> None:
    data = [{"x": feeds("mlp", 0)["x"] * np.float32(1e6)}]
    with pytest.raises(UnsupportedError, match="nothing in this model") as caught:
        convert(tmp_path, "mlp", "int8", calibrate=data)
    assert "beyond 5000" in str(caught.value) and not os.listdir(str(tmp_path))


def without_scales(model: fb.ModelSpec, *_: Any) -> fb.ModelSpec:
    """Return a model with an int8 ADD whose inputs have no scale: the kernel would divide by zero."""
    main = fb.SubGraph([fb.TensorSpec("x", "float32", (2,)), fb.TensorSpec("y", "float32", (2,))], [], [0], [1])
    inner = [main.add(fb.TensorSpec(name, "int8", (2,))) for name in "abc"]
    main.tensors[inner[2]].quantization = fb.Quantization([1.0], [0])
    main.operators = [
        fb.OperatorSpec("CAST", [0], [inner[0]]),
        fb.OperatorSpec("ADD", [inner[0], inner[0]], [inner[1]]),
        fb.OperatorSpec("CAST", [inner[1]], [1]),
    ]
    return fb.ModelSpec([main])


def test_a_kernel_that_ends_the_process_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "quantize_with_library", without_scales)
    with pytest.raises(
        ConversionError, match="does not work: a kernel of the TFLite runtime ends the process"
    ) as caught:
        convert(tmp_path, "mlp", "dynamic")
    assert "try another kind" in str(caught.value) and not os.listdir(str(tmp_path))


def test_nan_results_are_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoilt(model: fb.ModelSpec, *_: Any) -> fb.ModelSpec:
        packed = fb.Quantization([float("nan")], [0])
        for tensor in model.subgraphs[0].tensors:
            if tensor.buffer is not None and tensor.dtype == "float32":
                tensor.buffer = np.full(tensor.shape, np.nan, np.float32)
        model.subgraphs[0].add(fb.TensorSpec("packed", "int8", (1,), np.zeros(1, np.int8), quantization=packed))
        return model

    monkeypatch.setenv("ONNX_COMPAT_VERIFY", "0")  # the verifier would refuse the scale before the file is run
    monkeypatch.setattr(library, "quantize_with_library", spoilt)
    with pytest.raises(ConversionError, match="NaN for the first sample"):
        convert(tmp_path, "mlp", "int8")
    assert not os.listdir(str(tmp_path))


def test_refusals_of_the_library_are_errors_with_a_hint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_calibration_values", lambda *_: {})
    with pytest.raises(ConversionError, match="cannot quantise this model as 'int8'") as caught:
        convert(tmp_path, "mlp", "int8")
    assert caught.value.hint and not os.listdir(str(tmp_path))


def test_a_sample_that_does_not_fit_is_reported(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    sizes = [("x", ["n"]), ("z", ["m"]), ("y", None)]
    x, z, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes)
    added = helper.make_graph([helper.make_node("Add", ["x", "z"], ["y"])], "g", [x, z], [y])
    data = [[np.ones(2, np.float32), np.ones(3, np.float32)]]
    with pytest.raises(UnsupportedError, match="does not run on a sample"):
        onnx_compat.convert(
            helper.make_model(added, ir_version=8),
            tmp_path / "m.tflite",
            shim="tflite",
            quantize="int8",
            calibrate=data,
        )
    assert not os.listdir(str(tmp_path))


def test_nothing_is_printed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    convert(tmp_path, "attention", "int8")
    printed = [line for line in "".join(capfd.readouterr()).splitlines() if "INFO: Created" not in line]
    assert not printed

"""Integer inputs and outputs of quantised files: the tensors, the results, the verification, and what is refused."""

import importlib.util
import json
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import pytest
from networks import feeds, network
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.file_ports import read_ports
from onnx_compat_tflite.passes.contract import ExampleGraph
from onnx_compat_tflite.quantize.integer_ports import store_ports
from programs import run_model

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.errors import ConversionError

needs_library = pytest.mark.skipif(
    importlib.util.find_spec("ai_edge_quantizer") is None, reason="needs ai-edge-quantizer, which a cell of its own has"
)
INNER = fb.Quantization([0.5], [3])
OUTER = fb.Quantization([0.25], [-7])


def quantized_graph(reads_float: bool = False) -> fb.ModelSpec:
    """Return DEQUANTIZE(QUANTIZE(RESHAPE(QUANTIZE(x)))), an int8 model with float32 ports, and its signature."""
    graph = ExampleGraph((2, 6))
    (x,) = graph.inputs
    entered = graph.op("QUANTIZE", [x], (2, 6), "int8")
    moved = graph.op("RESHAPE", [entered, graph.constant([3, 4], np.int32)], (3, 4), "int8")
    scaled = graph.op("QUANTIZE", [moved], (3, 4), "int8")
    y = graph.op("DEQUANTIZE", [scaled], (3, 4))
    outputs = [y, graph.op("NEG", [x], (2, 6))] if reads_float else [y]
    for index, quantization in ((entered, INNER), (moved, INNER), (scaled, OUTER)):
        graph.spec.tensors[index].quantization = quantization
    model = graph.model(*outputs)
    model.signatures = [fb.Signature({"x": x}, dict(zip(["y", "z"], outputs)))]
    return model


@pytest.mark.parametrize("output_type", [None, "int8", "uint8"])
@pytest.mark.parametrize("input_type", [None, "int8", "uint8"])
def test_integers_enter_and_leave_with_the_scale_of_the_kernels(input_type: Any, output_type: Any) -> None:
    x = (np.arange(12).reshape(2, 6) - 5).astype(np.float32)
    (wanted,) = run_model(quantized_graph(), [x])
    model = quantized_graph()
    store_ports(model, input_type, output_type)
    ((source,), (result,)) = read_ports(model)
    shifts = {"int8": 0, "uint8": 128}
    assert (source.name, result.name) == ("x", "y")
    assert source.quantization == (None if input_type is None else (0.5, 3 + shifts[input_type]))
    assert result.quantization == (None if output_type is None else (0.25, -7 + shifts[output_type]))
    feed = x if input_type is None else (x / 0.5 + 3 + shifts[input_type]).astype(input_type)
    (got,) = run_model(model, [feed])
    real = got if output_type is None else (got.astype(np.float32) - (-7 + shifts[output_type])) * 0.25
    np.testing.assert_array_equal(real, wanted)
    floats = [tensor.dtype for tensor in model.subgraphs[0].tensors].count("float32")
    builtins = [op.builtin for op in model.subgraphs[0].operators]
    assert builtins.count("DEQUANTIZE") == (output_type is None)
    assert floats == (input_type is None) + (output_type is None)
    assert builtins.count("QUANTIZE") == 1 + (input_type != "int8") + (output_type == "uint8")


@pytest.mark.parametrize("input_type", ["int8", "uint8"])
def test_a_float_operator_reads_the_integers_that_entered(input_type: str) -> None:
    model = quantized_graph(reads_float=True)
    store_ports(model, input_type, None)
    x = np.arange(12).reshape(2, 6).astype(np.float32) / 2
    stored = (x / 0.5 + 3 + (128 if input_type == "uint8" else 0)).astype(input_type)
    np.testing.assert_array_equal(run_model(model, [stored])[1], -x)
    with pytest.raises(ConversionError, match=r"output 'main/neg_\d+' stays float32: NEG computes it"):
        store_ports(quantized_graph(reads_float=True), None, input_type)


def test_an_input_without_an_integer_kernel_is_named() -> None:
    graph = ExampleGraph((2, 3))
    with pytest.raises(ConversionError, match="input 'x0' stays float32: NEG reads it"):
        store_ports(graph.model(graph.op("NEG", [graph.inputs[0]], (2, 3))), "int8", None)
    graph = ExampleGraph((2, 3), dtype="int32")
    with pytest.raises(ConversionError, match="no float32 input"):
        store_ports(graph.model(graph.op("NEG", [graph.inputs[0]], (2, 3), "int32")), "int8", None)


def samples() -> List[Dict[str, Any]]:
    return [feeds("cnn", seed, steps=4) for seed in range(12)]


@lru_cache(maxsize=None)
def plain_file(kind: str) -> bytes:
    """Return the bytes of the file of the network `cnn` with float ports: quantised, or float32 for the kind ""."""
    how: Any = {"quantize": kind, "calibrate": samples()} if kind else {}
    with tempfile.TemporaryDirectory() as folder:
        return onnx_compat.convert(network("cnn"), Path(folder) / "m.tflite", shim="tflite", **how).read_bytes()


@needs_library
@pytest.mark.parametrize(("kind", "dtype"), [("int8", "int8"), ("int8", "uint8"), ("int16x8", "int16")])
def test_a_file_without_floats_is_verified_as_the_model(tmp_path: Path, kind: str, dtype: str) -> None:
    how: Any = {"quantize": kind, "shim": "tflite"}
    plain = tmp_path / "plain.tflite"
    plain.write_bytes(plain_file(kind))
    path = onnx_compat.convert(
        network("cnn"), tmp_path / "m.tflite", calibrate=samples(), input_type=dtype, output_type=dtype, **how
    )
    graph = fb.read(str(path)).subgraphs[0]
    assert {tensor.dtype for tensor in graph.tensors} & {"float32", "float16"} == set()
    assert {graph.tensors[index].dtype for index in (*graph.inputs, *graph.outputs)} == {dtype}
    given: Any = {"inputs": feeds("cnn", 99), "shim": "tflite", "oracle": "reference"}
    report = onnx_compat.verify(network("cnn"), converted=path, layers=True, **given)
    float_report = onnx_compat.verify(network("cnn"), converted=plain, layers=True, **given)
    assert report.ok and report.outputs[0].dtype == "float32"
    assert report.outputs[0].accuracy.snr > float_report.outputs[0].accuracy.snr - 3
    assert len(report.layers.layers) == len(float_report.layers.layers)


@needs_library
@pytest.mark.parametrize("kind", ["int8", "int16x8"])
@pytest.mark.parametrize("types", [{}, {"input_type": "float32"}, {"output_type": "int8"}, {"output_type": "int16"}])
def test_open_sizes_stay_open(tmp_path: Path, kind: str, types: Dict[str, str]) -> None:
    if types.get("output_type") not in (None, {"int8": "int8", "int16x8": "int16"}[kind]):
        return
    path = tmp_path / "m.tflite"
    onnx_compat.convert(network("cnn"), path, shim="tflite", quantize=kind, calibrate=samples(), **types)
    files = (path.read_bytes(), plain_file(""))
    ports = [[port.shape for side in read_ports(fb.read(file)) for port in side] for file in files]
    assert ports[0] == ports[1] and any(None in shape for shape in ports[0])


@needs_library
def test_the_command_line_takes_the_types(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "m.onnx").write_bytes(network("cnn").SerializeToString())
    np.savez(str(tmp_path / "samples.npz"), x=np.concatenate([sample["x"] for sample in samples()]))
    files = [str(tmp_path / "m.onnx"), str(tmp_path / "m.tflite")]
    how = ["--quantize", "int8", "--calibrate", str(tmp_path / "samples.npz"), "--input-type", "uint8"]
    assert main(["convert", *files, *how, "--output-type", "int8", "--verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verification"]["ok"]
    loaded = onnx_compat.load_converted(files[1])
    assert [str(info.type.dtype) for info in (*loaded.inputs, *loaded.outputs)] == ["uint8", "int8"]
    assert main(["run", files[1]]) == 0

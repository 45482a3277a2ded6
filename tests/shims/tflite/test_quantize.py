"""Weight quantisation without a package besides the runtime: the content of the file, its SNR, and what is refused."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict

import numpy as np
import pytest
from networks import NETWORKS, feeds, network
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import kernels
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.quantize import blocks, library, weights
from onnx_compat_tflite.quantize.schemes import SCHEMES

import onnx_compat
from onnx_compat.discovery.child_process import ChildResult
from onnx_compat.errors import ConversionError, MissingDependencyError, UnsupportedError

INT4 = kernels().has("DEQUANTIZE", 6)
KINDS = ["float16", "weights-int8"] + ["weights-int4"] * INT4


def convert(folder: Path, name: str = "cnn", **how: Any) -> Path:
    return onnx_compat.convert(network(name), folder / "m.tflite", shim="tflite", **how)


def snr(folder: Path, name: str, **how: Any) -> float:
    """Return the signal-to-noise ratio of the file `name`, compared with its model, in dB."""
    report = onnx_compat.verify(
        network(name), feeds(name, 99), shim="tflite", converted=convert(folder, name, **how), oracle="reference"
    )
    assert report.ok, report
    return float(report.outputs[0].accuracy.snr)


@pytest.mark.parametrize("name", sorted(NETWORKS))
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_small_and_near(tmp_path: Path, kind: str, name: str) -> None:
    whole = os.path.getsize(str(convert(tmp_path, name)))
    assert snr(tmp_path, name, quantize=kind) > {"float16": 55, "weights-int8": 38, "weights-int4": 14}[kind]
    if name == "mlp":  # which is weights and little else
        share = os.path.getsize(str(tmp_path / "m.tflite")) / whole
        assert share < {"float16": 0.7, "weights-int8": 0.6, "weights-int4": 0.5}[kind]


@pytest.mark.parametrize("kind", KINDS)
def test_names_types_and_the_scheme_are_in_the_file(tmp_path: Path, kind: str) -> None:
    model = fb.read(convert(tmp_path, quantize=kind))
    main, (signature,) = model.subgraphs[0], model.signatures
    assert list(signature.inputs) == ["x"] and list(signature.outputs) == ["y"]
    assert {main.tensors[index].dtype for index in (*main.inputs, *main.outputs)} == {"float32"}
    packed = {tensor.dtype for tensor in main.tensors if tensor.buffer is not None and tensor.name.endswith("/packed")}
    assert packed == {kind.replace("weights-", "")}
    assert [operator.builtin for operator in main.operators].count("DEQUANTIZE") == 4


def test_two_conversions_are_the_same_bytes(tmp_path: Path) -> None:
    first, second = (convert(tmp_path, quantize="weights-int8").read_bytes() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_block_has_a_scale_of_its_own(tmp_path: Path, kind: str) -> None:
    if not blocks.computes_blocks():
        with pytest.raises(UnsupportedError, match="does not compute weights that are stored in blocks"):
            convert(tmp_path, "mlp", quantize=kind, block_size=16)
        return
    model = fb.read(convert(tmp_path, "mlp", quantize=kind, block_size=16))
    scales = [t.quantization.scale for t in model.subgraphs[0].tensors if t.quantization and t.quantization.scale]
    assert sorted(map(len, scales)) == [10 * 64 // 16, 64 * 32 // 16]
    assert snr(tmp_path, "mlp", quantize=kind, block_size=16) > {"weights-int8": 38, "weights-int4": 14}[kind]
    array = np.random.RandomState(0).standard_normal((64, 32)).astype(np.float32)
    errors = []
    for rows in (array, array.reshape(-1, 16)):
        integers, scale = weights.round_to_integers(rows, 0, weights._LARGEST[kind])
        errors.append(np.square(integers * scale[:, None] - rows).sum())
    assert errors[1] < errors[0]


def test_blocks_are_refused_where_they_end_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blocks, "kernels", lambda: SimpleNamespace(quirks=SimpleNamespace(delegated=False)))
    monkeypatch.setattr(blocks, "call_in_child", lambda *_, **__: ChildResult("failed", exit_code=-11))
    blocks.computes_blocks.cache_clear()
    try:
        with pytest.raises(UnsupportedError, match="does not compute weights that are stored in blocks"):
            convert(tmp_path, "mlp", quantize="weights-int8", block_size=16)
    finally:
        blocks.computes_blocks.cache_clear()


def test_a_block_that_does_not_divide_a_channel_is_the_channel(tmp_path: Path) -> None:
    model = fb.read(convert(tmp_path, "mlp", quantize="weights-int8", block_size=5))
    scales = [t.quantization.scale for t in model.subgraphs[0].tensors if t.quantization and t.quantization.scale]
    assert sorted(map(len, scales)) == [10, 64]


@pytest.mark.parametrize("largest", [127, 7])
def test_integers_are_the_nearest(largest: int) -> None:
    array = np.random.RandomState(0).standard_normal((4, 3, 8)).astype(np.float32)
    array[2] = 0
    integers, scale = weights.round_to_integers(array, 0, largest)
    assert integers.dtype == np.int8 and np.abs(integers).max() == largest and (scale > 0).all()
    plain = np.abs(array).max(axis=(1, 2), keepdims=True) / largest
    naive = np.rint(array / np.where(plain > 0, plain, 1)) * plain
    assert np.square(integers * scale[:, None, None] - array).sum() <= np.square(naive - array).sum() * 1.0001


def test_int4_values_are_packed_low_nibble_first() -> None:
    assert weights.pack_nibbles(np.int8([[1, -2], [7, 0], [-7, 3]])).tolist() == [0xE1, 0x07, 0x39]
    assert weights.pack_nibbles(np.int8([-1, 2, -3])).tolist() == [0x2F, 0x0D]


def graph(*operators: fb.OperatorSpec, value: float = 1) -> fb.SubGraph:
    """Return a graph of these operators. Tensor 0 is the input, tensor 1 a constant, and later tensors are results."""
    tensors = [
        fb.TensorSpec("x", "float32", (8, 8)),
        fb.TensorSpec("w", "float32", (8, 8), np.full((8, 8), value, "f4")),
    ]
    tensors += [fb.TensorSpec("t%d" % position, "float32", (8, 8)) for position in range(len(operators))]
    return fb.SubGraph(tensors, list(operators), [0], [len(tensors) - 1])


def store_weights(description: fb.SubGraph, kind: str = "weights-int8") -> Dict[str, int]:
    weights.store(fb.ModelSpec([description]), kind, None, Kernels())
    return {
        tensor.dtype: len(tensor.quantization.scale) if tensor.quantization else 0 for tensor in description.tensors
    }


def test_only_weights_are_touched_and_only_once() -> None:
    fc = fb.OperatorSpec("FULLY_CONNECTED", [0, 1, None], [2])
    assert store_weights(graph(fc)) == {"float32": 0, "int8": 8}
    twice = graph(fc, fb.OperatorSpec("FULLY_CONNECTED", [2, 1, None], [3]))
    store_weights(twice)
    assert [op.builtin for op in twice.operators] == ["DEQUANTIZE", "FULLY_CONNECTED", "FULLY_CONNECTED"]
    assert store_weights(graph(fc, fb.OperatorSpec("ADD", [2, 1], [3]))) == {"float32": 0}
    assert store_weights(graph(fb.OperatorSpec("ADD", [0, 1], [2]))) == {"float32": 0}


def test_the_channel_axis_of_a_product_is_found() -> None:
    for adj_y, axis in ((False, 1), (True, 0)):
        description = graph(fb.OperatorSpec("BATCH_MATMUL", [0, 1], [2], {"adj_y": adj_y}))
        store_weights(description)
        (packed,) = [tensor for tensor in description.tensors if tensor.dtype == "int8"]
        assert packed.quantization is not None and packed.quantization.axis == axis


def test_weights_that_the_scheme_cannot_hold_stay() -> None:
    fc = fb.OperatorSpec("FULLY_CONNECTED", [0, 1, None], [2])
    assert store_weights(graph(fc, value=1e5), "float16") == {"float32": 0}
    assert store_weights(graph(fc, value=1e4), "float16") == {"float32": 0, "float16": 0}
    assert store_weights(graph(fc, value=float("inf"))) == {"float32": 0}


def test_a_runtime_without_int4_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="takes no int4"):
        store_weights(graph(), "weights-int4")  # `Kernels()` knows what all runtimes have


def test_nothing_to_quantise_is_refused(tmp_path: Path) -> None:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    relu = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    with pytest.raises(UnsupportedError, match="nothing in this model"):
        onnx_compat.convert(
            helper.make_model(relu, ir_version=8), tmp_path / "m.tflite", shim="tflite", quantize="float16"
        )
    assert not os.listdir(str(tmp_path))


def test_a_file_that_the_runtime_refuses_never_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_COMPAT_VERIFY", "0")  # the verifier would refuse the graph before the runtime does
    convert(tmp_path)
    before = (tmp_path / "m.tflite").read_bytes()
    store = weights.store

    def broken(model: fb.ModelSpec, *how: Any) -> None:
        store(model, *how)
        main = model.subgraphs[0]
        integer = main.add(fb.TensorSpec("integer", "int32", (1,), np.ones(1, np.int32)))
        mixed = main.add(fb.TensorSpec("mixed", "float32", (1,)))
        main.operators.append(fb.OperatorSpec("ADD", [main.inputs[0], integer], [mixed]))

    monkeypatch.setattr("onnx_compat_tflite.quantize.rewrite.store", broken)
    with pytest.raises(ConversionError, match="quantised as 'weights-int8', the file does not work") as caught:
        convert(tmp_path, quantize="weights-int8")
    assert "try another kind" in str(caught.value)
    assert os.listdir(str(tmp_path)) == ["m.tflite"] and (tmp_path / "m.tflite").read_bytes() == before


@pytest.mark.parametrize("kind", library.KINDS)
def test_a_missing_library_is_named_with_its_command(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_quantizer", None)
    for name in [name for name in sys.modules if name.startswith("ai_edge_quantizer.")]:
        monkeypatch.delitem(sys.modules, name)
    data = "generated" if kind != "dynamic" else None
    with pytest.raises(MissingDependencyError, match="needs ai-edge-quantizer") as caught:
        convert(tmp_path, quantize=kind, calibrate=data)
    assert "pip install 'onnx-compat[quantize]'" in str(caught.value) and not os.listdir(str(tmp_path))


def test_the_kinds_are_those_of_the_page() -> None:
    page = Path(__file__).parents[3] / "docs" / "cli.md"
    text = page.read_text(encoding="utf-8")
    for scheme in SCHEMES:
        (row,) = [line for line in text.splitlines() if line.startswith("| `%s` |" % scheme.kind)]
        assert row.endswith(" %g dB |" % scheme.fidelity)
    assert features.find_runtime()[0] is not None

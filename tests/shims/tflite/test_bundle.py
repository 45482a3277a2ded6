"""Bundles with .tflite files: nodes that the format cannot hold run in the fallback."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat
from onnx_compat.conversion.bundle import read_manifest
from onnx_compat.errors import ConversionError

FLOAT, STRING = TensorProto.FLOAT, TensorProto.STRING
node = helper.make_node


def value(name: str, shape: Any = None, dtype: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, dtype, shape)


def words_and_image() -> Any:
    """Return a model with a StringNormalizer, which TFLite cannot hold, between convolutions that it can."""
    weights = helper.make_tensor("w", FLOAT, [4, 3, 3, 3], np.random.RandomState(0).randn(108))
    nodes = [
        node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"], name="relu"),
        node("StringNormalizer", ["s"], ["lower"], name="lower", case_change_action="LOWER"),
        node("Shape", ["lower"], ["count"], name="count"),
        node("Cast", ["count"], ["number"], name="number", to=FLOAT),
        node("Add", ["r", "number"], ["a"], name="add"),
        node("Shape", ["x"], ["size"], name="size"),
        node("Constant", [], ["batch"], name="batch", value_ints=[0]),
        node("Gather", ["size", "batch"], ["rows"], name="rows"),
        node("Constant", [], ["rest"], name="rest", value_ints=[-1]),
        node("Concat", ["rows", "rest"], ["wanted"], name="wanted", axis=0),
        node("Reshape", ["a", "wanted"], ["y"], name="flat"),
    ]
    inputs = [value("x", ["n", 3, 8, 8]), value("s", [None], STRING)]
    graph = helper.make_graph(nodes, "graph", inputs, [value("y"), value("lower", None, STRING)], [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def feed(batch: int) -> Dict[str, Any]:
    x = np.random.RandomState(batch).randn(batch, 3, 8, 8).astype(np.float32)
    return {"x": x, "s": np.array(["A", "b"] * batch, object)}


@pytest.fixture(name="bundled")
def _bundle(tmp_path: Path) -> Path:
    return onnx_compat.convert(words_and_image(), tmp_path / "m.tflite", allow_fallback=True)


def test_parts_run_one_after_the_other_for_each_size(bundled: Path) -> None:
    assert [(part.kind, part.path) for part in read_manifest(bundled).parts] == [
        ("tflite", "000.tflite"), ("onnx", "001.onnx"), ("tflite", "002.tflite"),
    ]  # fmt: skip
    loaded = onnx_compat.load_converted(bundled)
    assert (loaded.shim, loaded.fallbacks) == ("tflite", ["lower"])
    for batch in (1, 3, 2):
        got, expected = loaded.run(feed(batch)), onnx_compat.run(words_and_image(), feed(batch), shim="reference")
        np.testing.assert_allclose(got["y"], expected["y"], rtol=1e-4, atol=1e-4)
        assert got["lower"].tolist() == expected["lower"].tolist()


def test_the_parts_of_a_bundle_are_tflite_files(bundled: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(str(bundled)) as archive:
        archive.extract("000.tflite", str(tmp_path))
    model = fb.read(tmp_path / "000.tflite")
    assert [operator.builtin for operator in model.subgraphs[0].operators if "CONV" in operator.builtin] == ["CONV_2D"]
    assert list(model.signatures[0].inputs) == ["x"]


def test_a_flatbuffer_in_it_that_was_replaced_is_refused(bundled: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(str(bundled)) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    damaged = bytearray(content["000.tflite"])
    damaged[len(damaged) // 2] ^= 1
    path = tmp_path / "other.tflite.zip"
    with zipfile.ZipFile(str(path), "w") as archive:
        for name, data in dict(content, **{"000.tflite": bytes(damaged)}).items():
            archive.writestr(name, data)
    with pytest.raises(onnx_compat.OnnxCompatError, match=r"SHA-256 of the member '000\.tflite' differs"):
        onnx_compat.load_converted(path)


def test_a_node_goes_to_the_part_of_its_inner_nodes(tmp_path: Path) -> None:
    def branch(*nodes: Any) -> Any:
        return helper.make_graph(list(nodes), nodes[0].op_type, [], [value("b", None, STRING)])

    lower = node("StringNormalizer", ["s"], ["b"], name="inner", case_change_action="LOWER")
    nodes = [
        node(
            "If", ["f"], ["t"], name="if", then_branch=branch(lower), else_branch=branch(node("Identity", ["s"], ["b"]))
        ),
        node("Neg", ["x"], ["y"], name="neg"),
    ]
    inputs = [value("f", [], TensorProto.BOOL), value("s", [None], STRING), value("x", ["n"])]
    graph = helper.make_graph(nodes, "graph", inputs, [value("t", None, STRING), value("y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    loaded = onnx_compat.load_converted(onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True))
    assert "string_lower" in loaded.fallback_reasons["if"]
    for flag, text in ((True, ["a"]), (False, ["A"])):
        got = loaded.run({"f": np.array(flag), "s": np.array(["A"], object), "x": np.float32([1, 2])})
        assert got["t"].tolist() == text and got["y"].tolist() == [-1, -2]


@pytest.mark.parametrize("name", ["m.tflite", "m.tflite.zip"])
def test_a_bundle_is_not_quantised(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match="a bundle is not quantised") as caught:
        onnx_compat.convert(words_and_image(), tmp_path / name, allow_fallback=True, quantize="weights-int8")
    assert "allow_fallback" not in str(caught.value) and not os.listdir(str(tmp_path))


def test_two_processes_write_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(words_and_image().SerializeToString())
    code = "import sys, onnx_compat; onnx_compat.convert(sys.argv[1], sys.argv[2], shim='tflite', allow_fallback=True)"
    written = []
    for seed in ("1", "2"):
        target = tmp_path / ("m%s.tflite" % seed)
        environment = dict(os.environ, PYTHONHASHSEED=seed)
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "m.onnx"), str(target)], env=environment, check=True)
        written.append(Path(str(target) + ".zip").read_bytes())
    assert written[0] == written[1]

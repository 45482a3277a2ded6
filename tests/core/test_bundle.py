"""Bundles: division of the model, writing and running, and the checks of an untrusted file."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import FLOAT, INT64, model, node, value
from bundles import Keeper, X, check_agreement, exp_model
from onnx import helper
from registered import register

import onnx_compat
from onnx_compat.conversion import bundle
from onnx_compat.errors import ConversionError, InputError, OnnxCompatError, UnsupportedError


@pytest.fixture(name="keeper", autouse=True)
def _keeper(monkeypatch: pytest.MonkeyPatch) -> Keeper:
    shim = Keeper()
    register(monkeypatch, shim)
    return shim


def part_kinds(path: Any) -> str:
    return " ".join("%s:%d" % (part.kind, part.nodes) for part in bundle.read_manifest(path).parts)


def test_without_allow_fallback_the_node_is_named(tmp_path: Path) -> None:
    proto = exp_model()
    proto.graph.node.append(node("Exp", ["d"], ["z"], name="another"))
    proto.graph.output.append(value("z"))
    with pytest.raises(UnsupportedError) as caught:
        onnx_compat.convert(proto, tmp_path / "m.tflite")
    assert (caught.value.node, caught.value.operator) == ("exp", "Exp")
    assert "1 other node:\n  'another' (Exp): this framework has no exponential" in caught.value.reason
    assert "--allow-fallback" in str(caught.value.hint)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("file_format", ["tflite", "saved_model"])
def test_a_written_bundle_runs(tmp_path: Path, file_format: str) -> None:
    path = onnx_compat.convert(exp_model(), tmp_path / "m.tflite", to=file_format, allow_fallback=True)
    assert os.listdir(tmp_path) == ["m.tflite.zip"] == [path.name]
    assert onnx_compat.load_converted(path).run({"x": X[:1]})["y"].shape == (1,)
    assert part_kinds(path) == f"{file_format}:2 onnx:1 {file_format}:4"
    loaded = check_agreement(exp_model(), path, {"x": X})
    assert loaded.shim == "keeper" and loaded.fallbacks == ["exp"]
    assert "no exponential" in loaded.fallback_reasons["exp"]
    assert onnx_compat.verify(exp_model(), {"x": X}, converted=path).ok


def test_a_bundle_is_written_only_where_it_is_needed(tmp_path: Path) -> None:
    proto = model([node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y")])
    assert onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True).name == "m.tflite"
    path = onnx_compat.convert(proto, tmp_path / "m.tflite.zip", allow_fallback=True)
    assert part_kinds(path) == "tflite:1"
    check_agreement(proto, path, {"x": X})
    with pytest.raises(ConversionError, match="is a bundle") as caught:
        onnx_compat.convert(proto, tmp_path / "other.tflite.zip")
    assert "--allow-fallback" in str(caught.value.hint)
    assert sorted(os.listdir(tmp_path)) == ["m.tflite", "m.tflite.zip"]


def test_the_same_model_gives_the_same_bytes(keeper: Keeper, tmp_path: Path) -> None:
    written = []
    for name in ("a", "b"):
        keeper.programs.clear()
        written.append(onnx_compat.convert(exp_model(), tmp_path / (name + ".tflite.zip"), allow_fallback=True))
    assert written[0].read_bytes() == written[1].read_bytes()


def test_a_node_that_fails_while_its_part_is_written_falls_back_too(keeper: Keeper, tmp_path: Path) -> None:
    keeper.refuses = "mul"
    path = onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)
    assert part_kinds(path) == "tflite:2 onnx:2 tflite:3"
    assert check_agreement(exp_model(), path, {"x": X}).fallback_reasons["mul"] == "its kernel has had enough"


def test_a_value_of_unknown_rank_stays_in_the_fallback(tmp_path: Path) -> None:
    nodes = [node("Exp", ["x"], ["e"], name="exp"), node("Neg", ["e"], ["y"], name="neg")]
    proto = model(nodes, [value("x")], [value("y")])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    assert part_kinds(path) == "onnx:2"
    check_agreement(proto, path, {"x": X})
    proto.graph.value_info.append(value("e", ["n", 3]))  # a declared type is used
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    assert part_kinds(path) == "onnx:1 tflite:1"
    check_agreement(proto, path, {"x": X})


def test_a_value_that_must_be_known_stays_in_the_fallback(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["r"], name="sum"), node("Neg", ["x"], ["n"], name="neg")]
    proto = model(nodes, [value("x", ["n", 3]), value("axes", [1], INT64)], [value("r"), value("n")])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    assert part_kinds(path) == "tflite:1 onnx:1"
    for axis in (0, 1):
        check_agreement(proto, path, {"x": X, "axes": np.array([axis])})


def test_sequences_stay_in_the_fallback(tmp_path: Path) -> None:
    nodes = [
        node("Neg", ["x"], ["a"], name="neg"),
        node("SplitToSequence", ["a"], ["s"], name="split", axis=0),
        node("ConcatFromSequence", ["s"], ["c"], name="concat", axis=0),
        node("Exp", ["c"], ["y"], name="exp"),
    ]
    items = helper.make_tensor_sequence_value_info("s", FLOAT, None)
    proto = model(nodes, [value("x", [4, 3])], [value("y"), items])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    outputs = onnx_compat.load_converted(path).run({"x": X})
    np.testing.assert_allclose(outputs["y"], np.exp(-X), rtol=1e-6)
    assert len(outputs["s"]) == 4


def test_outputs_may_be_inputs_constants_and_weights(tmp_path: Path) -> None:
    nodes = [node("Exp", ["x"], ["e"]), node("Constant", [], ["c"], value_floats=[1.0]), node("Add", ["e", "c"], ["y"])]
    proto = model(nodes, [value("x", [4, 3])], [value(name) for name in "yxcw"], {"w": X})
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    check_agreement(proto, path, {"x": X})


def test_the_length_of_a_sequence_is_not_assumed(tmp_path: Path) -> None:
    nodes = [
        node("SequenceLength", ["s"], ["n"], name="length"),
        node("Cast", ["n"], ["f"], name="cast", to=FLOAT),
        node("Neg", ["f"], ["y"], name="neg"),
    ]
    proto = model(nodes, [helper.make_tensor_sequence_value_info("s", FLOAT, None)], [value("y")])
    path = onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=True)
    check_agreement(proto, path, {"s": [X, X]})


def test_an_unknown_operator_is_refused(tmp_path: Path) -> None:
    nodes = [node("Neg", ["x"], ["a"], name="neg"), node("Nonsense", ["a"], ["y"], name="odd", domain="nowhere")]
    proto = model(nodes, [value("x", [4, 3])], [value("y")], extra_opsets=[helper.make_opsetid("nowhere", 1)])
    for allow_fallback in (False, True):
        with pytest.raises(OnnxCompatError) as caught:
            onnx_compat.convert(proto, tmp_path / "m.tflite", allow_fallback=allow_fallback)
        assert caught.value.node == "odd" and "allow-fallback" not in str(caught.value)
    assert not os.listdir(tmp_path)


def test_another_failure_is_no_reason_for_a_bundle(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: Any) -> None:
        raise ConversionError("the disk is full")

    monkeypatch.setattr(keeper, "export", full)
    with pytest.raises(ConversionError, match="the disk is full"):
        onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)
    assert not os.listdir(tmp_path)


def test_a_folder_at_the_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.tflite.zip").mkdir()
    with pytest.raises(InputError, match=r"m\.tflite\.zip' is a folder, and a file is to be written"):
        onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)


def test_values_between_parts_are_compared(tmp_path: Path) -> None:
    path = onnx_compat.convert(exp_model(), tmp_path / "m.tflite", allow_fallback=True)
    layers = onnx_compat.verify(exp_model(), {"x": X}, converted=path, layers=True).layers
    assert layers is not None and layers.ok
    assert {layer.node: layer.emitted for layer in layers.layers if layer.node in ("neg", "exp", "sum")} == {
        "neg": ("000.tflite (tflite)",),
        "exp": ("001.onnx (the fallback)",),
        "sum": ("002.tflite (tflite)",),
    }
    changed_model = exp_model()
    changed_model.graph.node[4].op_type = "Add"
    layers = onnx_compat.verify(changed_model, {"x": X}, converted=path, layers=True).layers
    assert layers is not None and layers.culprit == "mul"
    assert "by itself, from exact inputs" in layers.verdict


def test_the_command_line_names_the_nodes_and_the_reasons(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    from onnx_compat.cli import main

    model_, converted = str(tmp_path / "m.onnx"), str(tmp_path / "m.tflite")
    Path(model_).write_bytes(exp_model().SerializeToString())
    assert main(["support", model_, "--shim", "keeper"]) == 0
    output = capfd.readouterr().out
    assert "no exponential" in output and "a bundle of 3 parts, 1 for the fallback" in output
    assert main(["convert", model_, converted]) == 4
    output = capfd.readouterr().err
    assert "'exp'" in output and "no exponential" in output and "--allow-fallback" in output
    assert main(["convert", model_, converted, "--allow-fallback", "--verify"]) == 0
    assert "2 tflite and 1 onnx" in capfd.readouterr().out
    assert main(["convert", model_, converted, "--allow-fallback", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    assert [node_entry["node"] for node_entry in document["bundle"]["fallback"]] == ["exp"]
    assert main(["run", document["path"]]) == 0
    page = tmp_path / "r.html"
    assert main(["convert", model_, converted, "--allow-fallback", "--report", str(page)]) == 0
    assert "no exponential" in page.read_text()
    capfd.readouterr()
    assert main(["inspect", document["path"], "--json"]) == 0
    description = json.loads(capfd.readouterr().out)
    assert [(part["kind"], part["nodes"]) for part in description["parts"]] == [
        ("tflite", 2),
        ("onnx", 1),
        ("tflite", 4),
    ]
    assert "no exponential" in description["in the fallback"][0]["reason"]
    assert main(["inspect", document["path"]]) == 0
    assert "x     float32[n, 3]" in capfd.readouterr().out
    assert main(["verify", model_, "--converted", document["path"]]) == 0
    assert "in the fallback, ran 'exp'" in capfd.readouterr().out
    Path(document["path"]).write_bytes(b"nothing")
    assert main(["run", document["path"]]) == 3

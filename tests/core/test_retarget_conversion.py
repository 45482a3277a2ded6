"""`convert` to .onnx: versions of the format, functions, subgraphs, weights beside the model, and mistakes."""

import json
import os
import struct
from pathlib import Path
from typing import Any, Dict, List

import numpy as np
import onnx
import pytest
from building import FLOAT, model, node, require_opset, value
from onnx import helper, numpy_helper

import onnx_compat
from onnx_compat.cli.app import run
from onnx_compat.errors import ConversionError, InputError, OnnxCompatError, UnsupportedError
from onnx_compat.retarget.conversion import plan, retarget
from onnx_compat.retarget.weightless_model import LARGE, read_weightless_model

WEIGHT = np.random.default_rng(0).standard_normal((160, 160)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((2, 160)).astype(np.float32)
assert WEIGHT.nbytes > LARGE


def network() -> Any:
    """Return a model of opset 18 with a large and a small weight."""
    nodes = [
        node("MatMul", ["x", "w"], ["h"], name="product", doc_string="the product"),
        node("ReduceMean", ["h", "axes"], ["y"], name="mean", keepdims=0),
    ]
    proto = model(nodes, [value("x", ["n", 160])], [value("y", ["n"])], {"w": WEIGHT, "axes": np.asarray([1])}, 18)
    proto.graph.value_info.append(value("h", ["n", 160]))
    helper.set_model_props(proto, {"author": "somebody"})
    proto.graph.quantization_annotation.add(tensor_name="h")
    info = proto.training_info.add()
    info.algorithm.name = "algorithm"
    info.algorithm.node.append(node("Relu", ["w"], ["next_w"]))
    return proto


@pytest.fixture
def path(tmp_path: Path) -> str:
    onnx.save(network(), str(tmp_path / "m.onnx"))
    return str(tmp_path / "m.onnx")


def test_a_file_is_written_at_another_opset(path: str, tmp_path: Path) -> None:
    written = onnx_compat.convert(path, tmp_path / "o.onnx", opset=11)
    source, target = onnx.load(path), onnx.load(str(written))
    onnx.checker.check_model(target)
    assert (target.ir_version, target.opset_import[0].version) == (6, 11)
    assert target.graph.node[0] == source.graph.node[0]
    assert [entry.name for entry in target.graph.node] == ["product", "mean"]
    assert [tensor.name for tensor in target.graph.initializer] == ["w"]
    for field in ("metadata_props", "training_info", "doc_string", "producer_name"):
        assert getattr(target, field) == getattr(source, field)
    for field in ("value_info", "quantization_annotation", "input", "output", "name"):
        assert getattr(target.graph, field) == getattr(source.graph, field)
    report = onnx_compat.verify(path, {"x": X}, converted=written, oracle="reference")
    assert report.ok


def test_nothing_changes_without_an_opset(path: str, tmp_path: Path) -> None:
    written = onnx_compat.convert(path, tmp_path / "o.onnx")
    assert onnx.load(str(written)) == onnx.load(path)


@pytest.mark.parametrize("kind", ["path", "bytes", "proto", "model"])
def test_every_kind_of_source_gives_the_same_model(kind: str, path: str) -> None:
    proto = onnx.load(path)
    source: Any = {"path": path, "bytes": proto.SerializeToString(), "proto": proto, "model": onnx_compat.load(path)}[
        kind
    ]
    result = retarget(source, 13)
    assert result.ir_version == 7
    assert numpy_helper.to_array(result.graph.initializer[0]).tobytes() == WEIGHT.tobytes()
    assert proto == network()


def test_a_weightless_model_has_no_large_weights(path: str, tmp_path: Path) -> None:
    proto = onnx.load(path)
    for source in (path, proto, proto.SerializeToString()):
        weightless_model = read_weightless_model(source)
        assert weightless_model.proto.ByteSize() < LARGE
        weightless_model.write(str(tmp_path / "again.onnx"))
        assert onnx.load(str(tmp_path / "again.onnx")) == proto


def test_float_data_is_a_payload_too(tmp_path: Path) -> None:
    proto = network()
    proto.graph.initializer[0].CopyFrom(helper.make_tensor("w", FLOAT, WEIGHT.shape, WEIGHT.ravel()))
    weightless_model = read_weightless_model(proto)
    assert weightless_model.proto.ByteSize() < LARGE
    weightless_model.write(str(tmp_path / "m.onnx"))
    assert onnx.load(str(tmp_path / "m.onnx")) == proto
    assert read_weightless_model(str(tmp_path / "m.onnx")).assemble() == proto


@pytest.mark.parametrize(("opset", "ir_version", "expected"), [(8, None, 3), (9, None, 4), (13, 5, 5), (17, None, 8)])
def test_the_ir_version_follows_from_the_opset(path: str, opset: int, ir_version: Any, expected: int) -> None:
    result = retarget(path, opset, ir_version)
    assert result.ir_version == expected
    assert [port.name for port in result.graph.input] == (["x", "w"] if expected < 4 else ["x"])
    np.testing.assert_allclose(onnx_compat.run(result, {"x": X}, shim="reference")[0], (X @ WEIGHT).mean(1), 1e-4, 1e-5)


def test_parts_that_readers_ignore_are_listed(path: str) -> None:
    notes = plan(path, 8).notes
    assert any("training information" in note for note in notes)
    assert any("quantization annotations" in note for note in notes)
    assert not any("training" in note for note in plan(path, 13).notes)


def test_weights_are_moved_beside_the_model(path: str, tmp_path: Path) -> None:
    onnx_compat.convert(path, tmp_path / "a.onnx", opset=13, external_data="a.weights")
    onnx_compat.convert(tmp_path / "a.onnx", tmp_path / "b.onnx", opset=17, external_data="keep")
    onnx_compat.convert(tmp_path / "b.onnx", tmp_path / "c.onnx", opset=17, external_data="safetensors")
    for name, location in (("a", "a.weights"), ("b", "a.weights"), ("c", "c.safetensors")):
        tensor = onnx.load(str(tmp_path / (name + ".onnx")), load_external_data=False).graph.initializer[0]
        assert {entry.key: entry.value for entry in tensor.external_data}["location"] == location
        loaded = onnx_compat.load(tmp_path / (name + ".onnx"))
        assert loaded.graph.initializers["w"].array().tobytes() == WEIGHT.tobytes()
    content = (tmp_path / "c.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    assert header == {"w": {"dtype": "F32", "shape": [160, 160], "data_offsets": [0, WEIGHT.nbytes]}}
    assert content[8 + length :] == WEIGHT.tobytes()
    assert sorted(os.listdir(str(tmp_path))) == ["a.onnx", "a.weights", "b.onnx", "c.onnx", "c.safetensors", "m.onnx"]


def test_external_data_of_a_source_elsewhere_is_copied(path: str, tmp_path: Path) -> None:
    onnx_compat.convert(path, tmp_path / "a.onnx", external_data="a.weights")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    onnx_compat.convert(tmp_path / "a.onnx", folder / "b.onnx", opset=13)
    assert sorted(os.listdir(str(folder))) == ["b.onnx", "b.onnx.data"]
    with pytest.raises(ConversionError, match="stays in the folder"):
        onnx_compat.convert(tmp_path / "a.onnx", folder / "c.onnx", opset=13, external_data="keep")


def test_functions_are_inlined_where_the_format_has_none() -> None:
    function = helper.make_function(
        "my", "f", ["a"], ["b"], [node("Relu", ["a"], ["b"])], [helper.make_opsetid("", 15)]
    )
    call = [node("f", ["x"], ["y"], domain="my")]
    proto = model(call, [value("x", [2])], [value("y", [2])], {}, 15, [helper.make_opsetid("my", 1)])
    proto.functions.append(function)
    older = retarget(proto, 13)
    assert not older.functions
    assert [entry.op_type for entry in older.graph.node] == ["Relu"]


def test_functions_are_kept_where_the_format_has_them() -> None:
    require_opset(20)
    body = [
        node("Constant", [], ["axes"], value_ints=[-1]),
        node("ReduceMax", ["a", "axes"], ["b"]),
    ]
    reference = onnx.AttributeProto(name="keepdims", ref_attr_name="keep", type=onnx.AttributeProto.INT)
    body[1].attribute.append(reference)
    function = helper.make_function("my", "f", ["a"], ["b"], body, [helper.make_opsetid("", 18)], ["keep"])
    calls = [node("f", ["x"], ["y"], domain="my", keep=0), node("f", ["x"], ["z"], domain="my", keep=1)]
    proto = model(
        calls, [value("x", [2, 160])], [value("y", [2]), value("z", [2, 1])], {}, 18, [helper.make_opsetid("my", 1)]
    )
    proto.functions.append(function)
    newer, older = retarget(proto, 17), retarget(proto, 13)
    assert [entry.op_type for entry in newer.graph.node] == ["f", "f"]
    assert [(entry.domain, entry.version) for entry in newer.functions[0].opset_import] == [("", 17)]
    assert [entry.op_type for entry in older.graph.node] == ["ReduceMax", "ReduceMax"]
    assert not older.functions
    assert [entry.domain for entry in older.opset_import] == [""]
    assert [entry.op_type for entry in retarget(proto, 20, inline_functions=True).graph.node].count("ReduceMax") == 2
    for result in (newer, older):
        for got, want in zip(*(onnx_compat.run(m, {"x": X}, shim="reference") for m in (result, proto))):
            np.testing.assert_allclose(got, want)


def branches() -> Any:
    """Return an If whose branches read a value of the outer graph, with a constant each."""
    then = helper.make_graph(
        [node("ReduceSum", ["h", "a"], ["t"])], "then", [], [value("t", [2, 1])],
        [numpy_helper.from_array(np.asarray([1]), "a")],
    )  # fmt: skip
    otherwise = helper.make_graph(
        [node("ReduceMax", ["h", "a"], ["t"])], "else", [], [value("t", [2, 1])], then.initializer
    )
    nodes = [node("Relu", ["x"], ["h"]), node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)]
    ports = [value("x", [2, 160]), value("c", [], onnx.TensorProto.BOOL)]
    return model(nodes, ports, [value("y", [2, 1])], {}, 18)


@pytest.mark.parametrize("opset", [8, 11, 17, 20])
def test_subgraphs_are_retargeted(opset: int) -> None:
    require_opset(opset)
    result = retarget(branches(), opset)
    for condition in (True, False):
        feed = {"x": X, "c": np.asarray(condition)}
        got, want = (onnx_compat.run(m, feed, shim="reference")[0] for m in (result, branches()))
        np.testing.assert_allclose(got, want)


def test_a_node_without_a_form_is_composed() -> None:
    proto = model(
        [node("Mish", ["x"], ["y"], name="act")], [value("x", ["n", 160])], [value("y", ["n", 160])], opset=18
    )
    result = retarget(proto, 11)
    onnx.checker.check_model(result)
    assert "Mish" not in {entry.op_type for entry in result.graph.node}
    assert "composed as %d nodes: 'act' (Mish)" % len(result.graph.node) in str(plan(proto, 11))
    got, want = (onnx_compat.run(m, {"x": X}, shim="reference")[0] for m in (result, proto))
    np.testing.assert_allclose(got, want, 1e-5)


def test_inputs_are_fixed(path: str, tmp_path: Path) -> None:
    written = onnx_compat.convert(path, tmp_path / "a.onnx", shapes={"x": (2, 160)})
    assert [dim.dim_value for dim in onnx.load(str(written)).graph.input[0].type.tensor_type.shape.dim] == [2, 160]
    written = onnx_compat.convert(path, tmp_path / "b.onnx", values={"x": X})
    assert not onnx.load(str(written)).graph.input


def test_a_default_that_a_rule_needs_is_fixed() -> None:
    proto = model(
        [node("Clip", ["x", "lo"], ["y"])], [value("x", [2]), value("lo", [])], [value("y", [2])], {"lo": np.float32(0)}
    )
    assert [port.name for port in retarget(proto, 9).graph.input] == ["x"]
    assert "no inputs any more, but fixed to their defaults: lo" in plan(proto, 9).notes


MISTAKES: List[Any] = [
    ({"opset": 0}, ConversionError, "no opset 0"),
    ({"opset": -3}, ConversionError, "no opset -3"),
    ({"opset": 999}, ConversionError, "newer than this release knows"),
    ({"opset": "13"}, ConversionError, "integer"),
    ({"opset": 13, "ir_version": 2}, ConversionError, "the oldest is 3"),
    ({"opset": 13, "ir_version": 99}, ConversionError, "newer than this release knows"),
    ({"opset": 13, "quantize": "int8"}, ConversionError, "'quantize' is for files of frameworks"),
    ({"opset": 13, "shapes": {"q": (1,)}}, InputError, "no input named 'q'"),
    ({"external_data": "a/b"}, ConversionError, "beside the model"),
    ({"external_data": "o.onnx"}, ConversionError, "beside the model"),
]


@pytest.mark.parametrize(("options", "error", "text"), MISTAKES)
def test_a_mistake_writes_nothing(options: Dict[str, Any], error: type, text: str, path: str, tmp_path: Path) -> None:
    with pytest.raises(error, match=text):
        onnx_compat.convert(path, tmp_path / "o.onnx", **options)
    assert os.listdir(str(tmp_path)) == ["m.onnx"]


def test_the_source_is_not_overwritten(path: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="would overwrite a file that is read"):
        onnx_compat.convert(path, path, opset=13)
    onnx_compat.convert(path, tmp_path / "a.onnx", external_data="a.weights")
    with pytest.raises(InputError, match="would overwrite a file that is read"):
        onnx_compat.convert(tmp_path / "a.onnx", tmp_path / "b.onnx", external_data="a.weights")


def test_options_of_onnx_files_are_for_onnx_files_only(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConversionError, match=r"'opset' is for \.onnx files"):
        onnx_compat.convert(path, tmp_path / "o.tflite", opset=13)


def test_a_type_that_the_target_lacks_is_named_with_its_node(tmp_path: Path) -> None:
    require_opset(19)
    cast = node("Cast", ["x"], ["y"], name="to eight bits", to=onnx.TensorProto.FLOAT8E4M3FN)
    proto = model([cast], [value("x", [2])], [value("y", [2], onnx.TensorProto.FLOAT8E4M3FN)], opset=19)
    with pytest.raises(UnsupportedError, match="float8e4m3fn"):
        onnx_compat.convert(proto, tmp_path / "o.onnx", opset=13)
    with pytest.raises(UnsupportedError, match=r"to eight bits.*float8e4m3fn, which begins with IR version 9"):
        onnx_compat.convert(proto, tmp_path / "o.onnx", opset=19, ir_version=8)
    assert os.listdir(str(tmp_path)) == []


def test_the_command_line(path: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    target = str(tmp_path / "o.onnx")
    assert run(["convert", path, target, "--opset", "13", "--dry-run"]) == 0
    assert "2 kept, 1 re-spelled" in capsys.readouterr().out
    assert not os.path.exists(target)
    assert run(["convert", path, target, "--opset", "13", "--ir-version", "6", "--external-data", "o.data"]) == 0
    assert "1 weights are in 'o.data'" in capsys.readouterr().out
    assert onnx.load(target).ir_version == 6
    assert run(["convert", path, target, "--opset", "9", "--no-verify", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["counts"]["kept"] == 2
    assert run(["convert", path, str(tmp_path / "o.tflite"), "--opset", "9"]) == 2
    assert run(["convert", path, target, "--opset", "99"]) != 0


def test_a_dry_run_lists_refused_nodes(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    proto = model([node("Clip", ["x", "lo"], ["y"], name="clip")], [value("x"), value("lo", [])], [value("y")])
    onnx.save(proto, str(tmp_path / "m.onnx"))
    assert run(["convert", str(tmp_path / "m.onnx"), str(tmp_path / "o.onnx"), "--opset", "8", "--dry-run"]) == 1
    assert "refused: 'clip' (Clip)" in capsys.readouterr().out
    with pytest.raises(OnnxCompatError, match="'clip'"):
        onnx_compat.convert(tmp_path / "m.onnx", tmp_path / "o.onnx", opset=8)

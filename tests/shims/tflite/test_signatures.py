"""Several models in one file: each runs under the name of its signature, branches and loops work, and equal data is
shared.
"""

import json
from pathlib import Path
from typing import Any, Dict

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.errors import ConversionError, InputError, OnnxCompatError

WEIGHTS = np.random.RandomState(0).randn(64, 64).astype(np.float32)
X = np.random.RandomState(1).randn(3, 64).astype(np.float32)


def _model(nodes: Any, ins: Dict[str, Any], out: str) -> Any:
    ports = [helper.make_tensor_value_info(name, *description) for name, description in ins.items()]
    proto = helper.make_tensor_value_info(out, TensorProto.FLOAT, ["n", 64])
    graph = helper.make_graph(nodes, "g", ports, [proto], [numpy_helper.from_array(WEIGHTS, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def encoder() -> Any:
    return _model([helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": (TensorProto.FLOAT, ["n", 64])}, "y")


def decoder() -> Any:
    """Return a decoder with an If, whose subgraphs get other indices in a joined file."""

    def body(operator: str) -> Any:
        out = helper.make_tensor_value_info("o_" + operator, TensorProto.FLOAT, ["n", 64])
        return helper.make_graph([helper.make_node(operator, ["z"], ["o_" + operator])], operator, [], [out])

    nodes = [
        helper.make_node("MatMul", ["y", "w"], ["z"]),
        helper.make_node("If", ["flag"], ["r"], then_branch=body("Relu"), else_branch=body("Neg")),
    ]
    return _model(nodes, {"y": (TensorProto.FLOAT, ["n", 64]), "flag": (TensorProto.BOOL, [])}, "r")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    models = {"decode": decoder(), "encode": encoder()}
    return {key: onnx_compat.convert(model, folder / (key + ".tflite"), shim="tflite") for key, model in models.items()}


@pytest.fixture(scope="module")
def both(files: Dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_compat.join(
        {"encode": files["encode"], "decode": files["decode"]}, tmp_path_factory.mktemp("b") / "m.tflite"
    )


def test_each_runs_under_its_name(both: Path) -> None:
    encoded = X @ WEIGHTS
    for loaded in (onnx_compat.load_converted(both), onnx_compat.load_converted(both, signature="encode")):
        np.testing.assert_allclose(loaded.run({"x": X})["y"], encoded, rtol=1e-4, atol=1e-4)
    decoded = onnx_compat.load_converted(both, signature="decode")
    for flag, expected in ((True, np.maximum(X @ WEIGHTS, 0)), (False, -(X @ WEIGHTS))):
        got = decoded.run({"y": X, "flag": np.array(flag)})["r"]
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


def test_the_runtime_lists_the_signatures(both: Path) -> None:
    runtime, _ = features.find_runtime()
    assert runtime is not None
    interpreter = runtime.interpreter(True, model_path=str(both))
    listed = interpreter.get_signature_list()
    assert {key: sorted(ports["inputs"]) for key, ports in listed.items()} == {"encode": ["x"], "decode": ["flag", "y"]}


def test_weights_that_are_equal_are_stored_once(both: Path, files: Dict[str, Path]) -> None:
    apart = sum(path.stat().st_size for path in files.values())
    assert both.stat().st_size < apart - WEIGHTS.nbytes + 2000


def test_a_joined_file_can_be_joined_again(both: Path, files: Dict[str, Path], tmp_path: Path) -> None:
    again = onnx_compat.join({"first": both, "second": files["decode"]}, tmp_path / "m.tflite")
    assert [signature.key for signature in fb.read(str(again)).signatures] == ["first", "second"]
    got = onnx_compat.load_converted(again, signature="second").run({"y": X, "flag": np.array(False)})["r"]
    np.testing.assert_allclose(got, -(X @ WEIGHTS), rtol=1e-4, atol=1e-4)


def test_the_command_joins_files(both: Path, files: Dict[str, Path], tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "m.tflite"
    named = ["%s=%s" % (key, files[key]) for key in ("encode", "decode")]
    assert main(["join", str(target), *named, "--json"]) == 0
    description = json.loads(capsys.readouterr().out)
    assert description == {
        "ok": True,
        "path": str(target),
        "bytes": both.stat().st_size,
        "signatures": ["encode", "decode"],
    }
    assert target.read_bytes() == both.read_bytes()
    assert main(["join", str(target), "encode"]) == main(["join", str(target), *named, named[0]]) == 2


def test_errors_are_reported_and_no_file_is_written(both: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"(?s)no signature 'other'.*'encode', 'decode'"):
        onnx_compat.load_converted(both, signature="other")
    target = tmp_path / "m.tflite"
    target.write_bytes(b"as it was")
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(both.read_bytes()[:100])
    for files in ({}, {"a": tmp_path / "missing.tflite"}, {"a": "model.keras"}, {"a": both, "b": broken}):
        with pytest.raises(OnnxCompatError):
            onnx_compat.join(files, target)
    with pytest.raises(ConversionError, match="no suffix"):
        onnx_compat.join({"a": both}, tmp_path / "m.bin")
    assert target.read_bytes() == b"as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken.tflite", "m.tflite"]


def test_the_command_line_runs_and_verifies_a_signature(both: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "decoder.onnx").write_bytes(decoder().SerializeToString())
    np.savez(str(tmp_path / "in.npz"), y=X, flag=np.array(False))
    given = ["--signature", "decode", "--inputs", str(tmp_path / "in.npz")]
    assert main(["run", str(both), *given, "--output", str(tmp_path / "out.npz")]) == 0
    np.testing.assert_allclose(np.load(str(tmp_path / "out.npz"))["r"], -(X @ WEIGHTS), rtol=1e-4, atol=1e-4)
    verify = ["verify", str(tmp_path / "decoder.onnx"), "--oracle", "reference"]
    assert main([*verify, "--converted", str(both), *given]) == 0
    assert "OK" in capsys.readouterr().out
    assert main([*verify, "--converted", str(both), "--signature", "encode"]) != 0  # the model of another signature


def test_a_signature_that_nothing_can_use_is_refused(both: Path, tmp_path: Path, capsys: Any) -> None:
    model = tmp_path / "decoder.onnx"
    model.write_bytes(decoder().SerializeToString())
    assert main(["run", str(model), "--signature", "decode"]) == 6
    assert "an ONNX model has no signatures" in capsys.readouterr().err
    for extra in ([], ["--converted", str(both), "--layers"], ["--converted", str(both), "--bisect-passes"]):
        assert main(["verify", str(model), "--signature", "decode", *extra]) == 6
        assert "signature" in capsys.readouterr().err

"""`fix_inputs`: inputs get fixed shapes, or constants replace them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from building import FLOAT, INT64, model, node, value
from onnx import helper
from recorded_options import record_convert

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.cli.convert_command import _verification_inputs
from onnx_compat.conversion.input_fixing import fix_inputs
from onnx_compat.errors import InputError


def shared_size_model() -> Any:
    """Return the model y = (a + b) * n, where a and b share a symbolic size."""
    nodes = [node("Add", ["a", "b"], ["s"]), node("Mul", ["s", "n"], ["y"])]
    inputs = [value("a", ["rows", None]), value("b", ["rows", 3]), value("n", [])]
    return model(nodes, inputs, [value("y", ["rows", 3])])


def test_a_symbolic_size_is_fixed_in_every_input() -> None:
    fixed = fix_inputs(onnx_compat.load(shared_size_model()), {"a": (4, None)})
    assert [port.type.shape for port in fixed.inputs] == [(4, None), (4, 3), ()]


def test_a_value_replaces_the_input() -> None:
    original = onnx_compat.load(shared_size_model())
    fixed = fix_inputs(original, values={"n": 5})
    assert [port.name for port in fixed.inputs] == ["a", "b"]
    feed = np.ones((2, 3), np.float32)
    assert onnx_compat.run(fixed, {"a": feed, "b": feed}, shim="reference")["y"].tolist() == [[10] * 3] * 2
    assert [port.name for port in original.inputs] == ["a", "b", "n"]


@pytest.mark.parametrize(
    ("shapes", "values", "message"),
    [
        ({"c": (1,)}, {}, "no input named 'c'"),
        ({}, {"c": 1}, "no input named 'c'"),
        ({"a": (1,)}, {}, "rank 2, not 1"),
        ({"a": ("?", 3)}, {}, "None to leave it open"),
        ({"a": (1, -1)}, {}, "cannot be -1"),
        ({"b": (1, 4)}, {}, "cannot be 4"),
        ({"a": (1, 3), "b": (2, 3)}, {}, "cannot be 2"),
        ({}, {"n": [1, 2]}, "rank 1"),
        ({}, {"n": "x"}, "cannot be read as float32"),
        ({"a": (5, 3)}, {"b": np.ones((4, 3), np.float32)}, "size 4 on axis 0"),
    ],
)
def test_a_shape_or_value_that_does_not_fit_is_named(shapes: Any, values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fix_inputs(onnx_compat.load(shared_size_model()), shapes, values)


def test_a_sequence_has_no_shape_and_no_value_to_fix() -> None:
    proto = model([node("SequenceLength", ["xs"], ["y"])], [], [value("y", [], INT64)])
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    proto.graph.input.append(helper.make_value_info("xs", kind))
    for shapes, values in (({"xs": (1,)}, {}), ({}, {"xs": [np.ones(1, np.float32)]})):
        with pytest.raises(InputError, match="'xs'"):
            fix_inputs(onnx_compat.load(proto), shapes, values)


def test_the_command_line_passes_shapes_and_values(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = record_convert(monkeypatch)
    converted = str(tmp_path / "m.tflite")
    arguments = ["--shape", "a=1,?,3", "--shape", "b:0=", "--value", "n=16000", "--value", "axes=[1, 2]"]
    assert main(["convert", "m.onnx", converted, *arguments]) == 0
    assert seen["shapes"] == {"a": (1, None, 3), "b:0": ()}
    assert seen["values"] == {"n": 16000, "axes": [1, 2]}
    for wrong in (["--shape", "a"], ["--shape", "a=x"], ["--value", "n"], ["--value", "n=abc"]):
        assert main(["convert", "m.onnx", converted, *wrong]) == 2


def test_verify_feeds_the_model_the_fixed_values(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen = {}

    def verify(model: Any, inputs: Any = None, **_: Any) -> Any:
        seen.update(inputs)
        return type("Report", (), {"ok": True, "notes": [], "to_dict": lambda self: {}})()

    source = tmp_path / "m.onnx"
    source.write_bytes(shared_size_model().SerializeToString())
    monkeypatch.setattr(onnx_compat, "convert", lambda model, path, **_: Path(path), raising=False)
    monkeypatch.setattr(onnx_compat, "verify", verify, raising=False)
    (tmp_path / "m.tflite").write_bytes(b"")
    options = ["--shape", "a=4,3", "--value", "n=2", "--verify", "--json"]
    assert main(["convert", str(source), str(tmp_path / "m.tflite"), *options]) == 0
    assert json.loads(capsys.readouterr().out)["ok"] is True
    assert {name: np.shape(array) for name, array in seen.items()} == {"a": (4, 3), "b": (4, 3), "n": ()}
    assert seen["n"] == 2


def test_arrays_to_verify_with_get_the_fixed_values(tmp_path: Path) -> None:
    """The arrays are generated, or those of a .npz file, or samples of the calibration data."""
    source, arrays = tmp_path / "m.onnx", {name: np.ones((4, 3), np.float32) for name in "ab"}
    source.write_bytes(shared_size_model().SerializeToString())
    np.savez(str(tmp_path / "a.npz"), **arrays)
    for given in (None, str(tmp_path / "a.npz"), arrays):
        feeds = _verification_inputs(str(source), given, 0, None, {"a": (4, 3)}, {"n": 2})
        assert {name: np.shape(array) for name, array in feeds.items()} == {"a": (4, 3), "b": (4, 3), "n": ()}
        assert feeds["n"] == 2
    assert sorted(arrays) == ["a", "b"]


def test_a_symbolic_size_that_is_fixed_twice_is_named() -> None:
    proto = model([node("Add", ["a", "b"], ["y"])], [value("a", ["n", 3]), value("b", ["n", 3])], [value("y")])
    with pytest.raises(InputError) as caught:
        fix_inputs(onnx_compat.load(proto), {"a": (4, 3), "b": (5, 3)})
    assert "'n' is 4 already" in str(caught.value.hint)
    for shape in ((4,), (4, 2)):
        with pytest.raises(InputError) as caught:
            fix_inputs(onnx_compat.load(proto), {"a": shape})
        assert caught.value.hint

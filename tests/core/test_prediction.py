"""`support` with a format predicts what `convert` does. tests/conformance/test_support.py compares them on many models."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List

import pytest
from building import FLOAT, INT64, model, node, value
from bundles import Keeper, exp_model
from registered import register

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.conversion.bundle import read_manifest
from onnx_compat.errors import ConversionError, InputError, InvalidModelError, UnsupportedError
from onnx_compat.execution.support import Support
from onnx_compat.shim.description import Preview, Step, steps_between


class Builder(Keeper):
    """A fake framework whose ops have the names of the primitives."""

    def preview(self, program: Any, form: str) -> Preview:
        super().preview(program, form)
        ops: Dict[str, int] = {}
        nodes: Dict[str, Any] = {}
        for recorded in program.region.live():
            name = recorded.primitive.upper()
            ops[name] = ops.get(name, 0) + 1
            if recorded.origin is not None:
                nodes[recorded.origin.node] = (*nodes.get(recorded.origin.node, ()), name)
        return Preview(ops, nodes)


@pytest.fixture(name="shim", params=[Keeper, Builder], autouse=True)
def _shim(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    shim: Keeper = request.param()
    register(monkeypatch, shim)
    return shim


def relu() -> Any:
    return model([node("Relu", ["x"], ["y"], name="relu")], [value("x", ["n", 3])], [value("y", ["n", 3])])


def agree(proto: Any, folder: Path, **options: Any) -> Support:
    """Assert that the prediction is what `convert` does, and return it."""
    prediction = onnx_compat.support(proto, to="tflite", shim="keeper", **options)
    folder = Path(tempfile.mkdtemp(dir=str(folder)))
    written, reasons_given = {}, []
    for allowed in (False, True):
        try:
            path = onnx_compat.convert(proto, folder / "m.tflite", shim="keeper", allow_fallback=allowed, **options)
            written[allowed] = "bundle" if path.suffix == ".zip" else "file"
        except (ConversionError, UnsupportedError) as error:
            written[allowed] = "refused"
            reasons_given.append(error.reason)
    assert not reasons_given or reasons_given[0].startswith(prediction.reason.partition("; a bundle")[0])
    outcome = written[True] if written[False] == "refused" else written[False]
    assert prediction.outcome == outcome and prediction.format == "tflite"
    if outcome == "bundle":
        manifest = read_manifest(folder / "m.tflite.zip")
        assert [(part.kind, len(part.nodes)) for part in prediction.parts] == [
            (part.kind, part.nodes) for part in manifest.parts
        ]
        reasons = {name: reason for part in prediction.parts for name, reason in part.reasons.items()}
        assert reasons == {item.node: item.reason for item in manifest.fallback}
        assert prediction.reason
    return prediction


def statuses(prediction: Support) -> List[str]:
    return [entry.status for entry in prediction]


def test_a_file(tmp_path: Path, shim: Keeper) -> None:
    prediction = agree(relu(), tmp_path)
    assert prediction.outcome == "file" and prediction.reason == "" and prediction.parts == []
    assert statuses(prediction) == ["composed"]
    if isinstance(shim, Builder):
        assert prediction[0].ops == ("CLIP",) and prediction.ops == {"CLIP": 1}
    else:  # the shim lists no ops
        assert prediction[0].ops == () and prediction.ops == {}


def test_a_bundle(tmp_path: Path, shim: Keeper) -> None:
    prediction = agree(exp_model(), tmp_path)
    assert prediction.outcome == "bundle" and "no exponential" in prediction.reason
    by_name = {entry.node: entry for entry in prediction}
    assert by_name["exp"].status == "fallback" and "no exponential" in by_name["exp"].reason
    assert by_name["exp"].ops == () and by_name["axes"].status == "composed"
    if isinstance(shim, Builder):
        assert by_name["neg"].ops == ("NEG",) and prediction.ops["NEG"] == 1
        assert by_name["axes"].reason == "known before the model runs"


def test_a_node_that_only_the_export_refuses(tmp_path: Path, shim: Keeper) -> None:
    shim.refuses = "mul"
    prediction = agree(exp_model(), tmp_path)
    by_name = {entry.node: entry for entry in prediction}
    assert by_name["mul"].status == "fallback" and by_name["mul"].reason == "its kernel has had enough"
    assert onnx_compat.support(exp_model(), shim="keeper")[4].status == "composed"  # a run does not export


def test_a_refusal_by_no_node(tmp_path: Path) -> None:
    open_input = model([node("Relu", ["x"], ["y"], name="relu")], [value("x", None)], [value("y")])
    assert "needs a tensor of a known dtype and rank" in agree(open_input, tmp_path).reason
    assert agree(open_input, tmp_path, shapes={"x": (2, 3)}).outcome == "file"


def test_a_refusal_by_an_operator_that_nothing_runs(tmp_path: Path) -> None:
    from onnx import helper

    proto = model(
        [node("Relu", ["x"], ["a"], name="relu"), node("Nothing", ["a"], ["y"], name="odd", domain="my.own")],
        [value("x", [2, 3])],
        [value("y", None)],
        extra_opsets=[helper.make_opsetid("my.own", 1)],
    )
    prediction = agree(proto, tmp_path)
    assert prediction.outcome == "refused" and statuses(prediction) == ["composed", "unsupported"]
    assert prediction.parts == [] and prediction.ops == {}
    assert "no meaning is known" in prediction[1].reason and "no meaning is known" in prediction.reason
    assert "a bundle is refused too: neither the shim nor the fallback runs 'odd'" in prediction.reason


def test_a_value_that_must_be_known(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["r"], name="sum"), node("Neg", ["x"], ["n"], name="neg")]
    proto = model(nodes, [value("x", ["n", 3]), value("axes", [1], INT64)], [value("r"), value("n")])
    assert agree(proto, tmp_path).outcome == "bundle"


def test_the_values_of_the_conversion_count(tmp_path: Path) -> None:
    nodes = [node("ReduceSum", ["x", "axes"], ["r"], name="sum")]
    proto = model(nodes, [value("x", ["n", 3]), value("axes", [1], INT64)], [value("r")])
    assert agree(proto, tmp_path, values={"axes": [1]}).outcome == "file"


def test_a_layout_excludes_a_bundle(tmp_path: Path) -> None:
    image = model([node("Exp", ["x"], ["y"], name="exp")], [value("x", [1, 3, 4, 4])], [value("y", [1, 3, 4, 4])])
    assert agree(image, tmp_path).outcome == "bundle"
    assert agree(image, tmp_path, channels_last=["x"]).outcome == "refused"


def test_wrong_arguments() -> None:
    with pytest.raises(InputError, match="channels last"):
        onnx_compat.support(relu(), shim="keeper", channels_last=["x"])
    with pytest.raises(ConversionError, match="never writes the format 'keras'"):
        onnx_compat.support(relu(), shim="keeper", to="keras")
    unsorted = model([node("Relu", ["nowhere"], ["y"])], [value("x", [2])], [value("y", [2], FLOAT)])
    with pytest.raises(InvalidModelError):
        onnx_compat.support(unsorted, shim="keeper", to="tflite")


def test_the_steps_between_values_of_the_model() -> None:
    steps = [
        Step("A", ("x",), ("hidden",)),
        Step("B", ("hidden",), ("a", "b")),
        Step("C", ("a", "hidden"), ("y",)),
        Step("D", ("y",), ("unused",)),
    ]
    between = steps_between(steps, {"x", "a", "b", "y", "absent"})
    assert {name: [step.operator for step in needed] for name, needed in between.items()} == {
        "a": ["A", "B"],
        "b": ["A", "B"],
        "y": ["A", "C"],
    }


def test_the_command_line_predicts_a_conversion(tmp_path: Path, capfd: pytest.CaptureFixture, shim: Keeper) -> None:
    path, whole = str(tmp_path / "m.onnx"), str(tmp_path / "relu.onnx")
    Path(path).write_bytes(exp_model().SerializeToString())
    Path(whole).write_bytes(relu().SerializeToString())
    assert main(["support", whole, "--shim", "keeper"]) == 0
    out = capfd.readouterr().out
    assert "as tflite: a file" in out and "as saved_model: a file" in out
    assert ("in the tflite" in out) and ("CLIP" in out) is isinstance(shim, Builder)
    assert main(["support", path, "--shim", "keeper", "--to", "tflite"]) == 1
    assert "with --allow-fallback: a bundle of 3 parts, 1 for the fallback" in capfd.readouterr().out
    assert main(["support", path, "--shim", "keeper", "--to", "tflite", "--allow-fallback", "--json"]) == 0
    document = json.loads(capfd.readouterr().out)
    (file,) = document["files"]
    assert file["outcome"] == "bundle" and file["format"] == "tflite"
    assert [part["kind"] for part in document["parts"]] == ["tflite", "onnx", "tflite"]
    assert main(["support", path, "--shim", "keeper", "--allow-fallback"]) == 2
    assert sorted(os.listdir(tmp_path)) == ["m.onnx", "relu.onnx"]


def test_one_part_is_one_part(tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    proto = model([node("Exp", ["x"], ["y"], name="exp")], [value("x", [2, 3])], [value("y", [2, 3])])
    path = str(tmp_path / "m.onnx")
    Path(path).write_bytes(proto.SerializeToString())
    main(["support", path, "--shim", "keeper", "--to", "tflite"])
    assert "a bundle of 1 part, 1 for the fallback" in capfd.readouterr().out

"""`support` with `to="onnx"` predicts what `convert` writes: the outcome of each node, and its operators."""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
import pytest
from building import INT64, model, node, require_opset, value
from onnx import helper, numpy_helper

import onnx_compat
from onnx_compat.cli.app import run
from onnx_compat.errors import ConversionError, InputError, UnsupportedError
from onnx_compat.execution.support import Support
from onnx_compat.model.protos import operator_name, walk
from onnx_compat.retarget.conversion import plan

ROWS = [value("x", [2, 3])]
OPSETS = (8, 11, 13, 17, 18, 21)


def constant(name: str, elements: Any) -> Any:
    return node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(elements), name))


def branch(name: str, *nodes: Any) -> Any:
    return helper.make_graph(list(nodes), name, [], [value(name + "_y", None)])


def in_branches() -> Any:
    """Return an If whose branches have nodes of every outcome."""
    then = branch("then", constant("a", [1]), node("ReduceMean", ["x", "a"], ["then_y"], name="mean"))
    mish = branch("other", node("Mish", ["x"], ["m"], name="mish"), node("Relu", ["m"], ["other_y"], name="relu"))
    flag = value("flag", [], onnx.TensorProto.BOOL)
    nodes = [node("If", ["flag"], ["y"], then_branch=then, else_branch=mish, name="if")]
    return model(nodes, [*ROWS, flag], [value("y", None)], opset=18)


def with_function() -> Any:
    """Return a model that calls a function twice."""
    nodes = [node("f", ["x"], ["h"], domain="my", name="first"), node("f", ["h"], ["y"], domain="my", name="second")]
    proto = model(nodes, ROWS, [value("y", [2, 3])], {}, 18, [helper.make_opsetid("my", 1)])
    body = [node("Mish", ["a"], ["b"], name="mish"), node("Relu", ["b"], ["c"], name="relu")]
    proto.functions.append(helper.make_function("my", "f", ["a"], ["c"], body, [helper.make_opsetid("", 18)]))
    return proto


def with_axes() -> Any:
    """Return a reduction whose axes are computed from constants: before opset 13, nothing reads these nodes."""
    nodes = [
        constant("k", [1.0]),
        node("Cast", ["k"], ["axes"], to=INT64, name="cast"),
        node("ReduceSum", ["x", "axes"], ["y"], name="sum", keepdims=0),
    ]
    return model(nodes, ROWS, [value("y", None)], opset=13)


def with_bound() -> Any:
    """Return a Clip with a bound that is only known at run time, which opset 8 cannot express."""
    clip = node("Clip", ["x", "low"], ["y"], name="clip")
    return model([node("Neg", ["low"], ["n"], name="neg"), clip], [*ROWS, value("low", [])], [value("y"), value("n")])


def with_normalization() -> Any:
    """Return a LayerNormalization, which older opsets compose of several operators, and operators of other domains."""
    scaler = node("Scaler", ["n"], ["y"], domain="ai.onnx.ml", name="scale", offset=[0.0], scale=[2.0])
    nodes = [node("LayerNormalization", ["x", "w"], ["n"], name="norm"), scaler]
    ml = [helper.make_opsetid("ai.onnx.ml", 1)]
    return model(nodes, ROWS, [value("y", None)], {"w": np.ones(3, np.float32)}, 17, ml)


MODELS = {
    function.__name__: function for function in (in_branches, with_function, with_axes, with_bound, with_normalization)
}


def written_operators(path: Path) -> Dict[str, int]:
    proto = onnx.load(str(path))
    bodies = [proto.graph.node, *(function.node for function in proto.functions)]
    return Counter(operator_name(entry) for nodes in bodies for entry in walk(nodes))


def agree(proto: Any, folder: Path, **options: Any) -> Support:
    """Assert that the prediction is what `convert` does, and return it."""
    prediction = onnx_compat.support(proto, to="onnx", **options)
    assert os.listdir(str(folder)) == []
    if prediction.outcome == "refused":
        with pytest.raises(UnsupportedError) as caught:
            onnx_compat.convert(proto, folder / "o.onnx", **options)
        assert (prediction.reason, prediction.ops) == (caught.value.reason, {})
        assert "refused" in [entry.status for entry in prediction] and not any(entry.ops for entry in prediction)
        return prediction
    path = onnx_compat.convert(proto, folder / "o.onnx", **options)
    assert (prediction.format, prediction.outcome, prediction.reason) == ("onnx", "file", "")
    assert prediction.ops == written_operators(path)
    assert prediction.ops == Counter(operator for entry in prediction for operator in entry.ops)
    return prediction


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("name", MODELS)
def test_the_prediction_is_what_is_written(name: str, opset: int, tmp_path: Path) -> None:
    require_opset(max(18, opset))
    proto = MODELS[name]()
    prediction = agree(proto, tmp_path, opset=opset)
    listed = [(entry.node, entry.operator, entry.opset, entry.status) for entry in prediction]
    assert listed == [(entry.node, entry.operator, entry.opset, entry.outcome) for entry in plan(proto, opset).nodes]


def test_each_outcome_is_reached_and_has_its_operators(tmp_path: Path) -> None:
    require_opset(18)
    at_8 = {entry.node: entry for entry in onnx_compat.support(with_bound(), to="onnx", opset=8)}
    assert at_8["neg"].status == "kept" and at_8["clip"].status == "refused" and at_8["clip"].reason
    at_11 = {entry.node: entry for entry in onnx_compat.support(in_branches(), to="onnx", opset=11)}
    assert (at_11["mean"].status, at_11["mean"].ops) == ("re-spelled", ("ReduceMean",))
    assert (at_11["a"].status, at_11["a"].ops) == ("re-spelled", ())
    assert "no node reads its results any more" in at_11["a"].reason
    assert (
        at_11["mish"].status == "composed" and at_11["mish"].ops[-2:] == ("Tanh", "Mul") and len(at_11["mish"].ops) > 2
    )
    assert (at_11["relu"].status, at_11["relu"].ops) == ("kept", ("Relu",))
    assert (at_11["if"].status, at_11["if"].ops) == ("kept", ("If",))
    function = {entry.node: entry for entry in onnx_compat.support(with_function(), to="onnx")}
    assert (function["first"].operator, function["first"].ops) == ("my::f", ("my::f",))
    assert (function["mish"].reason, function["mish"].opset) == ("in the function 'f'", 18)


def test_a_function_gets_constant_nodes(tmp_path: Path) -> None:
    require_opset(18)
    proto = model(
        [node("f", ["x"], ["y"], domain="my")], ROWS, [value("y", None)], {}, 13, [helper.make_opsetid("my", 1)]
    )
    body = [node("ReduceMean", ["a"], ["b"], name="mean", axes=[1])]
    proto.functions.append(helper.make_function("my", "f", ["a"], ["b"], body, [helper.make_opsetid("", 13)]))
    prediction = agree(proto, tmp_path, opset=18)
    assert {entry.node: entry.ops for entry in prediction}["mean"] == ("Constant", "ReduceMean")


@pytest.mark.parametrize(
    "options",
    [
        {"ir_version": 8},
        {"opset": 13, "inline_functions": True},
        {"simplify": True},
        {"opset": 13, "simplify": True},
        {"opset": 13, "shapes": {"x": (2, 3)}},
        {"shim": "onnx", "opset": 13},
        {"shim": "onnx", "opset": 18, "ir_version": 8},
    ],
)
def test_the_options_are_those_of_convert(options: Dict[str, Any], tmp_path: Path) -> None:
    require_opset(18)
    prediction = onnx_compat.support(with_function(), to="onnx", **options)
    path = onnx_compat.convert(with_function(), tmp_path / "o.onnx", **options)
    assert prediction.outcome == "file" and prediction.ops == written_operators(path)
    assert all(entry.ops for entry in prediction)


@pytest.mark.parametrize(
    "options", [{"opset": 99}, {"ir_version": 99}, {"shim": "reference"}, {"channels_last": ["x"]}, {"portable": True}]
)
def test_what_convert_refuses_is_refused(options: Dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConversionError) as refused:
        onnx_compat.convert(with_bound(), tmp_path / "o.onnx", **options)
    with pytest.raises(ConversionError) as predicted:
        onnx_compat.support(with_bound(), to="onnx", **options)
    assert predicted.value.reason == refused.value.reason


def test_the_options_of_onnx_files_need_their_format() -> None:
    with pytest.raises(InputError, match=r"'opset' is for \.onnx files"):
        onnx_compat.support(with_bound(), shim="reference", opset=13)
    with pytest.raises(ConversionError, match="'simplify' is for the nodes of the model"):
        onnx_compat.support(with_bound(), to="onnx", shim="onnx", simplify=True)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    require_opset(18)
    path = str(tmp_path / "m.onnx")
    onnx.save(in_branches(), path)
    assert run(["support", path, "--to", "onnx", "--opset", "11"]) == 0
    out = capsys.readouterr().out
    prediction = onnx_compat.support(path, to="onnx", opset=11)
    count = max(len(entry.ops) for entry in prediction)
    assert count > 2 and "%d ops" % count in out and "2 kept, 2 re-spelled, 1 composed" in out
    assert "as onnx: a file of %d ops" % sum(prediction.ops.values()) in out
    assert run(["support", path, "--to", "onnx", "--opset", "11", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["files"][0]["ops"] == prediction.ops
    assert document["counts"] == {outcome: number for outcome, number in plan(path, 11).counts.items() if number}
    onnx.save(with_bound(), path)
    assert run(["support", path, "--to", "onnx", "--opset", "8"]) == 1
    out = capsys.readouterr().out
    assert "1 kept, 1 refused" in out and "as onnx: refused: 'clip' (Clip) cannot be written for opset 8" in out
    for wrong in (
        ["--opset", "11"],
        ["--to", "tflite", "--opset", "11"],
        ["--to", "onnx", "--shim", "onnx", "--simplify"],
    ):
        assert run(["support", path, *wrong]) == 2
    assert run(["support", path, "--to", "onnx", "--opset", "0"]) not in (0, 2)
    assert run(["support", path, "--to", "onnx", "--allow-fallback"]) not in (0, 2)
    assert os.listdir(str(tmp_path)) == ["m.onnx"]

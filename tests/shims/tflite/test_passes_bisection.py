"""`verify --bisect-passes` and its function name a pass that is wrong on purpose; `convert --explain` counts rewrites."""

import json
from pathlib import Path
from typing import Any, Callable, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_compat_tflite import SHIM
from onnx_compat_tflite.passes import GRAPH, PROGRAM
from onnx_compat_tflite.passes.contract import Context, ExampleGraph, GraphPass
from onnx_compat_tflite.passes.rewriter import GraphRewriter

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.errors import InputError
from onnx_compat.passes import CORE, VARIABLE, passes_of
from onnx_compat.verification.bisection import bisect_verification

Command = Callable[..., Tuple[int, str]]


@pytest.fixture
def command(capfd: pytest.CaptureFixture) -> Command:
    def run(*arguments: Any) -> Tuple[int, str]:
        code = main([str(argument) for argument in arguments])
        return code, capfd.readouterr().out

    return run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Write the model relu(x @ w * 2) + tanh(x) @ w, and return its path."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["b"]),
        helper.make_node("Mul", ["b", "two"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Tanh", ["x"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["f"]),
        helper.make_node("Add", ["d", "f"], ["y"]),
    ]
    weights = np.random.RandomState(0).standard_normal((4, 3)).astype(np.float32)
    arrays = {"w": weights, "two": np.float32(2)}
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, size]) for name, size in (("x", 4), ("y", 3)))
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    target = tmp_path / "m.onnx"
    onnx.save(proto, str(target))
    return target


def spoil(graph: GraphRewriter, context: Context) -> int:
    """Replace each TANH by SIN, which is wrong. Return the number of rewrites."""
    wrong = [op for op in graph.operators if op.builtin == "TANH"]
    for op in wrong:
        graph.replace_op(op, "SIN", list(op.inputs))
    return len(wrong)


def example() -> Any:
    graph = ExampleGraph((2, 3))
    return graph.model(graph.op("TANH", [graph.inputs[0]], (2, 3)))


@pytest.fixture(params=[0, 9, 28])
def wrong(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> GraphPass:
    """Install a wrong pass at a position of the schedule (a parameter of the fixture), and return it."""
    pass_ = GraphPass("wrong_tanh", "TANH(x) => SIN(x)", spoil, example)
    passes = list(GRAPH.passes)
    passes.insert(request.param, pass_)
    monkeypatch.setattr(GRAPH, "passes", tuple(passes))
    return pass_


def test_the_wrong_pass_of_a_file_is_named(path: Path, wrong: GraphPass, command: Command) -> None:
    target = path.with_suffix(".tflite")
    assert command("convert", path, target)[0] == 0
    code, out = command("verify", path, "--converted", target, "--bisect-passes", "--oracle", "reference")
    assert code == 1
    assert "passes: the pass 'wrong_tanh' makes the result wrong" in out.splitlines()
    code, out = command("verify", path, "--converted", target, "--bisect-passes", "--oracle", "reference", "--json")
    assert json.loads(out)["bisection"]["culprit"] == "wrong_tanh"
    assert bisect_verification(path, shim="tflite", oracle="reference").culprit == "wrong_tanh"
    assert sorted(path.parent.iterdir()) == [path, target]


def test_an_older_file_is_told_from_a_wrong_pass(path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    target = path.with_suffix(".tflite")
    pass_ = GraphPass("wrong_tanh", "TANH(x) => SIN(x)", spoil, example)
    with monkeypatch.context() as patch:
        patch.setattr(GRAPH, "passes", (pass_, *GRAPH.passes))
        onnx_compat.convert(path, target)
    code, out = command("verify", path, "--converted", target, "--bisect-passes", "--oracle", "reference")
    assert (code, "the file was changed or is older, or was made with other options" in out) == (1, True)
    onnx_compat.convert(path, target)
    code, out = command("verify", path, "--converted", target, "--bisect-passes", "--oracle", "reference")
    assert (code, "so no pass is at fault" in out) == (0, True)


def test_explain_lists_every_pass_with_its_counts(path: Path, command: Command) -> None:
    target = path.with_suffix(".tflite")
    code, out = command("convert", path, target, "--explain", "--json")
    entries = {entry["name"]: entry for entry in json.loads(out)["passes"]}
    names = [pass_.name for pass_ in (*CORE.distinct, *PROGRAM.distinct, *GRAPH.distinct)]
    assert (code, list(entries)) == (0, names)
    assert [pass_.name for pass_ in passes_of(SHIM)] == names
    counts = {name: entry["rewrites"] for name, entry in entries.items() if entry["rewrites"]}
    assert counts == {"weight_folding": 1, "activation_fusion": 1}
    code, out = command("convert", path, target, "--explain")
    rows = {
        line.split()[0]: line.split()[1] for line in out.splitlines() if line.split()[:1] and line.split()[0] in names
    }
    assert rows == {name: str(entries[name]["rewrites"]) for name in names}
    assert command("convert", path, target)[1].count("\n") == 1


def test_a_pass_that_is_left_out_is_marked(path: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "-identities")
    code, out = command("convert", path, path.with_suffix(".tflite"), "--explain")
    assert code == 0
    assert any(line.startswith("identities") and "left out" in line for line in out.splitlines())


def test_a_name_that_is_no_pass_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "-identity")
    with pytest.raises(InputError, match="'identity', which this shim does not have as a pass") as caught:
        onnx_compat.convert(path, path.with_suffix(".tflite"))
    assert "identities" in str(caught.value.hint)
    assert list(path.parent.iterdir()) == [path]


def test_a_graph_pass_that_fails_is_named(
    path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture
) -> None:
    def fail(graph: GraphRewriter, context: Context) -> int:
        raise KeyError("x")

    monkeypatch.setattr(GRAPH, "passes", (GraphPass("failing", "f(x) => x", fail, example), *GRAPH.passes))
    assert main(["convert", str(path), str(path.with_suffix(".tflite"))]) == 70
    err = capfd.readouterr().err
    assert "the pass 'failing' failed with KeyError: 'x'" in err
    assert err.count("where:") == err.count("hint:") == 1
    assert "ONNX_COMPAT_PASSES=-failing leaves the pass out" in err
    monkeypatch.setenv(VARIABLE, "-failing")
    assert command("convert", path, path.with_suffix(".tflite"))[0] == 0

"""Measurement of a peer: a fake project with every outcome that a project may have, and the real projects installed
here.
"""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from matrix.data import load
from matrix.harness.compare import Mismatch, compare
from matrix.harness.tally import Result
from matrix.peers import __main__ as peers
from matrix.peers import child
from matrix.peers.tools import PROJECTS, Tool, onnx_reference, onnx_runtime
from matrix.peers.worker import PeerError
from matrix.suites.cache import write_case, write_index

X = np.array([-1.5, 2.5], np.float32)

TOOL = """
import os, signal, sys, time
import numpy as np

LEAKS = os.environ.get("LEAKS") == "yes"
PACKAGES = ("numpy",)
BEFORE = []
REFUSED = ("^NotImplementedError",)


def prepare(model, wrong=0):
    print("noise on standard output")
    name = os.path.basename(os.path.dirname(str(model)))
    BEFORE.append(name)
    if name == "test_right_again" and len(BEFORE) > 1 and LEAKS:
        raise ValueError("in the way: " + BEFORE[0])
    if name == "test_refused":
        raise NotImplementedError("no such operator")
    if name == "test_error":
        raise ValueError("%s cannot be read" % model)
    if name == "test_exit":
        sys.exit("gives up")
    if name == "test_crash":
        sys.stderr.write("about to crash\\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGSEGV)
    if name == "test_hang":
        time.sleep(600)
    return lambda inputs: [np.abs(inputs["x"]) + (wrong if name == "test_wrong" else 0)]
"""
NAMES = ["crash", "error", "exit", "hang", "refused", "right", "right_again", "wrong"]


@pytest.fixture
def tool(tmp_path, monkeypatch):
    (tmp_path / "made_up_tool.py").write_text(TOOL, encoding="utf-8")
    (tmp_path / "absent_tool.py").write_text("import no_such_package\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(PROJECTS, "made-up", "made_up_tool")
    monkeypatch.setitem(PROJECTS, "absent", "absent_tool")
    data = [([tensor(X)], [tensor(np.abs(X))])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Abs", ["x"], ["y"])], "g", ports[:1], ports[1:])
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7).SerializeToString()
    write_index("node", [write_case("node", "1.0", "test_" + name, content, data, {}) for name in NAMES])
    monkeypatch.chdir(tmp_path)
    return Tool("made_up_tool", {"wrong": 1})


def tensor(array):
    return numpy_helper.from_array(array).SerializeToString()


def test_each_case_has_an_outcome_whatever_it_does_to_its_process(tool):
    about, results = peers.measure(tool, peers.choose_cases(["1.0"], 1, []), workers=2, seconds=20)
    outcomes = {result.id.split("test_")[1]: (result.outcome, result.detail) for result in results}
    assert list(outcomes) == NAMES
    assert outcomes["right"] == outcomes["right_again"] == ("pass", "")
    assert outcomes["wrong"][0] == "fail" and "2 of 2 elements are wrong" in outcomes["wrong"][1]
    assert outcomes["refused"] == ("gap", "NotImplementedError: no such operator")
    assert outcomes["error"] == ("fail", "ValueError: node/1.0/test_error/model.onnx cannot be read")
    assert outcomes["exit"] == ("fail", "SystemExit: gives up")
    assert outcomes["crash"] == ("fail", "the process died (SIGSEGV): about to crash")
    assert outcomes["hang"] == ("fail", "no answer after 20 seconds")
    assert about["versions"] == {"numpy": np.__version__}


def test_a_case_that_failed_beside_another_model_runs_again(tool, monkeypatch):
    monkeypatch.setenv("LEAKS", "yes")
    cases = peers.choose_cases(["1.0"], 1, ["test_right", "test_right_again"])
    _, results = peers.measure(tool, cases, workers=1, seconds=20)
    assert [result.outcome for result in results] == ["pass", "pass"]
    assert results[1].detail == "after other models: ValueError: in the way: test_right"


def test_a_peer_writes_the_results_format_of_a_cell(tool, tmp_path):
    assert peers.main(["row", "--project=made-up", "--release=1.0", "--every=4", "--workers=1"]) == 0
    written = json.loads((tmp_path / "results" / "peer-row.json").read_text(encoding="utf-8"))
    about = {name: written[name] for name in ("cell", "shim", "peer", "state", "sample", "counts")}
    assert about == {
        "cell": "peer-row",
        "shim": "made-up",
        "peer": True,
        "state": "ran",
        "sample": "every 4th",
        "counts": {"node/1.0": {"pass": 0, "fallback": 0, "gap": 1, "fail": 1}},
    }
    assert [Result(**result).id for result in written["results"]] == ["node/1.0/test_crash", "node/1.0/test_refused"]


def test_a_single_case_can_be_run(tool, tmp_path, capsys):
    assert peers.main(["made-up", "--release=1.0", "--case=test_error"]) == 0
    assert "node/1.0/test_error: fail ValueError" in capsys.readouterr().out
    assert not (tmp_path / "results").exists(), "a part is no result"


def test_a_peer_that_cannot_be_imported_has_no_result(tool, tmp_path, capsys):
    with pytest.raises(PeerError, match=r"absent_tool: the process died .*no_such_package"):
        peers.measure(Tool("absent_tool"), peers.choose_cases(["1.0"], 1, []), workers=2, seconds=20)
    assert peers.main(["absent", "--release=1.0"]) == 1
    assert "no_such_package" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("arguments", [["nobody", "--release=1.0"], ["made-up", "--release=9.9"]])
def test_an_unknown_peer_is_refused(tool, arguments):
    with pytest.raises(SystemExit):
        peers.main(arguments)


@pytest.mark.parametrize(
    ("error", "outcome", "detail"),
    [
        (None, "pass", ""),
        (Mismatch("y: wrong"), "fail", "Mismatch: y: wrong"),
        (ValueError("Foo is not implemented\nat all"), "gap", "ValueError: Foo is not implemented"),
        (ValueError("in user code:\n\n  File x\n\n  Foo is not implemented"), "gap", "Foo is not implemented"),
        (ValueError("a" * 999), "fail", "ValueError: " + "a" * (child.LONGEST - 12) + "..."),
        (ValueError(), "fail", "ValueError: "),
    ],
)
def test_a_refusal_by_name_is_a_gap(error, outcome, detail):
    assert child.judge_error(error, ["is not implemented"]) == (outcome, detail.strip())


def test_an_output_is_compared_by_its_value():
    given = (np.float32(2), ["a"], {"k": np.array(["a"])}, None)
    assert [type(value) for value in child.plain(given)] == [np.ndarray, list, dict, type(None)]
    compare("y", child.plain(given)[2], {"k": np.array(["a"], object)}, 0, 0)


def test_every_row_is_of_a_known_project():
    rows = load().peers.values()
    assert {row.project for row in rows if row.releases} == set(PROJECTS)
    # `nox -s simplify` uses the row of the simplifiers.
    assert {row.id for row in rows if not row.releases and not row.bench} == {"simplifiers"}


def one_node(operator, type_, opset=21, **attributes):
    ports = [helper.make_tensor_value_info("x", type_, [2]), helper.make_tensor_value_info("y", type_, [2])]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], **attributes)], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10).SerializeToString()


def run_or_judge(tool, model, x):
    """Run a model on a tool. Return the output, or the outcome of the exception that the tool raised."""
    try:
        return tool.prepare(model)({"x": x})[0]
    except Exception as error:  # noqa: BLE001 - the test checks which exception it is
        return child.judge_error(error, tool.REFUSED)[0]


@pytest.mark.parametrize("tool_", [onnx_runtime, onnx_reference])
def test_a_real_peer_computes_and_refuses(tool_):
    np.testing.assert_array_equal(run_or_judge(tool_, one_node("Abs", TensorProto.FLOAT), X), np.abs(X))
    assert run_or_judge(tool_, one_node("NoSuchOperator", TensorProto.FLOAT), X) == "gap"


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2fnuz"])
def test_onnxruntime_takes_dtypes_that_numpy_lacks_as_bits(name):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = X.astype(getattr(ml_dtypes, name))
    got = run_or_judge(onnx_runtime, one_node("Identity", helper.np_dtype_to_tensor_dtype(x.dtype)), x)
    assert got.dtype == x.dtype and (got == x).all()


def test_onnxruntime_takes_no_four_bit_inputs():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert (
        run_or_judge(
            onnx_runtime, one_node("Cast", TensorProto.INT4, to=int(TensorProto.INT4)), X.astype(ml_dtypes.int4)
        )
        == "gap"
    )

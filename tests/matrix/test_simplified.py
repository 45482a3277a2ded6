"""The measurement of simplified models: nodes, outputs, latency and the summary."""

from pathlib import Path
from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from matrix.simplified.measure import compare_outputs, count_nodes, is_close, measure_latencies
from matrix.simplified.summary import SOURCE, Row, summarise, table
from matrix.simplified.tools import OURS, run_tool

node = helper.make_node


def save(path: Path, nodes: List[Any]) -> Path:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(np.float32([1, 2]), "w")])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    body = [node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["c"])]
    model.functions.append(helper.make_function("own", "twice", ["a"], ["c"], body, opsets[:1]))
    onnx.save(model, str(path))
    return path


def test_nodes_of_functions_and_subgraphs_count(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [node("Neg", ["x"], ["n"]), node("Neg", ["n"], ["m"])], "b", [], [helper.make_empty_tensor_value_info("m")]
    )
    nodes = [
        node("If", ["c"], ["d"], then_branch=branch, else_branch=branch),
        node("twice", ["d"], ["y"], domain="own"),
    ]
    assert count_nodes(save(tmp_path / "m.onnx", nodes)) == 1 + 2 + 2 + 2


def test_our_tool_writes_a_model_and_a_failure_is_told(tmp_path: Path) -> None:
    source = save(tmp_path / "m.onnx", [node("Neg", ["w"], ["a"]), node("Mul", ["x", "a"], ["y"])])
    assert run_tool(OURS, source, tmp_path / "out.onnx", 1.1) == ""
    assert count_nodes(tmp_path / "out.onnx") == 1
    assert run_tool(OURS, tmp_path / "none.onnx", tmp_path / "other.onnx", 1.1).startswith(
        "exit code 1: FileNotFoundError"
    )


class Session:
    """Stands for a session of onnxruntime that multiplies by `factor`."""

    def __init__(self, factor: float, output: str = "y") -> None:
        self.factor = factor
        self.runs = 0
        self.output = output

    def get_outputs(self) -> List[Any]:
        return [helper.make_empty_tensor_value_info(self.output)]

    def get_inputs(self) -> List[Any]:
        return [helper.make_empty_tensor_value_info("x")]

    def run(self, names: None, feed: Any) -> List[Any]:
        self.runs += 1
        if self.factor < 0:
            raise RuntimeError("negative")
        return [feed["x"] * np.float32(self.factor)]


def test_outputs_are_compared() -> None:
    feeds = [{"x": np.float32([1, 1000])}]
    assert compare_outputs(Session(1), Session(1.0001), feeds) == ""
    assert compare_outputs(Session(1), Session(1.1), feeds) == "'y' differs"
    assert compare_outputs(Session(1), Session(1, "z"), feeds) == "outputs ['z'], not ['y']"
    assert compare_outputs(Session(1), Session(-1), feeds) == "does not run: negative"


@pytest.mark.parametrize(
    ("got", "wanted", "equal"),
    [
        (np.float32([1]), np.float64([1]), False),
        (np.float32([[1]]), np.float32([1]), False),
        (np.float32([np.nan, np.inf]), np.float32([np.nan, np.inf]), True),
        (np.int64([1]), np.int64([2]), False),
        ([np.int64([1])], [np.int64([1])], True),
        ([], [np.int64([1])], False),
        (None, None, True),
        (np.float32([]), np.float32([]), True),
    ],
)
def test_values_are_close(got: Any, wanted: Any, equal: bool) -> None:
    assert is_close(got, wanted) is equal


def test_sessions_are_timed_in_turn() -> None:
    sessions = {"a": Session(1), "b": Session(1)}
    latencies = measure_latencies(sessions, {"x": np.float32([1])}, seconds=0)
    assert set(latencies) == {"a", "b"}
    assert [session.runs for session in sessions.values()] == [4, 4]


def test_the_summary_names_what_is_wrong_and_compares_with_the_best_that_is_right() -> None:
    rows = [
        Row(
            "m", {SOURCE: 9, OURS: 6, "onnxsim": 5, "onnxslim": 8}, {SOURCE: 2.0, OURS: 1.0}, {"onnxsim": "'y' differs"}
        ),
        Row("n", {SOURCE: 9, OURS: 6, "onnxsim": 6, "onnxslim": 5}),
    ]
    lines = summarise(rows)
    assert "nodes / best of onnxsim and onnxslim, median: 0.975 (aim <= 1.00)" in lines
    assert "nodes / best of onnxsim and onnxslim, largest: 1.200 (aim <= 1.02)" in lines
    assert "fewer nodes than the best: 1, equally many: 0, more: 1" in lines
    assert "latency / source, median: 0.500 (aim <= 1.00)" in lines
    assert "wrong, onnxsim: 1 (m)" in lines
    assert "wrong, onnx-compat: 0" in lines
    assert table(rows)[2].startswith("| m | 9, 2000.000 ms | 6, 1000.000 ms | 5! |")

"""The measurement of simplified models: nodes, outputs, latency, the summary, the exit code and the page."""

from pathlib import Path
from typing import Any, List

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from matrix.real.catalog import load_networks
from matrix.real.fetch import package_folder
from matrix.simplified import __main__ as command
from matrix.simplified import page
from matrix.simplified.measure import compare_outputs, count_nodes, is_close, measure_latencies
from matrix.simplified.models import Source, choose_sources
from matrix.simplified.summary import SOURCE, Figure, Row, compute_figures, format_wrong, table
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
    assert [session.runs for session in sessions.values()] == [11, 11]


def test_the_summary_compares_with_the_best_right_model_of_a_peer() -> None:
    rows = [
        Row(
            "m", {SOURCE: 9, OURS: 6, "onnxsim": 5, "onnxslim": 8}, {SOURCE: 2.0, OURS: 1.0}, {"onnxsim": "'y' differs"}
        ),
        Row("n", {SOURCE: 9, OURS: 6, "onnxsim": 6, "onnxslim": 5}),
    ]
    lines = [str(figure) for figure in compute_figures(rows)]
    assert "nodes / best of onnxsim and onnxslim, median: 0.975 (aim <= 1.00: met)" in lines
    assert "nodes / best of onnxsim and onnxslim, largest: 1.200 (aim <= 1.02: missed)" in lines
    assert lines[3:6] == [
        "models with fewer nodes than the best of onnxsim and onnxslim: 1",
        "models with equally many nodes: 0",
        "models with more nodes: 1",
    ]
    assert "latency / source, median: 0.50 (aim <= 1.00: met)" in lines
    assert "wrong or failed, onnxsim: 1" in lines
    assert "wrong or failed, onnx-compat: 0 (aim <= 0: met)" in lines
    assert format_wrong(rows) == ["onnxsim, m: 'y' differs"]
    assert table(rows)[2].startswith("| m | 9, 2000.000 ms | 6, 1000.000 ms | 5! |")


def test_a_missed_aim_never_looks_met() -> None:
    assert str(Figure("f", 1.0204, 1.02, 3)) == "f: 1.0204 (aim <= 1.02: missed)"
    assert str(Figure("f", 1.02, 1.02, 3)) == "f: 1.020 (aim <= 1.02: met)"


GOOD = Row("m", {SOURCE: 100, OURS: 51, "onnxsim": 50, "onnxslim": 60}, {SOURCE: 1.0, OURS: 1.0})
FEWER = Row("f", {SOURCE: 100, OURS: 40, "onnxsim": 50, "onnxslim": 60}, {SOURCE: 1.0, OURS: 1.004})


def bad(nodes: int = 40, latency: float = 1.0, **wrong: str) -> Row:
    counts = {SOURCE: 100, OURS: nodes, "onnxsim": 50, "onnxslim": 60}
    return Row(
        "b", counts, {SOURCE: 1.0, OURS: latency}, {tool.replace("_", "-"): text for tool, text in wrong.items()}
    )


@pytest.fixture(name="measured")
def _replace_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> List[Row]:
    """Replace the measurement by rows that a test puts into this list, and the files by those of a folder."""
    rows: List[Row] = []
    by_name = iter(rows)
    sources = (Source(str(index), tmp_path, list) for index in range(9))
    monkeypatch.setattr(command, "choose_sources", lambda *_: (source for source, _ in zip(sources, list(rows))))
    monkeypatch.setattr(command, "measure", lambda *_: next(by_name))
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results" / "simplified.json")
    monkeypatch.setattr(command, "revision", lambda: "abc")
    monkeypatch.setattr(command, "_PACKAGES", ("numpy",))
    return rows


@pytest.mark.parametrize(
    ("rows", "code"),
    [
        ([GOOD, FEWER, FEWER], 0),
        ([bad(onnxsim="exit code 1")], 0),
        ([], 1),
        ([GOOD], 1),
        ([FEWER, FEWER, bad(nodes=52)], 1),
        ([bad(latency=1.02)], 1),
        ([FEWER, FEWER, bad(onnx_compat="'y' differs")], 1),
    ],
    ids=["all met", "a peer is wrong", "no model", "median", "largest", "latency", "wrong"],
)
def test_the_exit_code_is_1_if_an_aim_is_missed(measured: List[Row], rows: List[Row], code: int) -> None:
    measured.extend(rows)
    assert command.main([]) == code


def test_a_run_continues_where_this_revision_stopped(measured: List[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    measured.append(bad())
    assert command.main(["--resume"]) == 0
    document, rows = page.load_rows(command.RESULTS)
    assert (document["revision"], list(document["versions"]), rows) == ("abc", ["numpy"], [bad()])
    monkeypatch.setattr(command, "choose_sources", lambda *_: [Source("b", Path(), list)])
    assert command.main(["--resume"]) == 0
    for revision in ("abd", "abc-dirty"):
        monkeypatch.setattr(command, "revision", lambda text=revision: text)
        with pytest.raises(StopIteration):
            command.main(["--resume"])


def test_a_missing_package_is_named_before_anything_is_measured(
    measured: List[Row], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "_PACKAGES", ("numpy", "no-such-package"))
    monkeypatch.setattr(command, "measure", lambda *_: pytest.fail("a model was measured"))
    measured.append(GOOD)
    assert command.main([]) == 1
    assert capsys.readouterr().err.startswith("no-such-package is not installed here. `nox -s simplify`")
    assert not command.RESULTS.exists()


def test_a_part_of_a_suite_is_not_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    for part in (["--tool=onnxsim"], ["--seconds=0"], ["bert"]):
        with pytest.raises(SystemExit):
            command.main(["--record", *part])
        assert "--record stores all" in capsys.readouterr().err


def test_networks_in_the_cache_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path))
    assert list(choose_sources(["real", "zoo"])) == []
    network = next(network for network in load_networks() if network.name == "magika")
    path = package_folder(network.package) / network.onnx
    path.parent.mkdir(parents=True)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, "n"]) for name in ("bytes", "y")]
    onnx.save(
        helper.make_model(helper.make_graph([node("Neg", ["bytes"], ["y"])], "g", ports[:1], ports[1:])), str(path)
    )
    (source,) = choose_sources(["real"])
    assert (source.name, source.path) == ("real/magika", path)
    (feeds,) = source.read_feeds()
    assert feeds["bytes"].shape == (1, 2048)
    assert feeds["bytes"].max() > 200
    assert list(choose_sources(["real"], ["other"])) == []


def test_the_page_lists_figures_networks_and_wrong_models() -> None:
    row = Row("real/r", {SOURCE: 9, OURS: 6, "onnxsim": 5}, {SOURCE: 2.0, OURS: 1.0}, {"onnxsim": "'y' differs"})
    lines = page.render({"revision": "abc", "versions": {"onnx": "1.2"}}, [row, FEWER])
    assert lines[0] == "Measured at revision `abc` with onnx 1.2."
    assert lines[2] == "Models of each suite: real 1, f 1."
    assert "| latency / source, median | 0.75 | <= 1.00: met |" in lines
    assert "| r | 9 | 6 | 5! | - | - | 0.50 |" in lines
    assert not any(line.startswith("| f |") for line in lines)
    assert lines[-1] == "- onnxsim, real/r: 'y' differs"
    assert page.render({"revision": "abc", "versions": {}}, [FEWER])[-1] == "- none"

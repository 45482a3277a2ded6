"""The measurement of models at other opsets: its rows, its aims and its child processes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Dict, List, Optional

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks.child.real_inputs import generate_inputs
from matrix.real.catalog import Network, Package
from matrix.retarget import network_check, networks, node_check, nodes, pool, round_trip, round_trip_check
from matrix.retarget.__main__ import ROWS, make_parser
from matrix.retarget.exceptions import Reason, load_round_trips
from matrix.retarget.outcomes import (
    CHANGED,
    CRASHED,
    FIXED_POINT,
    INVALID,
    NEVER,
    NO_PROGRAM,
    OURS,
    REFUSED,
    RIGHT,
    UNTYPED,
    WRONG,
)
from matrix.retarget.page import render_page
from matrix.suites.cache import Case, write_case, write_index
from onnx_compat.execution.runnable import Runnable
from onnx_compat.model import load

ml_dtypes = pytest.importorskip("ml_dtypes")
pytest.importorskip("onnxruntime")

X = np.float32([[-1, 0, 4]])


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))


def options(**given: Any) -> argparse.Namespace:
    """Return the default options of a run, with some of them changed."""
    return argparse.Namespace(**{**vars(make_parser().parse_args(["--jobs", "1"])), **given})


def model_of(operator: str, opset: int, **attributes: Any) -> Any:
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3]) for name in "xy"]
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], **attributes)], "g", ports[:1], ports[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def store(suite: str, models: Dict[str, Any], y: np.ndarray) -> List[Case]:
    """Write a case for each model, whose recorded input is `X`, into the cache."""
    sets = [([numpy_helper.from_array(X).SerializeToString()], [numpy_helper.from_array(y).SerializeToString()])]
    release = "1.23.2" if suite == "node" else "generated"
    cases = [write_case(suite, release, name, model.SerializeToString(), sets, {}) for name, model in models.items()]
    write_index(suite, cases)
    return cases


def test_every_row_is_a_module_with_a_measure() -> None:
    for row in ROWS:
        assert callable(__import__("matrix.retarget." + row, fromlist=["measure"]).measure)


def test_answers_come_in_order_and_a_dead_process_is_a_crash() -> None:
    (case,) = store("node", {"relu": model_of("Relu", 14)}, np.float32([[0, 0, 4]]))
    good = {"case": list(case), "converter": OURS, "opset": 11}
    answers = list(pool.ask_all("node_check", [good, {"case": []}, good], jobs=2))
    assert [answer[0] for answer in answers] == [RIGHT, CRASHED, RIGHT]
    assert "exit code 1" in answers[1][1]
    assert [answer[0] for answer in pool.ask_all("node_check", [good], 1, seconds=0.001)] == [CRASHED]


def test_node_cases_are_counted_for_each_converter_and_target() -> None:
    store("node", {"relu": model_of("Relu", 14), "abs": model_of("Abs", 13)}, np.float32([[0, 0, 4]]))
    result = nodes.measure(options(converter=[OURS, "onnx"], opset=[15, 17], case="relu"))
    assert {key: entry["counts"] for key, entry in result.entries.items()} == {
        key: {RIGHT: 1} for key in ("onnx-compat 15", "onnx-compat 17", "onnx 15", "onnx 17")
    }
    assert result.misses == []


def test_other_outputs_than_the_source_has_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = store("node", {"relu": model_of("Relu", 14)}, np.float32([[0, 0, 4]]))
    absolute = model_of("Abs", 11)
    monkeypatch.setitem(node_check._BY, OURS, lambda model, opset: absolute)
    assert node_check.examine(list(case), OURS, 11) == (
        WRONG,
        "y: 1 of 3 elements are wrong, first at (0, 0): expected np.float32(0.0), got np.float32(1.0)",
    )


def test_a_miss_has_its_case_in_the_details() -> None:
    store("node", {"string": model_of("NoSuchOperator", 14)}, X)
    result = nodes.measure(options(converter=[OURS], opset=[17]))
    assert result.misses == [
        "opset 17: 0.0 % are right",
        "opset 17: 1 cases of NoSuchOperator have no declared reason",
    ]
    assert result.entries["onnx-compat 17"]["refused"] == {"NoSuchOperator": 1}
    assert [(detail["case"], detail["outcome"]) for detail in result.details] == [("string", REFUSED)]


@pytest.mark.parametrize("outcome", NEVER)
def test_one_case_that_is_wrong_invalid_or_crashed_misses_the_aim(outcome: str) -> None:
    entry = {"converter": OURS, "opset": 9, "counts": {RIGHT: 999, outcome: 1, UNTYPED: 70}}
    assert nodes.misses(entry) == ["opset 9: 1 " + outcome]


def test_the_share_leaves_cases_without_types_out() -> None:
    entry = {"converter": OURS, "opset": 9, "counts": {RIGHT: 97, REFUSED: 3, UNTYPED: 70}}
    assert nodes.misses(entry) == ["opset 9: 97.0 % are right"]
    assert nodes.line(entry) == "onnx-compat  opset  9:  97.0 % of 100: 97 right, 3 refused, 70 types missing"


def test_a_refused_operator_has_a_reason_below_the_opset_that_expresses_it() -> None:
    entry = {"converter": OURS, "counts": {RIGHT: 99, REFUSED: 1}, "refused": {"StringConcat": 1}}
    assert nodes.misses({**entry, "opset": 18}) == []
    assert nodes.misses({**entry, "opset": 21}) == ["opset 21: 1 cases of StringConcat have no declared reason"]


def test_float8_outputs_of_onnxruntime_are_compared_by_their_numbers() -> None:
    wanted = np.float32([1, 2]).astype(ml_dtypes.float8_e4m3fn)
    assert node_check.as_recorded(wanted.view(np.uint8), wanted).dtype == wanted.dtype
    assert node_check.as_recorded(np.uint8([1, 2]), np.uint8([1, 2])).dtype == np.uint8


def test_an_invalid_result_is_invalid(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = store("node", {"relu": model_of("Relu", 14)}, np.float32([[0, 0, 4]]))
    broken = model_of("Relu", 11, no_such_attribute=1)
    monkeypatch.setitem(node_check._BY, OURS, lambda model, opset: broken)
    assert node_check.convert_case(case, OURS, 11)[0] == INVALID


def test_networks_are_compared_and_their_growth_is_counted() -> None:
    store("zoo", {"mish": model_of("Mish", 18), "relu": model_of("Relu", 14)}, X)
    result = networks.measure(options(opset=[11], no_real=True))
    entry = result.entries["exported 11"]
    assert entry["counts"] == {RIGHT: 2}
    assert entry["composed"] == 1  # Relu is not
    assert entry["median"] == entry["largest"] > networks.GROWTH_AIM
    assert result.misses == ["exported at opset 11: median growth %.3f" % entry["median"]]


def test_a_network_with_other_outputs_is_wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (case,) = store("zoo", {"relu": model_of("Relu", 14)}, X)
    onnx.save(model_of("Abs", 11), str(tmp_path / "other.onnx"))
    load = network_check.load_session
    monkeypatch.setattr(
        network_check, "load_session", lambda path, **kind: load(path if kind else tmp_path / "other.onnx", **kind)
    )
    assert network_check.examine(str(case.model), 11, list(case), {})[:2] == (WRONG, "'y' differs")


def test_a_real_network_gets_inputs_in_its_ranges(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(model_of("Relu", 14), str(path))
    network = Network("tiny", Package("tiny", "1", ""), "model.onnx", fed={"x": [1, 3]}, ranges={"x": [5, 6]})
    monkeypatch.setattr(networks, "load_networks", lambda: [network])
    monkeypatch.setattr(networks, "fetch_files", lambda package, members: {members[0]: path})
    result = networks.measure(options(opset=[11]))
    assert result.entries["real 11"]["counts"] == {RIGHT: 1}
    assert result.entries["exported 11"]["counts"] == {}
    feed = generate_inputs(str(path), {}, {}, network.fed, network.ranges)
    assert 5 <= feed["x"].min() <= feed["x"].max() < 6


def test_a_program_that_is_written_three_times_is_a_fixed_point() -> None:
    store("node", {"mish": model_of("Mish", 18)}, X * np.tanh(np.log1p(np.exp(X))))
    result = round_trip.measure(options(suite=["node"]))
    assert result.entries == {"node/1.23.2": {"counts": {FIXED_POINT: 1}}}
    assert result.misses == []


def test_a_declared_case_with_another_outcome_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    store("node", {"mish": model_of("Mish", 18)}, X * np.tanh(np.log1p(np.exp(X))))
    declared = {"node/1.23.2": {"mish": Reason(CHANGED, "a reason")}}
    monkeypatch.setattr(round_trip, "load_round_trips", lambda: declared)
    (miss,) = round_trip.measure(options(suite=["node"])).misses
    assert miss.startswith("node/1.23.2/mish: fixed point (declared as changed)")


@pytest.mark.parametrize("outcome", [FIXED_POINT, CHANGED, REFUSED, WRONG, CRASHED, NO_PROGRAM])
@pytest.mark.parametrize("declared", [None, CHANGED, REFUSED])
def test_an_outcome_is_a_miss_unless_it_is_declared(outcome: str, declared: Optional[str]) -> None:
    expected = outcome == declared or (declared is None and outcome in (FIXED_POINT, NO_PROGRAM))
    assert round_trip.is_miss(outcome, None if declared is None else Reason(declared, "a reason")) is not expected


def test_each_declared_case_of_a_round_trip_has_a_reason_and_an_outcome() -> None:
    reasons = [reason for cases in load_round_trips().values() for reason in cases.values()]
    assert all(reason.text and reason.kind in (CHANGED, REFUSED) for reason in reasons)
    page = render_page({"versions": {}, "rows": {"round_trip": {"node/1": {"counts": {}, "revision": "abc"}}}})
    assert all(reason.text in page for reason in reasons)


def test_a_writing_that_changes_each_time_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    (case,) = store("node", {"relu": model_of("Relu", 14)}, np.float32([[0, 0, 4]]))
    write, numbers = round_trip_check.write_program, iter(range(9))

    def write_differently(program: Any, opset: int) -> Any:
        proto = write(program, opset)
        proto.graph.doc_string = str(next(numbers))
        return proto

    monkeypatch.setattr(round_trip_check, "write_program", write_differently)
    outcome, detail = round_trip_check.examine(list(case))
    assert outcome == CHANGED
    assert detail.startswith("1 and 1 nodes; first 'doc_string: \"2\"', then 'doc_string: \"4\"'")


def test_other_numbers_of_the_second_program_are_wrong() -> None:
    (case,) = store("node", {"relu": model_of("Relu", 14)}, np.float32([[0, 0, 4]]))
    recorder = round_trip_check.Recorder()
    Runnable(load(str(case.model)), recorder, None, True, True).run([X])
    (run,) = recorder.runs
    assert round_trip_check.check_program(run, case, recorder) == (FIXED_POINT, "")
    outcome, detail = round_trip_check.check_program(run._replace(results=[X]), case, recorder)
    assert outcome == WRONG
    assert detail.startswith("the second program: y: 1 of 3 elements are wrong")


def test_a_case_that_the_first_program_computes_wrongly_is_wrong() -> None:
    (case,) = store("node", {"relu": model_of("Relu", 14)}, np.float32([[7, 7, 7]]))
    outcome, detail = round_trip_check.examine(list(case))
    assert outcome == WRONG
    assert detail.startswith("the first program: y: 3 of 3")

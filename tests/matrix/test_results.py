"""What a cell found, stored small: the worst of each operator, a ratchet on the counts, and the page that shows it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

from matrix import results, support
from matrix.data import load
from matrix.suites import cache

CELL = "reference-onnx1.12.0-py37"


def _model(*operators: str) -> bytes:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    nodes = [helper.make_node(operator, ["x"], ["y"]) for operator in operators]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    model: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]).SerializeToString()
    return model


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The results of a few cases."""
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))
    cases = {
        "abs": (["Abs"], "pass"),
        "abs_more": (["Abs"], "fallback"),
        "relu": (["Relu"], "pass"),
        "both": (["Relu", "Neg"], "gap"),
        "own": (["Relu", "Mine"], "fail"),
        "exp": (["Exp"], "pass"),
        "exp_wrong": (["Exp"], "fail"),
    }
    cache.write_index("node", [cache.write_case("node", "1", n, _model(*o), [], {}) for n, (o, _) in cases.items()])
    told = [{"id": f"node/1/{name}", "outcome": outcome} for name, (_, outcome) in cases.items() if name != "exp_wrong"]
    told.append({"id": "node/1/exp@composed", "outcome": "fail"})
    told.append({"id": "node/1/exp_wrong", "outcome": "gap", "detail": "never: recorded wrong"})
    counts = {"node/1": {"pass": 3, "fallback": 1, "gap": 1, "fail": 1}}
    about = {"cell": CELL, "shim": "reference", "python": "3.7", "natives": ["Relu"]}
    return {**about, "counts": counts, "results": told}


def test_the_worst_of_an_operator_is_that_of_the_cases_of_it_alone(found: dict[str, Any]) -> None:
    small = results.summary(found)
    assert small["operators"] == {"Abs-13": "fallback", "Exp-13": "pass", "Neg-13": "gap", "Relu-14": "pass"}
    assert (small["gap"], small["fail"]) == (["both"], ["own"])
    assert small["counts"] == found["counts"]


def test_what_is_recorded_is_read(found: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    target = results.record(path, tmp_path / "stored")
    assert target.name == CELL + ".json"
    assert results.stored(tmp_path / "stored") == {CELL: results.summary(found)}
    assert len(target.read_text(encoding="utf-8").splitlines()) > 10, "a line for each thing"


def test_counts_may_not_fall() -> None:
    before = {"counts": {"node/1": {"pass": 5, "fallback": 2, "gap": 1, "fail": 0}}}

    def now(**counts: int) -> list[str]:
        return results.fallen({"counts": {"node/1": {"pass": 5, "fallback": 2, "gap": 1, "fail": 0, **counts}}}, before)

    assert now() == []
    assert now(**{"pass": 7, "fallback": 0}) == [], "from the fallback into the framework"
    assert now(gap=9) == [], "a case that is new"
    assert now(**{"pass": 4, "fallback": 3}) == ["node/1: 4 cases pass in the framework alone, 5 did"]
    assert now(fallback=1) == ["node/1: 6 give the right answer, 7 did"]
    assert results.fallen({"counts": {}}, before) == ["node/1: was run before, is not any more"]


def test_the_page_says_what_a_cell_does_of_each_operator(
    found: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    small = results.summary(found)
    monkeypatch.setattr(support, "stored", lambda: {CELL: small, "a cell that is gone": small})
    lines = support.page(load()).splitlines()
    assert f"| {CELL} | recorded | 3 | 1 | 1 | 1 |" in lines
    assert "| operator | since | reference-onnx1.12.0 |" in lines
    for row in ("Abs | 13 | fallback", "Relu | 14 | native", "Exp | 13 | composed", "Neg | 13 | gap"):
        assert f"| {row} |" in lines
    assert "| Relu | 6 | no case |" in lines
    assert not any("gone" in line for line in lines)

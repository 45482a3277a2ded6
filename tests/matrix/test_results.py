"""Stored results of a cell: the worst outcome of each operator, the ratchet on the counts, and docs/support.md."""

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


def _model(name: str, *operators: str) -> bytes:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    nodes = [helper.make_node(operator, ["x"], ["y"]) for operator in operators]
    graph = helper.make_graph(nodes, name, infos[:1], infos[1:])
    model: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]).SerializeToString()
    return model


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the results file of a run of a few cases."""
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
    cache.write_index("node", [cache.write_case("node", "1", n, _model(n, *o), [], {}) for n, (o, _) in cases.items()])
    case_results = [
        {"id": f"node/1/{name}", "outcome": outcome} for name, (_, outcome) in cases.items() if name != "exp_wrong"
    ]
    details = {
        "node/1/both": "/some/where/a.py says 0x7f00dd00\nand more",
        "node/1/own": "wrong in [%s]" % ("1" * 400),
    }
    case_results = [{**case_result, "detail": details.get(case_result["id"], "")} for case_result in case_results]
    case_results.append({"id": "node/1/exp@composed", "outcome": "fail"})
    case_results.append({"id": "node/1/exp_wrong", "outcome": "gap", "detail": "never: recorded wrong"})
    counts = {"node/1": {"pass": 3, "fallback": 1, "gap": 1, "fail": 1}}
    about = {"cell": CELL, "shim": "reference", "python": "3.7", "natives": ["Relu"]}
    about.update({"date": "2026-01-02T03:04:05Z", "revision": "abc"})
    return {**about, "counts": counts, "results": case_results}


@pytest.fixture
def folder(report: dict[str, Any], tmp_path: Path) -> Path:
    """Return a folder that holds the stored results of one run."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps(report), encoding="utf-8")
    assert results.record(path, tmp_path / "stored").name == CELL + ".json"
    return tmp_path / "stored"


def test_the_worst_outcome_of_an_operator_is_that_of_its_own_cases(folder: Path) -> None:
    small = results.load_results(folder)[CELL]
    assert small["operators"] == {"Abs-13": "fallback", "Exp-13": "pass", "Neg-13": "gap", "Relu-14": "pass"}


def test_cases_that_did_not_pass_are_stored_with_their_errors(report: dict[str, Any], folder: Path) -> None:
    text = (folder / f"{CELL}.json").read_text(encoding="utf-8")
    small = json.loads(text)
    assert small["counts"] == report["counts"]
    assert small["opsets"] == {"14": [3, 1, 1, 1, 1]}
    assert [(row["outcome"], row["detail"], row["cases"]) for row in small["missed"]] == [
        ("fail", "", {"node/1@composed": ["exp"]}),
        ("fail", "wrong in [" + "1" * 187 + "...", {"node/1": ["own"]}),
        ("gap", "a.py says 0x...", {"node/1": ["both"]}),
        ("fallback", "", {"node/1": ["abs_more"]}),
        ("void", "never: recorded wrong", {"node/1": ["exp_wrong"]}),
    ]
    assert (small["state"], small["date"], small["revision"]) == ("ran", "2026-01-02T03:04:05Z", "abc")
    assert len(text.splitlines()) > 10, "a line for each thing"


def test_cases_that_were_not_run_are_reported(report: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    report["results"] = [case_result for case_result in report["results"] if case_result["id"] != "node/1/relu"]
    _again(report, folder, tmp_path)
    small = json.loads((folder / f"{CELL}.json").read_text(encoding="utf-8"))
    assert (small["absent"], small["opsets"]) == ({"node/1": ["relu"]}, {"14": [2, 1, 1, 1, 1]})
    report["results"] = [case_result for case_result in report["results"] if case_result["id"] == "node/1/both"]
    _again(report, folder, tmp_path)
    small = json.loads((folder / f"{CELL}.json").read_text(encoding="utf-8"))
    assert (small["only"], small["opsets"]) == ({"node/1": ["both"]}, {"14": [0, 0, 1, 0, 0]})
    assert results.load_results(folder)[CELL]["operators"] == {"Neg-13": "gap", "Relu-14": "gap"}


def test_a_content_of_several_releases_is_one_case(report: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    """This also holds for a run of older releases only."""
    of = {"1": _model("abs", "Abs"), "2": _model("abs", "Abs"), "3": _model("abs", "Neg"), "4": _model("abs", "Neg")}
    known: dict[str, str] = {}
    rows = [cache.write_case("simple", release, "abs", model, [], known) for release, model in of.items()]
    cache.write_index("simple", rows)

    def run(*releases: str) -> dict[str, Any]:
        case_results = [
            {"id": f"simple/{release}/abs", "outcome": "fail" if release < "3" else "gap"} for release in releases
        ]
        counts = {f"simple/{release}": {"pass": 0, "fallback": 0, "gap": 0, "fail": 1} for release in releases}
        _again({**report, "counts": counts, "results": case_results}, folder, tmp_path)
        small: dict[str, Any] = results.load_results(folder)[CELL]
        assert not {"absent", "only"} & set(small)
        return small

    assert run("1")["operators"] == run("2")["operators"] == run("1", "2")["operators"] == {"Abs-13": "fail"}
    assert run("3")["operators"] == {"Neg-13": "gap"}
    small = run("1", "2", "3", "4")
    assert small["opsets"] == {"14": [0, 0, 1, 1, 0]}
    assert [row["cases"] for row in small["missed"]] == [{"simple/2": ["abs"]}, {"simple/4": ["abs"]}]


def test_the_history_has_each_run_once(report: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    _again(report, folder, tmp_path)
    report["date"] = "2026-01-01T00:00:00Z"
    _again(report, folder, tmp_path)
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [line["date"][:10] for line in lines] == ["2026-01-01", "2026-01-02"]
    assert lines[0] == {
        "date": "2026-01-01T00:00:00Z",
        "cell": CELL,
        "revision": "abc",
        "state": "ran",
        "found": [3, 1, 1, 1, 1],
    }


def test_cases_are_stored_once_and_only_while_a_cell_names_them(
    report: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    before = {path.name for path in (folder / "cases").iterdir()}
    assert len(before) == 1
    cache.write_index("node", [cache.write_case("node", "1", "more", _model("more", "Sin"), [], {})])
    _again({**report, "cell": "another"}, folder, tmp_path)
    after = {path.name for path in (folder / "cases").iterdir()}
    assert before < after and len(after) == 2
    _again(report, folder, tmp_path)
    assert {path.name for path in (folder / "cases").iterdir()} == after - before


@pytest.mark.parametrize("state", ["no-gpu", "broken"])
def test_a_cell_that_did_not_run_does_not_replace_one_that_did(
    report: dict[str, Any], folder: Path, tmp_path: Path, state: str
) -> None:
    silent = {"cell": CELL, "state": state, "reason": "it is off", "shim": "reference"}
    with pytest.raises(results.NotStored, match=f"{CELL}: {state}: the results of an earlier run stay"):
        _again(silent, folder, tmp_path)
    _again({**silent, "cell": "another"}, folder, tmp_path)
    small = results.load_results(folder)["another"]
    assert (small["state"], small["reason"], small["counts"]) == (state, "it is off", {})
    _again({**report, "cell": "another"}, folder, tmp_path)
    assert results.load_results(folder)["another"]["state"] == "ran"


def test_a_peer_is_stored_as_a_peer(report: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    properties = {"peer": True, "versions": {"other": "1.0"}, "sample": "every 9th"}
    path = _again({**report, **properties, "cell": "other"}, folder, tmp_path)
    assert path.name == "peer-other.json"
    assert properties.items() <= json.loads(path.read_text(encoding="utf-8")).items()


def _again(content: dict[str, Any], folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "again.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return results.record(path, folder)


def test_counts_may_not_fall() -> None:
    before = {"counts": {"node/1": {"pass": 5, "fallback": 2, "gap": 1, "fail": 0}}}

    def now(**counts: int) -> list[str]:
        return results.find_regressions(
            {"counts": {"node/1": {"pass": 5, "fallback": 2, "gap": 1, "fail": 0, **counts}}}, before
        )

    assert now() == []
    assert now(**{"pass": 7, "fallback": 0}) == [], "from the fallback into the framework"
    assert now(gap=9) == [], "a case that is new"
    assert now(**{"pass": 4, "fallback": 3}) == ["node/1: 4 cases pass in the framework alone, 5 did"]
    assert now(fallback=1) == ["node/1: 6 give the right answer, 7 did"]
    assert results.find_regressions({"counts": {}}, before) == ["node/1: was run before, but not in this run"]
    assert results.find_regressions({"state": "broken"}, before) == ["node/1: was run before, but not in this run"]
    assert results.find_regressions({"state": "no-gpu"}, before) == [], "neither pass nor fail"


def test_the_page_shows_the_outcome_of_each_operator(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = results.load_results(folder)[CELL]
    monkeypatch.setattr(support, "load_results", lambda: {CELL: small, "a cell that is gone": small})
    lines = support.page(load()).splitlines()
    assert f"| {CELL} | recorded | 3 | 1 | 1 | 1 |" in lines
    assert "| operator | since | reference-onnx1.12.0 |" in lines
    for row in ("Abs | 13 | fallback", "Relu | 14 | native", "Exp | 13 | composed", "Neg | 13 | gap"):
        assert f"| {row} |" in lines
    assert "| Relu | 6 | no case |" in lines
    assert not any("gone" in line for line in lines)


def test_a_case_of_a_part_is_compared_with_its_stored_outcome(monkeypatch, tmp_path):
    before = {"cases": "digest"}
    stored = {"node/1/a": "pass", "node/1/b": "fallback", "node/1/c": "void"}
    monkeypatch.setattr(results, "load_cases", lambda folder: {"digest": {}})
    monkeypatch.setattr(results, "outcomes", lambda small, cases: stored)

    def worse(**outcome_by_name):
        rows = [{"id": f"node/1/{name}", "outcome": outcome} for name, outcome in outcome_by_name.items()]
        return results.find_worse_cases({"results": rows}, before, tmp_path)

    assert worse(a="pass", b="fallback", c="gap", unknown="fail") == []
    assert worse(b="pass") == [], "better"
    assert worse(a="fallback", b="gap") == ["node/1/a: fallback, was pass", "node/1/b: gap, was fallback"]
    assert results.find_worse_cases({"results": []}, {"counts": {}}) == []

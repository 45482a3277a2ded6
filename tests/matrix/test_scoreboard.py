"""Scoreboard: the runs that are shown, the contents of the page, badges, and the export for onnx/backend-scoreboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from matrix.__main__ import main
from matrix.data import MatrixError, load
from matrix.results import STORED
from matrix.scoreboard.backends import export
from matrix.scoreboard.badges import draw_badges
from matrix.scoreboard.cases import Known, load_cases, write_cases
from matrix.scoreboard.fill import fill
from matrix.scoreboard.gather import gather
from matrix.scoreboard.page import render_page

CELL = "tf2-2.21.0-py313"
NEWEST = list(load().releases)[-1]
GROUP = f"node/{NEWEST}"
CASES = {
    f"{GROUP}/test_abs": Known(13, ("Abs-13",)),
    f"{GROUP}/test_both": Known(17, ("Abs-13", "Mine", "ai.onnx.ml::Scaler-1")),
    f"{GROUP}/test_exp": Known(0, ("Exp-13",)),
    f"{GROUP}/test_void": Known(17, ("Neg-13",)),
    "node/1.12.0/test_old": Known(7, ("Abs-6",), "1.2.3"),
    f"simple/{NEWEST}/test_simple": Known(9, ("Abs-6",)),
    "zoo/generated/mlp": Known(20, ("Gemm-13",)),
}


def _results(cell: str = CELL, date: str = "2026-05-05T10:00:00Z", **outcomes: str) -> dict[str, Any]:
    """Return the results file of a run of all cases."""
    results = []
    for id_ in CASES:
        outcome = {"test_void": "gap", **outcomes}.get(id_.rpartition("/")[2], "pass")
        detail = "never: recorded wrong" if id_.endswith("void") else "" if outcome == "pass" else f"</script>{outcome}"
        results.append({"id": id_, "outcome": outcome, "detail": detail})
    counts = {id_.rpartition("/")[0]: {"pass": 0, "fallback": 0, "gap": 0, "fail": 0} for id_ in CASES}
    for result in results:
        counts[result["id"].rpartition("/")[0]][result["outcome"]] += 1
    return {"cell": cell, "shim": cell.partition("-")[0], "date": date, "counts": counts, "results": results}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of stored results that has cases and no cells."""
    write_cases(CASES, tmp_path / "stored")
    return tmp_path / "stored"


def _write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_cases_are_read_as_they_were_written(folder: Path) -> None:
    assert list(load_cases(folder).values()) == [CASES]


def test_the_newest_run_of_a_cell_is_shown(folder: Path, tmp_path: Path) -> None:
    old, new = "2026-05-05T10:00:00Z", "2026-05-06T10:00:00Z"
    _write(tmp_path / "one" / "a.json", _results(date=new, test_abs="fail"))
    _write(tmp_path / "two" / "deep" / "b.json", _results(date=old))
    _write(tmp_path / "two" / "other.json", {"of": "something else"})
    board = gather([tmp_path / "one", tmp_path / "two"], folder)
    assert board.runs[CELL].date == new
    assert [run.date for run in board.older] == [old]
    assert board.notes == [f"{CELL}: the run of {new} (a.json), not that of {old}"]
    assert [(line["date"], line["found"]) for line in board.history] == [(old, [6, 0, 0, 0, 1]), (new, [5, 0, 0, 1, 1])]
    assert board.runs[CELL].outcomes()[f"{GROUP}/test_abs"] == "fail"


def test_a_run_of_a_part_is_not_shown_for_the_whole(folder: Path, tmp_path: Path) -> None:
    _write(tmp_path / "in" / "a.json", _results())
    part = _results(date="2026-06-06T10:00:00Z")
    _write(tmp_path / "in" / "b.json", {**part, "results": part["results"][:3]})
    _write(tmp_path / "in" / "c.json", {"cell": CELL, "shim": "tf2", "state": "broken", "date": "2026-06-07T10:00:00Z"})
    board = gather([tmp_path / "in"], folder)
    assert board.runs[CELL].small["state"] == "broken"
    assert [run.source for run in board.older] == ["a.json"]
    assert f"{CELL}: not the run of 2026-06-06T10:00:00Z (b.json), which is partial" in board.notes


def test_a_run_that_is_also_stored_is_shown_once(folder: Path, tmp_path: Path) -> None:
    given = gather([_write(tmp_path / "a.json", _results())], folder).runs[CELL]
    _write(folder / f"{CELL}.json", given.small)
    board = gather([tmp_path / "a.json", folder], folder)
    assert (board.runs[CELL].source, board.older, board.notes) == ("stored", [], [])


def test_a_case_lists_all_its_releases(folder: Path, tmp_path: Path) -> None:
    counts = {"node/1.9.0": {"pass": 0, "fallback": 0, "gap": 0, "fail": 1}}
    results = {"counts": counts, "results": [{"id": "node/1.9.0/test_old", "outcome": "fail"}]}
    board = gather([_write(tmp_path / "a.json", {**_results(), **results})], folder)
    assert (board.runs[CELL].outcomes(), board.notes) == ({"node/1.12.0/test_old": "fail"}, [])


def test_a_file_that_is_no_result_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "text.json").write_text("text", encoding="utf-8")
    for path in (tmp_path / "text.json", tmp_path / "missing.json", _write(tmp_path / "list.json", {"a": 1})):
        with pytest.raises(MatrixError, match=path.name):
            gather([path], folder)


def test_cases_that_are_not_stored_are_reported(folder: Path, tmp_path: Path) -> None:
    results = _results()
    results["results"].append({"id": "node/9.9.9/test_new", "outcome": "fail"})
    board = gather([_write(tmp_path / "a.json", results)], folder)
    assert board.notes == [f"{CELL}: not shown, because their cases are not stored: node/9.9.9"]


def test_the_page_is_self_contained(folder: Path, tmp_path: Path) -> None:
    _write(tmp_path / "a.json", _results(test_abs="fail"))
    _write(
        tmp_path / "b.json", {"cell": "tf2-2.21.0-gpu-py313", "shim": "tf2", "state": "no-gpu", "reason": "no device"}
    )
    text = render_page(load(), gather([tmp_path / "a.json", tmp_path / "b.json"], folder))
    assert text.count("</script>") == 3, "an error that ends a script ends none"
    assert not re.search(r"""(src|href|url)\s*[=(]\s*["']?(https?:|//)""", text)
    data, results = (
        json.loads(re.search(rf'id="{name}">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]  # without a match the test fails
        for name in ("summary", "results")
    )
    shown = {run["cell"]: run for run in data["runs"]}
    packed = results["runs"][data["runs"].index(shown[CELL])]
    assert set(shown) == set(load().cells), "a cell that was never run has a row, too"
    assert packed["missed"][0][:2] == ["fail", "</script>fail"]
    assert shown["tf2-2.21.0-gpu-py313"]["reason"] == "no device"
    assert shown["tf1-1.14.0-py37"]["state"] == "none"
    assert results["cases"][packed["cases"]][GROUP]["17 Abs-13 Mine ai.onnx.ml::Scaler-1"] == ["test_both"]


def test_a_badge_says_all_only_if_no_case_is_missing(folder: Path, tmp_path: Path) -> None:
    many = {f"{GROUP}/test_{n}": Known(13, ("Abs-13",)) for n in range(2000)}
    write_cases(many, folder)
    results = [{"id": id_, "outcome": "gap" if id_.endswith("_7") else "pass"} for id_ in many]
    counts = {GROUP: {"pass": 1999, "fallback": 0, "gap": 1, "fail": 0}}
    content = {**_results(), "counts": counts, "results": results}
    _write(tmp_path / "in" / "a.json", content)
    _write(tmp_path / "in" / "b.json", _results("tf1-1.14.0-py37"))
    _write(tmp_path / "in" / "c.json", {**_results("peer-x-py39"), "peer": True})
    _write(tmp_path / "in" / "d.json", {"cell": "keras-a", "shim": "keras", "state": "broken"})
    # What we drew ourselves.
    drawn = {shim: ET.fromstring(text) for shim, text in draw_badges(gather([tmp_path / "in"], folder)).items()}  # noqa: S314
    labels = {shim: (svg.get("aria-label"), svg[0].text) for shim, svg in drawn.items()}
    assert labels == {
        "tf2": ("tf2: 99.9 % of 2,000", "tf2: 1,999 pass, 1 gap, in 1 cell"),
        "tf1": ("tf1: 100 % of 6", "tf1: 6 pass, in 1 cell"),
    }


def test_a_filled_template_has_no_placeholder() -> None:
    assert fill("{{a}} {{b}} {{a}}", {"a": "{{b}}", "b": "2"}) == "{{b}} 2 {{b}}"
    with pytest.raises(AssertionError):
        fill("{{a}}", {"a": "1", "b": "2"})


def test_the_backend_scoreboard_of_onnx_can_read_it(folder: Path, tmp_path: Path) -> None:
    theirs = {"stable": {"another": {"name": "Another", "results_dir": "./x"}}, "deploy_paths": {"index": "./docs"}}
    _write(tmp_path / "to" / "setup" / "config.json", theirs)
    for day, outcome in (("05", "gap"), ("06", "fallback"), ("06", "fallback")):
        results = _results(date=f"2026-05-{day}T10:00:00Z", test_both=outcome, test_exp="fail")
        board = gather([_write(tmp_path / "a.json", results)], folder)
        assert export(load(), board, tmp_path / "to") == [CELL]
    subfolder = tmp_path / "to" / "results" / CELL / "stable"
    # The keys are those of the project's generator and of its reports.
    read = {path.name: json.loads(path.read_text(encoding="utf-8")) for path in subfolder.glob("*.json")}
    node, simple = "OnnxBackendNodeModelTest::test_%s_cpu", "OnnxBackendSimpleModelTest::test_%s_cpu"
    assert read["report.json"] == {
        "date": "05/06/2026 10:00:00",
        "failed": [node % "exp", node % "void"],
        "passed": [node % "abs", node % "both", simple % "simple"],
        "skipped": [],
    }
    assert [entry["date"] for entry in read["trend.json"]] == ["05/05/2026 10:00:00", "05/06/2026 10:00:00"]
    assert [entry["passed"] for entry in read["trend.json"]] == [2, 3]
    assert set(read["trend.json"][0]) == {"date", "failed", "passed", "skipped", "total_ops", "versions"}
    assert {"name": "tensorflow-cpu", "version": "2.21.0"} in read["pip-list.json"]
    assert {"name": "tensorflow-cpu", "version": "2.21.0"} in read["trend.json"][0]["versions"]
    tests = {"total_tests": 3, "passed_tests": 3, "failed_tests": 0, "skipped_tests": 0}
    assert {"domain": "", "op_type": "Abs", **tests} in read["ops.json"]
    assert "ai.onnx.ml" in {entry["domain"] for entry in read["ops.json"]}
    table = (subfolder / "nodes.csv").read_text(encoding="utf-8")
    assert table == "Op,None\nAbs,Passed!\nExp,Failed!\nMine,Passed!\nNeg,Failed!\nSummary,2/4 node tests passed\n"
    assert (subfolder / "metadata.csv").read_text(encoding="utf-8") == "Latest Update,2026-05-06 10:00:00\n"
    config = json.loads((tmp_path / "to" / "setup" / "config.json").read_text(encoding="utf-8"))
    assert config["stable"]["another"] == theirs["stable"]["another"]
    assert config["stable"][CELL] == {
        "name": CELL,
        "results_dir": f"./results/{CELL}/stable",
        "core_packages": [name for name in _pins(CELL) if name != "onnx"],
    }


def _pins(cell: str) -> list[str]:
    return [pin.partition("==")[0] for pin in load().cells[cell].pins]


def test_the_command_builds_the_scoreboard_from_stored_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["scoreboard", "--out", str(tmp_path / "out"), "--backend-scoreboard", str(tmp_path / "to")]) == 0
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"index.html", "badge-tf2.svg"} <= names
    assert f"{tmp_path / 'out'}: index.html" in capsys.readouterr().out
    stored = [path for path in STORED.glob("*.json") if json.loads(path.read_text(encoding="utf-8")).get("opsets")]
    assert len(list((tmp_path / "to" / "results").iterdir())) == len(stored)
    assert main(["scoreboard", "--out", str(tmp_path), str(tmp_path / "nothing.json")]) == 1
    assert "nothing.json" in capsys.readouterr().err

"""Data of the scoreboard: ranges of versions, the common set of cases, the age of results, contradictions, colours."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest

from matrix.data import load
from matrix.results import OUTCOMES, STORED
from matrix.run import since
from matrix.run.inputs import git
from matrix.scoreboard import age
from matrix.scoreboard.badges import draw_badges
from matrix.scoreboard.cases import Known, write_cases
from matrix.scoreboard.check import find_contradictions
from matrix.scoreboard.common import common_cases, measure_share, newest_opset
from matrix.scoreboard.gather import Board, Run, gather
from matrix.scoreboard.lines import collapse, count_outcomes, list_lines, parse_cell
from matrix.scoreboard.pack import Packer
from matrix.scoreboard.scale import FILLS, MARKS, STEPS, find_worst
from matrix.scoreboard.summary import list_operators, summarise

MATRIX = load()
GROUP = "node/9.9"
CASES = {
    f"{GROUP}/abs_7": Known(7, ("Abs-6",)),
    f"{GROUP}/abs_13": Known(13, ("Abs-13",)),
    f"{GROUP}/both": Known(13, ("Abs-13", "Loop-13")),
    f"{GROUP}/new_27": Known(27, ("Fresh-27",)),
    f"{GROUP}/new_28": Known(28, ("Fresh-27",)),
    f"{GROUP}/scaler": Known(0, ("ai.onnx.ml::Scaler-1",)),
}


@pytest.fixture(scope="module")
def stored_board() -> Board:
    """Return the board of the stored results."""
    return gather([])


def _run(cell: str, cases: dict[str, Known] = CASES, digest: str = "d", **about: Any) -> Run:
    """Return a run of all cases; a keyword with the name of a case is its outcome, any other a key of the results."""
    missed: dict[str, dict[str, list[str]]] = {}
    ids = {id.rpartition("/")[2]: id for id in cases}
    for name in ids.keys() & about.keys():
        group = ids[name].rpartition("/")[0]
        missed.setdefault(about.pop(name), {}).setdefault(group, []).append(name)
    rows = [{"outcome": outcome, "detail": "why", "cases": groups} for outcome, groups in missed.items()]
    counts = {id.rpartition("/")[0]: dict.fromkeys(OUTCOMES, 0) for id in cases}
    small = {"cell": cell, "shim": cell.partition("-")[0], "state": "ran", "cases": digest, "counts": counts}
    return Run({**small, "date": "2026-05-05T10:00:00Z", "missed": rows, **about}, cases)


def _versions(runs: list[Run]) -> list[list[str]]:
    (line,) = list_lines(MATRIX, runs)
    ranges = collapse([(run, run.outcomes()) for run in line.runs])
    return [[parse_cell(MATRIX, run).version for run in its.runs] for its in ranges]


@pytest.mark.parametrize(
    ("cell", "parts"),
    [
        ("tf2-2.21.0-py313", ("tf2", "", "2.21.0", "3.13")),
        ("tf2-2.21.0-tf-keras-py313", ("tf2", "tf-keras", "2.21.0", "3.13")),
        ("tflite-litert-2.3.0-py310", ("tflite", "litert", "2.3.0", "3.10")),
        ("keras-3.15.1-jax-gpu-py311", ("keras", "jax-gpu", "3.15.1", "3.11")),
        ("reference-onnx1.23.2-py313", ("reference", "onnx", "1.23.2", "3.13")),
        ("peer-onnx2tf-2.6.9-py312", ("peer", "onnx2tf", "2.6.9", "3.12")),
    ],
)
def test_the_name_of_a_cell_gives_its_line_and_version(cell: str, parts: tuple[str, ...]) -> None:
    parsed = parse_cell(MATRIX, _run(cell))
    assert (parsed.shim, parsed.line, parsed.version, parsed.python) == parts


def test_every_cell_and_stored_peer_has_a_version(stored_board: Board) -> None:
    runs = stored_board.runs.values()
    for run in [*runs, *(Run({"cell": id, "state": "none"}) for id in MATRIX.cells)]:
        parts = parse_cell(MATRIX, run)
        assert parts.version and parts.python and parts.shim, run.cell


def test_the_version_of_a_peer_is_that_of_its_package() -> None:
    for name in ("onnxruntime", "onnxruntime-1.15"):
        versions = {"onnxruntime": "1.31.1", "onnx": "1.23.2"}
        parts = parse_cell(MATRIX, _run(f"peer-{name}", versions=versions, python="3.13"))
        assert (parts.shim, parts.line, parts.version, parts.python) == ("peer", name, "1.31.1", "3.13")


def test_versions_with_the_same_results_are_one_range_in_the_order_of_numbers() -> None:
    runs = [_run(f"tf2-{version}-py313") for version in ("2.9.3", "2.21.0", "2.10.1")]
    assert _versions(runs) == [["2.21.0", "2.10.1", "2.9.3"]]
    runs[2] = _run("tf2-2.10.1-py313", abs_7="gap")
    assert _versions(runs) == [["2.21.0"], ["2.10.1"], ["2.9.3"]]


def test_only_cases_that_both_ran_are_compared() -> None:
    few = {id: case for id, case in CASES.items() if case.opset == 13}
    newest, middle = _run("tf2-2.21.0-py313", abs_7="gap"), _run("tf2-2.20.0-py313", few)
    assert _versions([newest, middle]) == [["2.21.0", "2.20.0"]]
    # 2.19.1 is the same as 2.20.0, but not as 2.21.0, with which it would be in a range.
    assert _versions([newest, middle, _run("tf2-2.19.1-py313")]) == [["2.21.0", "2.20.0"], ["2.19.1"]]
    assert _versions([newest, _run("tf2-2.20.0-py313", {f"{GROUP}/other": Known(7, ("Neg-6",))})]) == [
        ["2.21.0"],
        ["2.20.0"],
    ]
    # 2.19.1 is the same as 2.21.0, but not as 2.20.0, which is in its range.
    newest, middle = _run("tf2-2.21.0-py313", few), _run("tf2-2.20.0-py313", abs_7="gap")
    assert _versions([newest, middle, _run("tf2-2.19.1-py313")]) == [["2.21.0", "2.20.0"], ["2.19.1"]]


def test_a_run_without_cases_joins_no_range_with_results() -> None:
    silent = [Run({"cell": f"tf2-2.{n}.0-py313", "shim": "tf2", "state": "broken"}) for n in (19, 18)]
    runs = [
        _run("tf2-2.21.0-py313"),
        *silent,
        Run({"cell": "tf2-2.17.1-py312", "state": "none"}),
        _run("tf2-2.16.2-py312"),
    ]
    assert _versions(runs) == [["2.21.0"], ["2.19.0", "2.18.0"], ["2.17.1"], ["2.16.2"]]


def test_the_ranges_of_an_operator_ignore_other_operators() -> None:
    runs = [_run("tf2-2.21.0-py313"), _run("tf2-2.20.0-py313", both="fail"), _run("tf2-2.19.1-py313", abs_7="gap")]
    summary = summarise(MATRIX, runs)
    assert summary["lines"][0]["ranges"] == [[1, 6], [1, 5, 0, 0, 1], [1, 5, 0, 1]]
    assert summary["operators"]["Abs"] == [1, [[2, 2], [1, 1, 0, 1]]], "a case with Loop beside it decides nothing"
    assert summary["operators"]["Loop"] == [0, [[1, 1], [1, 0, 0, 0, 1], [1, 1]]], "it has no other case"
    assert summary["operators"]["Fresh"] == [1, [[3, 2]]]


def test_versions_without_a_case_of_an_operator_claim_no_result() -> None:
    old = {id: case for id, case in CASES.items() if case.opset < 27}
    olds = [_run(cell, old, "old") for cell in ("tf2-2.20.0-py313", "peer-onnxruntime")]
    summary = summarise(MATRIX, [_run("tf2-2.21.0-py313"), *olds])
    assert [line["ranges"] for line in summary["lines"]] == [[[2, 6]], [[1, 4]]]
    assert summary["operators"]["Fresh"] == [1, [[1, 2], [1]], 0]


def test_an_operator_is_one_entry_over_its_versions() -> None:
    operators = list_operators(CASES)
    assert list(operators) == ["Abs", "ai.onnx.ml::Scaler", "Fresh", "Loop"]
    assert operators["Abs"] == (True, [f"{GROUP}/abs_7", f"{GROUP}/abs_13"])


def test_a_case_is_the_same_in_the_cases_of_two_releases() -> None:
    older = {"node/9.8/abs": Known(13, ("Abs-13",))}
    newer = {"node/9.9/abs": Known(13, ("Abs-13",), "9.7")}
    runs = [
        _run("tf2-2.21.0-py313", newer, "new", date="2026-06-06T10:00:00Z"),
        _run("tf2-2.20.0-py313", older, "old", abs="gap"),
    ]
    assert summarise(MATRIX, runs)["lines"][0]["ranges"] == [[1, 1], [1, 0, 0, 1]]
    runs[1] = _run("tf2-2.20.0-py313", older, "old")
    assert summarise(MATRIX, runs)["lines"][0]["ranges"] == [[2, 1]]


def test_the_common_set_has_what_all_ran_and_nothing_recorded_wrong() -> None:
    ran = [{"a": "pass", "b": "fail", "c": "pass"}, {"b": "pass", "c": "void", "d": "pass"}, {}]
    assert common_cases(ran) == {"b"}
    assert common_cases([{}]) == set()


def test_a_peer_is_measured_on_the_opsets_that_it_can_read() -> None:
    run = _run("peer-onnxruntime", new_27="gap", new_28="gap", scaler="gap", abs_7="fail")
    assert newest_opset(run.outcomes(), CASES) == 13
    share = measure_share(run.outcomes(), CASES, set(CASES))
    assert share.readable == [2, 0, 1, 1, 0], "a domain that it refuses is no opset that it cannot read"
    assert share.whole == [2, 0, 3, 1, 0]
    wrong = _run("peer-onnxruntime", new_27="gap", new_28="fail")
    assert newest_opset(wrong.outcomes(), CASES) == 28, "a wrong answer shows that it was read"
    assert newest_opset(dict.fromkeys(CASES, "gap"), CASES) == 0


def test_a_sample_is_outside_of_the_common_set_and_has_one_of_its_own() -> None:
    sample = _run("peer-onnx2tf", sample="every 4th", only={GROUP: ["abs_7", "new_28"]}, new_28="fail")
    summary = summarise(MATRIX, [_run("tf2-2.21.0-py313", abs_13="void"), sample])
    assert summary["common"] == [5, 2]
    tf2, peer = summary["lines"]
    assert tf2["shares"] == [[[5, 0, 0, 0, 0]] * 2, [[2, 0, 0, 0, 0]] * 2]
    assert peer["shares"] == [[[1, 0, 0, 1, 0]] * 2] * 2


def test_the_stored_peers_have_lines_on_a_common_set(stored_board: Board) -> None:
    summary = summarise(MATRIX, list(stored_board.runs.values()))
    full, sampled = summary["common"]
    assert full >= sampled > 0
    for line in summary["lines"]:
        for (readable, whole), size in zip(line.get("shares", []), summary["common"]):
            assert sum(readable) <= sum(whole) <= size
            assert readable[0] == whole[0], "what passes was read"
    names = {line["name"] for line in summary["lines"] if line["shim"] == "peer"}
    assert names == {cell.removeprefix("peer-") for cell in stored_board.runs if cell.startswith("peer-")}


def test_a_result_is_older_than_the_code_if_an_input_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = ["shims/tf2/onnx_compat_tf2/shim.py", "matrix/peers/worker.py", "matrix/results/a.json"]
    monkeypatch.setattr(since, "changed_files", lambda revision: changed)
    monkeypatch.setattr(age, "changed_files", lambda revision: changed)
    cells = ("tf2-2.21.0-py313", "tflite-litert-2.3.0-py313", "peer-onnxruntime", "peer-gone")
    runs = [_run(cell, revision="abc1234") for cell in cells]
    moved = age.find_moved(MATRIX, runs)
    reasons = [moved.get(id(run)) for run in runs]
    assert reasons == [
        age.Moved("1 input has changed since", 1, ("shims/tf2/onnx_compat_tf2/shim.py",)),
        None,
        age.Moved("1 input has changed since", 1, ("matrix/peers/worker.py",)),
        age.Moved("matrix.toml has no entry for it"),
    ]
    changed[:] = ["README.txt"] * 5
    assert age.find_moved(MATRIX, runs)[id(runs[1])] == age.Moved("5 inputs have changed since", 5, ("README.txt",) * 3)


def test_a_result_of_code_without_a_commit_is_older_than_the_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(since, "changed_files", lambda revision: [])
    monkeypatch.setattr(age, "changed_files", lambda revision: [])
    runs = [_run("tf2-2.21.0-py313", revision=revision) for revision in ("abc1234", "abc1234-dirty", "")]
    reasons = [age.find_moved(MATRIX, [run]).get(id(run)) for run in runs]
    assert reasons[0] is None
    assert [moved.reason for moved in reasons[1:] if moved] == [
        "it ran with changes that were not committed",
        "the revision of this run is unknown",
    ]


def test_the_history_is_asked_for_the_changes() -> None:
    head = git("rev-parse", "--short", "HEAD").strip()
    runs = [_run("tf2-2.21.0-py313", revision=revision) for revision in (head, "0" * 12)]
    moved = age.find_moved(MATRIX, runs)
    assert moved[id(runs[1])] == age.Moved(f"this repository does not have revision {'0' * 12}")
    changed = since.find_affected(MATRIX, [MATRIX.cells["tf2-2.21.0-py313"]], head)
    assert (id(runs[0]) in moved) == bool(changed)


def test_the_entry_of_a_peer_is_an_input(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (age.ROOT / age.ENTRIES).read_text(encoding="utf-8")
    monkeypatch.setattr(since, "changed_files", lambda revision: [])
    monkeypatch.setattr(age, "changed_files", lambda revision: [age.ENTRIES, "matrix/constraints/onnx2tf.txt"])
    monkeypatch.setattr(age, "git", lambda *arguments: text.replace("keep_shapes = true", "keep_shapes = false"))
    names = ("peer-onnx2tf", "peer-onnx2tf-keep-shapes", "peer-onnxruntime")
    runs = [_run(name, revision="abc1234") for name in names]
    moved = age.find_moved(MATRIX, runs)
    examples = [moved[id(run)].examples if id(run) in moved else () for run in runs]
    assert examples == [("matrix/constraints/onnx2tf.txt",), (f"{age.ENTRIES}: peers.onnx2tf-keep-shapes",), ()]


def test_counts_that_the_cases_contradict_are_noted(tmp_path: Path) -> None:
    run = _run("tf2-2.21.0-py313", abs_7="fail", both="void")
    counts = {"pass": 4, "fallback": 0, "gap": 1, "fail": 1}
    opsets = {
        "0": [1, 0, 0, 0, 0],
        "7": [0, 0, 0, 1, 0],
        "13": [1, 0, 0, 0, 1],
        "27": [1, 0, 0, 0, 0],
        "28": [1, 0, 0, 0, 0],
    }
    right = {**run.small, "counts": {GROUP: counts}, "opsets": opsets}
    assert find_contradictions(right, CASES, run.outcomes()) == []
    wrong = {**right, "counts": {GROUP: {**counts, "fail": 0}, f"{GROUP}@composed": counts}}
    assert find_contradictions(wrong, CASES, run.outcomes()) == ["node: 0 fail are counted, 1 are listed"]
    wrong = {**right, "opsets": {**opsets, "7": [1, 0, 0, 0, 0]}}
    assert find_contradictions(wrong, CASES, run.outcomes()) == ["opset 7: 1 pass are counted, 1 fail are listed"]
    results = [{"id": id, "outcome": "fail" if id.endswith("abs_7") else "pass"} for id in CASES]
    counted = {"pass": 6, "fallback": 0, "gap": 0, "fail": 0}
    path = tmp_path / "a.json"
    path.write_text(json.dumps({**run.small, "counts": {GROUP: counted}, "results": results}), encoding="utf-8")
    (tmp_path / "stored" / "cases").mkdir(parents=True)
    write_cases(CASES, tmp_path / "stored")
    (note,) = gather([path], tmp_path / "stored").notes
    assert note.endswith("(a.json) contradicts itself: node: 0 fail are counted, 1 are listed")


def test_the_stored_results_do_not_contradict_themselves(stored_board: Board) -> None:
    assert [note for note in stored_board.notes if "contradicts" in note] == []


def test_the_worst_outcome_is_one_that_is_counted() -> None:
    for counts in product([0, 1, 200], repeat=5):
        outcome = find_worst(counts)
        if not any(counts[:4]):
            assert outcome == ""
        else:
            at = OUTCOMES.index(outcome)
            assert counts[at] and not any(counts[at + 1 : 4])


def test_a_badge_has_the_colour_of_its_worst_outcome() -> None:
    for outcome in OUTCOMES:
        run = _run("tf2-2.21.0-py313", abs_7=outcome, opsets={"7": count_outcomes([outcome, "pass"])})
        drawn = draw_badges(Board({run.cell: run}, [], [], []))["tf2"]
        assert f'fill="{MARKS["light"][outcome]}"' in drawn


def test_cases_are_packed_by_their_index() -> None:
    run = _run("tf2-2.21.0-py313", abs_7="gap", absent={GROUP: ["scaler"]})
    run.small["missed"].append({"outcome": "fail", "detail": "x", "cases": {f"{GROUP}@composed": ["both"]}})
    packer = Packer()
    packed = packer.pack(run)
    names = [name for kinds in packer.cases["d"].values() for its in kinds.values() for name in its]
    assert [[names[k] for k in ats] for _, _, cases in packed["missed"] for ats in cases.values()] == [
        ["abs_7"],
        ["both"],
    ]
    assert [list(cases) for _, _, cases in packed["missed"]] == [[""], ["composed"]]
    assert [names[k] for k in packed["absent"]] == ["scaler"]
    assert packer.pack(Run({"cell": "tf2-2.21.0-gpu-py313", "state": "no-gpu"})) == {}


#: Kind of vision -> matrix over linear RGB (Machado, Oliveira and Fernandes, 2009, severity 1).
VISION = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
#: A difference of 2.3 in CIELAB can just be seen.
APART = 6.9


def _linear(colour: str) -> list[float]:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def _lab(colour: str, vision: str) -> tuple[float, float, float]:
    """Return a colour in CIELAB as a reader of this vision sees it."""
    rgb = [min(1.0, max(0.0, sum(a * b for a, b in zip(row, _linear(colour))))) for row in VISION[vision]]
    rows = ((0.4124, 0.3576, 0.1805, 0.95047), (0.2126, 0.7152, 0.0722, 1.0), (0.0193, 0.1192, 0.9505, 1.08883))
    parts = [sum(a * b for a, b in zip(row, rgb)) / row[3] for row in rows]
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in parts)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("scheme", FILLS)
@pytest.mark.parametrize("vision", VISION)
def test_the_steps_of_the_scale_are_apart_for_every_reader(scheme: str, vision: str) -> None:
    for colours in (FILLS[scheme], list(MARKS[scheme].values())):
        for first, second in combinations(colours, 2):
            squares = [(a - b) ** 2 for a, b in zip(_lab(first, vision), _lab(second, vision))]
            assert sum(squares) ** 0.5 >= APART, (first, second)


@pytest.mark.parametrize("scheme", FILLS)
def test_text_on_the_scale_can_be_read(scheme: str) -> None:
    ink, sheet = {"light": ("#1c2126", "#ffffff"), "dark": ("#e7eaed", "#1b1f23")}[scheme]
    light = {colour: sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), _linear(colour))) for colour in (ink, sheet)}

    def contrast(colour: str, ground: float) -> float:
        own = sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), _linear(colour)))
        return (max(own, ground) + 0.05) / (min(own, ground) + 0.05)

    assert all(contrast(colour, light[ink]) >= 4.5 for colour in FILLS[scheme])
    assert all(contrast(colour, light[sheet]) >= 4.5 for colour in MARKS[scheme].values())
    assert list(STEPS) == list(OUTCOMES) == list(MARKS[scheme]) and len(FILLS[scheme]) == max(STEPS.values()) + 1


def test_every_stored_run_is_in_a_line(stored_board: Board) -> None:
    runs = list(stored_board.runs.values())
    assert len(runs) == len(list(STORED.glob("*.json")))
    lines = summarise(MATRIX, runs)["lines"]
    assert sorted(k for line in lines for k in line["runs"]) == list(range(len(runs)))
    for line in lines:
        assert sum(row[0] for row in line["ranges"]) == len(line["runs"]) == len(line["versions"])

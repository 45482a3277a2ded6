"""The ledger of the fuzzer: ranges of seeds add up over runs, failures stay until their seed passes, and the report sums."""

import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from matrix.fuzz import __main__ as command
from matrix.fuzz.execution import SAME, WRONG
from matrix.fuzz.ledger import LEDGERS, Ledger, format_report, totals

CODE = {"revision": "a1", "generator": "g"}


def test_ranges_of_the_same_code_join(tmp_path: Path) -> None:
    ledger = Ledger("cell", tmp_path)
    assert ledger.next_seed("graphs") == 0
    ledger.add("graphs", CODE, (0, 499), {SAME: 490})
    ledger.add("graphs", CODE, (500, 999), {SAME: 480, "fallback": 9})
    ledger.add("graphs", {**CODE, "revision": "b2"}, (1000, 1001), {SAME: 2})
    ledger.add("load", {"revision": "b2"}, (0, 3), {"refused": 200})
    again = Ledger("cell", tmp_path)
    assert [entry["seeds"] for entry in again.kinds["graphs"]] == [[0, 999], [1000, 1001]]
    assert again.kinds["graphs"][0]["outcomes"] == {SAME: 970, "fallback": 9}
    assert (again.next_seed("graphs"), again.next_seed("load"), again.next_seed("graphs tflite")) == (1002, 4, 0)
    sums = dict(totals(again))["graphs"]
    assert (sums.inputs, sums.clean, sums.seeds) == (981, 981, [(0, 1001)])


def test_two_runs_may_have_a_ledger_open(tmp_path: Path) -> None:
    graphs, damage = Ledger("cell", tmp_path), Ledger("cell", tmp_path)
    graphs.add("graphs", CODE, (0, 9), {SAME: 10})
    damage.add("load", CODE, (0, 0), {"ran": 50})
    graphs.add("graphs", CODE, (10, 19), {SAME: 10})
    assert {kind: sums.inputs for kind, sums in totals(damage)} == {"graphs": 20, "load": 50}


def test_a_gap_between_seeds_starts_an_entry(tmp_path: Path) -> None:
    ledger = Ledger("cell", tmp_path)
    ledger.add("graphs", CODE, (5, 5), {SAME: 1})
    ledger.add("graphs", CODE, (9, 9), {SAME: 1})
    assert dict(totals(ledger))["graphs"].seeds == [(5, 5), (9, 9)]


def test_a_failed_seed_stays_until_it_passes(tmp_path: Path) -> None:
    ledger = Ledger("cell", tmp_path)
    ledger.add("graphs", CODE, (0, 9), {SAME: 8, WRONG: 2}, {3: WRONG, 7: WRONG})
    ledger.add("graphs", {**CODE, "revision": "b2"}, (10, 11), {SAME: 2})
    assert dict(totals(ledger))["graphs"].clean == 2
    assert ledger.failed_seeds("graphs") == [(3, "g"), (7, "g")]
    ledger.correct("graphs", 3, SAME)
    ledger.correct("graphs", 7, "error")
    again = Ledger("cell", tmp_path)
    assert again.kinds["graphs"][0]["failed"] == {"7": "error"}
    assert again.kinds["graphs"][0]["outcomes"] == {SAME: 9, "error": 1}
    again.correct("graphs", 7, SAME)
    assert dict(totals(again))["graphs"].clean == 12


@pytest.mark.parametrize("failure", ["untyped", "unforeseen", WRONG])
def test_a_batch_that_failed_is_apart_until_a_run_of_it_replaces_it(failure: str, tmp_path: Path) -> None:
    ledger = Ledger("cell", tmp_path)
    code = {"revision": "a1"}
    ledger.add("load", code, (0, 3), {"refused": 200})
    ledger.add("load", code, (4, 4), {"refused": 48, failure: 2})
    ledger.add("load", code, (5, 9), {"refused": 250})
    ledger.add("load", code, (10, 11), {"refused": 100})
    assert [entry["seeds"] for entry in ledger.kinds["load"]] == [[0, 3], [4, 4], [5, 11]]
    assert ledger.failed_batches("load") == [(4, 4)]
    ledger.replace("load", {"revision": "b2"}, (4, 4), {"refused": 49, "ran": 1})
    assert ledger.failed_batches("load") == []
    assert ledger.kinds["load"][1]["revision"] == "b2"
    assert dict(totals(ledger))["load"].outcomes == {"refused": 599, "ran": 1}


def test_the_report_has_a_row_for_each_kind(tmp_path: Path) -> None:
    Ledger("one", tmp_path).add("graphs", CODE, (0, 1), {SAME: 2})
    Ledger("two", tmp_path).add("run", {"revision": "a1"}, (0, 1), {"ran": 60, "untyped": 40})
    header, *rows = [line.split() for line in format_report(tmp_path).splitlines()]
    assert header == ["cell", "kind", "inputs", "clean", "outcomes", "seeds"]
    assert rows[0] == ["one", "graphs", "2", "2", "same", "2", "0-1"]
    assert rows[1] == ["two", "run", "100", "0", "ran", "60,", "untyped", "40", "0-1"]


def test_a_run_continues_where_the_last_one_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(command, "Ledger", lambda cell: Ledger(cell, tmp_path))
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        assert command.main(["--python", "reference=", "--graphs", "3"]) == 0
    assert command.main(["--python", "reference=", "--graphs", "3", "--seed", "1"]) == 0
    assert command.main(["--python", "reference=", "--damage", "arrays", "--graphs", "20", "--out", str(tmp_path)]) == 0
    ledger = Ledger("reference", tmp_path)
    assert [entry["seeds"] for entry in ledger.kinds["graphs"]] == [[0, 5]]
    assert [entry["seeds"] for entry in ledger.kinds["arrays"]] == [[0, 0]]
    assert sum(ledger.kinds["arrays"][0]["outcomes"].values()) == 20


def test_failed_graphs_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(command, "Ledger", lambda cell: Ledger(cell, tmp_path))
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))
    code = {"revision": "a1", "generator": command.generator_digest()}
    Ledger("reference", tmp_path).add("graphs", code, (0, 1), {SAME: 1, WRONG: 1}, {1: WRONG})
    assert command.main(["--python", "reference=", "--again"]) == 0
    assert Ledger("reference", tmp_path).kinds["graphs"][0]["outcomes"] == {SAME: 2}


def test_a_failed_graph_of_another_generator_runs_again_if_it_is_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(command, "Ledger", lambda cell: Ledger(cell, tmp_path))
    monkeypatch.setenv("ONNX_COMPAT_CACHE", str(tmp_path / "cache"))
    code = {"revision": "a1", "generator": "older"}
    Ledger("reference", tmp_path).add("graphs", code, (0, 2), {WRONG: 2}, {1: WRONG, 2: WRONG})
    path, _ = command.make_chunk(1, 1)
    (path.parent.parent / "older").mkdir()
    path.rename(path.parent.parent / "older" / path.name)
    assert command.main(["--python", "reference=", "--again"]) == 0
    assert Ledger("reference", tmp_path).kinds["graphs"][0]["outcomes"] == {SAME: 1, WRONG: 1}
    assert Ledger("reference", tmp_path).kinds["graphs"][0]["failed"] == {"2": WRONG}


def test_failed_batches_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Ledger", lambda cell: Ledger(cell, tmp_path))
    ledger = Ledger("reference", tmp_path)
    ledger.add("arrays", {"revision": "a1"}, (0, 0), {"refused": 50})
    ledger.add("arrays", {"revision": "a1"}, (1, 1), {"refused": 49, "untyped": 1})
    arguments = ["--python", "reference=", "--damage", "arrays", "--out", str(tmp_path)]
    assert command.main([*arguments, "--again"]) == 0
    before, again = ledger.kinds["arrays"]
    assert before == {"revision": "a1", "seeds": [0, 0], "outcomes": {"refused": 50}, "failed": {}}
    assert again["revision"] != "a1" and sum(again["outcomes"].values()) == 50
    assert "untyped" not in again["outcomes"]


def test_a_run_of_batches_sets_those_that_fail_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "Ledger", lambda cell: Ledger(cell, tmp_path))
    notes = command._DamageNotes("cell", "load", None)
    for batch, outcomes in enumerate([{"ran": 50}, {"ran": 50}, {"ran": 49, "died": 1}, {"ran": 50}]):
        notes.add(batch, Counter(outcomes))
    notes.write()
    assert [entry["seeds"] for entry in Ledger("cell", tmp_path).kinds["load"]] == [[0, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize("path", sorted(LEDGERS.glob("*.json")), ids=lambda path: path.stem)
def test_the_stored_ledgers_are_readable(path: Path) -> None:
    for entries in json.loads(path.read_text(encoding="utf-8")).values():
        ranges = [entry["seeds"] for entry in entries]
        assert all(first <= last for first, last in ranges)
        assert all(earlier[1] < later[0] for earlier, later in itertools.pairwise(ranges)), "a seed counts once"

"""Runs of `python -m matrix.run` from the command line to the final table, with a fake nox."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from matrix.data import ROOT, load
from matrix.run import __main__ as command
from matrix.run import done, runner

CELLS = [cell.id for cell in load().cells.values() if cell.shim == "tflite"][:4]
COUNTS = {"node/1": {"pass": 3, "fallback": 1, "gap": 0, "fail": 0}}
# The file with the name of a cell holds its behaviour; every run appends a line to `runs`.
NOX = """#!{python}
import json, os, pathlib, sys, time
here = pathlib.Path({folder!r})
sessions = sys.argv[sys.argv.index("--sessions") + 1 :]
with open(here / "runs", "a") as file:
    print(*sessions, file=file)
cell = sessions[0][5:-1]
if not sessions[0].startswith("cell("):
    sys.exit(0)
assert os.environ["ONNX_COMPAT_PREPARED"]
(here / (cell + ".pid")).write_text(str(os.getpid()))
told = json.loads((here / cell).read_text())
lines = [json.dumps({{"tests": 2}})]
lines += [json.dumps({{"id": str(k), "outcome": each, "reason": "E"}}) for k, each in enumerate(told["tests"])]
pathlib.Path(os.environ["ONNX_COMPAT_PROGRESS"]).write_text("\\n".join(lines) + "\\n")
print("what it says")
time.sleep(told.get("seconds", 0))
if "counts" in told:
    place = here / "results" / ("parts" if "-k" in sessions else ".")
    place.mkdir(parents=True, exist_ok=True)
    (place / (cell + ".json")).write_text(json.dumps({{"cell": cell, "state": "ran", **told}}))
os.kill(os.getpid(), told["killed"]) if "killed" in told else sys.exit(told["code"])
"""
GOOD = {"code": 0, "tests": ["passed", "passed"], "counts": COUNTS}


class Fake:
    def __init__(self, folder: Path) -> None:
        self.folder, self.results, self.nox = folder, folder / "results", folder / "nox"
        self.nox.write_text(NOX.format(python=sys.executable, folder=str(folder)), encoding="utf-8")
        self.nox.chmod(0o755)
        for cell in CELLS:
            self.tell(cell, GOOD)

    def tell(self, cell: str, behaviour: dict[str, Any]) -> None:
        (self.folder / cell).write_text(json.dumps(behaviour), encoding="utf-8")

    def run(self, *arguments: str) -> int:
        (self.folder / "runs").write_text("", encoding="utf-8")
        return command.main([f"--nox={self.nox}", "--jobs=2", *CELLS, *arguments])

    @property
    def ran(self) -> set[str]:
        lines = (self.folder / "runs").read_text(encoding="utf-8").splitlines()
        return {line[5:].partition(")")[0] for line in lines if line.startswith("cell(")}

    def read_results(self, cell: str) -> dict[str, Any]:
        results: dict[str, Any] = json.loads((self.results / f"{cell}.json").read_text(encoding="utf-8"))
        return results


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setattr(done, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(runner, "load_results", dict)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.delenv("ONNX_COMPAT_PREPARED", raising=False)  # `.ci/run` sets it
    return Fake(tmp_path)


@pytest.mark.parametrize("prepared", [True, False])
def test_wheels_and_cases_are_made_once_before_the_first_cell(
    fake: Fake, monkeypatch: pytest.MonkeyPatch, prepared: bool
) -> None:
    if prepared:
        monkeypatch.setenv("ONNX_COMPAT_PREPARED", "1")
    assert fake.run() == 0
    lines = (fake.folder / "runs").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("cell(")] == ([] if prepared else ["wheels suites zoo"])
    assert lines[0].startswith("cell(") == prepared


def test_the_second_run_continues_with_missing_and_failed_cells(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.tell(CELLS[1], {"code": 1, "tests": ["passed", "failed"], "counts": COUNTS})
    fake.tell(CELLS[2], {"killed": int(signal.SIGKILL), "tests": ["passed"]})
    assert fake.run() == 1
    assert fake.ran == set(CELLS)
    output = capsys.readouterr().out
    assert f"{CELLS[1]}: failed: 1 of 2 tests failed, the first: 1: E" in output
    assert f"{CELLS[2]}: broken: 1 of 2 tests did not run: what it says" in output
    assert "  | what it says" in output
    assert fake.read_results(CELLS[0])["state"] == "ran"
    assert fake.read_results(CELLS[2])["state"] == "broken"
    assert "1 of 2 tests did not run" in fake.read_results(CELLS[2])["reason"]
    assert sorted(path.name for path in fake.results.glob("*.json")) == sorted(f"{cell}.json" for cell in CELLS)

    for cell in CELLS:
        fake.tell(cell, GOOD)
    assert fake.run() == 0
    assert fake.ran == {CELLS[1], CELLS[2]}
    output = capsys.readouterr().out
    assert output.count("passed, before") == 2
    assert fake.run() == 0
    assert fake.ran == set()


def test_fresh_runs_all_cells_and_a_dry_run_none(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert fake.run() == 0
    assert fake.run("--fresh", "--dry-run") == 0
    assert set(capsys.readouterr().out.splitlines()[-4:]) == set(CELLS)
    assert fake.ran == set()
    assert fake.run() == 0
    assert fake.ran == set()
    assert fake.run("--fresh") == 0
    assert fake.ran == set(CELLS)


def test_a_partial_run_marks_no_cell_as_done(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    assert fake.run() == 0
    fake.tell(CELLS[0], {"code": 1, "tests": ["passed"]})
    before = fake.read_results(CELLS[0])
    capsys.readouterr()
    assert fake.run("--", "-k", "abs") == 1
    assert fake.ran == set(CELLS), "whatever is done"
    assert capsys.readouterr().out.count("75.0 %") == len(CELLS) - 1, "what was found is shown"
    assert fake.read_results(CELLS[0]) == before
    assert fake.run() == 0
    assert fake.ran == set(), "and stays done"


def test_a_cell_that_hangs_is_broken_and_ended(fake: Fake) -> None:
    fake.tell(CELLS[0], {**GOOD, "seconds": 600})
    start = time.monotonic()
    assert fake.run("--minutes=0.05") == 1
    assert time.monotonic() - start < 300
    assert "the limit of a cell" in fake.read_results(CELLS[0])["reason"]
    assert fake.read_results(CELLS[1])["state"] == "ran"


def test_an_interrupt_ends_running_cells_and_keeps_finished_ones(tmp_path: Path) -> None:
    fake = Fake(tmp_path)
    fake.tell(CELLS[1], {**GOOD, "seconds": 600})
    code = f"""
import pathlib, sys
from matrix.run import __main__ as command, done, runner
done.RESULTS, runner.load_results = pathlib.Path({str(fake.results)!r}), dict
sys.exit(command.main(sys.argv[1:]))
"""
    arguments = [f"--nox={fake.nox}", "--jobs=2", *CELLS[:2]]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-c", code, *arguments], cwd=ROOT, env=env, stdout=subprocess.PIPE
    ) as process:
        record = fake.results / "done" / f"{CELLS[0]}.json"
        while not record.exists() or not (fake.folder / f"{CELLS[1]}.pid").exists():
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        output = process.communicate()[0].decode()
    assert process.returncode == 130
    assert "interrupted" in output
    assert "passed" in output
    assert not (fake.results / f"{CELLS[1]}.json").exists()
    assert done.read(CELLS[1], fake.results) is None
    with pytest.raises(ProcessLookupError):
        os.kill(int((fake.folder / f"{CELLS[1]}.pid").read_text(encoding="utf-8")), 0)


def test_no_cell_runs_if_a_common_session_fails(fake: Fake, capsys: pytest.CaptureFixture[str]) -> None:
    fake.nox.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    assert fake.run() == 2
    assert "no cell was run" in capsys.readouterr().err

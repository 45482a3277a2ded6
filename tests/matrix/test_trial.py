"""The trial of the branches: what it runs, and that whatever goes wrong is a row and a failure, never a pass."""

import json
import re
import sys
from pathlib import Path

import pytest

from matrix import trial
from matrix.branches import branches, minors
from matrix.data import MatrixError, load

MATRIX = load()
FOUND = {"framework": "tensorflow", "version": "2.8.4", "files": ["saved_model"], "probability": "0.16.0"}
REFUSED = "the branch requires Python >=3.7,<3.11"


def proving(*told):
    """The cell of the branch that a command is about."""
    (name,) = {found for part in told for found in re.findall(r"onnx-compat\[([a-z0-9-]+?)(?:-cpu)?[],]", part)}
    return branches(MATRIX)[name]


@pytest.fixture
def machine(monkeypatch):
    """A machine on which every command does what it should; a test puts something else into `does`."""
    does, ran = {}, []

    def done(*command, given=None, **options):
        ran.append((command, given, options))
        python = next((part.partition("=")[2] for part in command if part.startswith("--python-version=")), "")
        if command[0].startswith("python"):  # pip of that Python, or the script
            python = command[0][len("python") :] if "pip" in command else ""
        if python and python not in minors(proving(*command, given or "").pythons):
            said = does.get("refused", REFUSED)
            if said is None:
                return ""
            raise trial.Failed(said)
        if "compile" in command:
            return "\n".join(does.get("resolved", ["tensorflow-cpu==2.8.4", "numpy==1.26.4"]))
        if str(trial.SCRIPT) in command:
            if "broken" in does:
                raise trial.Failed(does["broken"])
            return "noise\n" + json.dumps(FOUND)
        return ""

    monkeypatch.setattr(trial, "_done", done)
    monkeypatch.setattr(trial, "find", lambda python: "python" + python)
    monkeypatch.setattr(trial, "_environment", lambda folder, python, *options: "python" + python)
    return does, ran


def tried(name):
    (one,) = trial.trials(MATRIX, Path("dist"), [name])
    one.run(pip=True)
    return one


def test_a_branch_that_works(machine):
    one = tried("tf2-8")
    assert one.failures == []
    assert one.row["runs"] == "tensorflow 2.8.4: saved_model"
    assert one.row["probability"] == "0.16.0"
    assert (one.row["wheels"], one.row["refuses"], one.row["pip"]) == ("3.7 to 3.10", "3.11", "3.11")
    asked = {part for command, given, _ in machine[1] for part in (*command, given) if part and "onnx-compat[" in part}
    version = MATRIX.version
    assert asked == {f"onnx-compat[{extras}]=={version}" for extras in ("tf2-8", "tf2-8-cpu", "tf2-8-cpu,probability")}


def test_two_builds_of_one_framework_are_not_tried_beside_each_other(machine):
    machine[0]["resolved"] = ["tensorflow==2.8.4", "tensorflow-cpu==2.8.4"]
    one = tried("tf2-8")
    assert any(f"onnx-compat[tf2-8,probability]=={MATRIX.version}" in command for command, _, _ in machine[1])
    assert one.failures == []


@pytest.mark.parametrize(
    ("key", "value", "columns"),
    [
        ("broken", "AssertionError: selected: ['reference']", {"runs", "probability"}),
        ("refused", None, {"refuses", "pip"}),
        ("refused", "the disk is full", {"refuses", "pip"}),
    ],
)
def test_whatever_goes_wrong_is_a_failure(machine, key, value, columns):
    machine[0][key] = value
    one = tried("tf2-8")
    assert {name for name, said in one.row.items() if said == "FAILED"} == columns
    assert len(one.failures) == len(columns)
    assert value is None or all(value in failure for failure in one.failures)


def test_one_failure_stops_no_other_branch_and_fails_the_run(machine, capsys):
    machine[0]["broken"] = "it does not import"
    assert trial.main(["dist", "tf2-7", "tf2-8"]) == 1
    out = capsys.readouterr().out
    assert "2 branches, 4 failures" in out and "tf2-7: runs: it does not import" in out
    del machine[0]["broken"]
    assert trial.main(["dist", "tf2-8"]) == 0


def test_an_unknown_branch_is_named():
    with pytest.raises(MatrixError, match="no branch tf9-9: there are tf1-14"):
        trial.trials(MATRIX, Path("dist"), ["tf9-9"])


def test_the_shell_does_not_choose_for_the_user(monkeypatch):
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "reference")
    code = "import os; print(os.environ.get('ONNX_COMPAT_SHIM'), os.environ['GIVEN'])"
    assert trial._done(sys.executable, "-c", code, env={"GIVEN": "1"}).split() == ["None", "1"]
    with pytest.raises(trial.Failed, match="on purpose"):
        trial._done(sys.executable, "-c", "raise SystemExit('on purpose')")

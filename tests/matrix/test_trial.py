"""Trial of the branches, with fake commands: each failed step is in the row and in the list of failures."""

import json
import re
import sys
from pathlib import Path

import pytest

from matrix import trial
from matrix.branches import branch_extras, branches, minors
from matrix.data import MatrixError, load

MATRIX = load()
FOUND = {"framework": "tensorflow", "version": "2.8.4", "files": ["saved_model"], "probability": "0.16.0"}
# What pip 26.3 and uv 0.13.8 said, without the ends of long lines: tests/e2e/test_wrong_python.py compares the tools of today.
MESSAGES = [
    ("tf2-8", "ERROR: No matching distribution found for tensorflow~=2.8.4 (from onnx-compat-tf2[tf2-8])"),
    (
        "tf2-8",
        "Because tensorflow==2.8.4 has no wheels with a matching Python ABI tag (e.g., `cp311`) and only the following",
    ),
    (
        "litert1-0",
        "Because ai-edge-litert==1.0.1 has no wheels with a matching\n  Python implementation tag (e.g., `cp38`) and",
    ),
    ("tf1-15", "ERROR: Package 'onnx-compat-tf1' requires a different Python: 3.11.7 not in '<3.9,>=3.7'"),
    ("keras3-15-jax", "ERROR: Package 'jax' requires a different Python: 3.10.13 not in '>=3.11'"),
    ("keras3-15-jax", "does not satisfy Python>=3.11 and jax==0.10.2 depends on Python>=3.11, we can conclude that"),
]


def proving(*parts):
    """Return the cell whose branch a command names."""
    (name,) = {
        branch_name
        for part in parts
        for branch_name in re.findall(r"onnx-compat\[([a-z0-9-]+?)(?:-cpu)?(?:-probability)?\]", part)
    }
    return branches(MATRIX)[name]


@pytest.fixture
def machine(monkeypatch):
    """Replace the commands of a trial by a fake on which every command succeeds. A test sets other answers in `does`."""
    does, ran = {}, []

    def run_command(*command, given=None, **options):
        ran.append((command, given, options))
        python = next((part.partition("=")[2] for part in command if part.startswith("--python-version=")), "")
        if command[0].startswith("python"):  # pip of that Python, or the script
            python = command[0][len("python") :] if "pip" in command else ""
        cell = proving(*command, given or "") if python else None
        if cell and python not in minors(cell.pythons):
            requirement = branch_extras(MATRIX, cell)[cell.branch][0]
            refusal = does.get("refused", f"ERROR: No matching distribution found for {requirement}")
            if refusal is None:
                return ""
            raise trial.Failed(refusal)
        if "compile" in command:
            return "\n".join(does.get("resolved", ["tensorflow-cpu==2.8.4", "numpy==1.26.4"]))
        if str(trial.SCRIPT) in command:
            if "broken" in does:
                raise trial.Failed(does["broken"])
            return "noise\n" + json.dumps(FOUND)
        return ""

    monkeypatch.setattr(trial, "_run_command", run_command)
    monkeypatch.setattr(trial, "find", lambda python: "python" + python)
    monkeypatch.setattr(trial, "_make_environment", lambda folder, python, *options: "python" + python)
    return does, ran


def run_trial(name):
    (branch_trial,) = trial.trials(MATRIX, Path("dist"), [name])
    branch_trial.run(pip=True)
    return branch_trial


def test_a_branch_that_works(machine):
    branch_trial = run_trial("tf2-8")
    assert branch_trial.failures == []
    assert branch_trial.row["runs"] == "tensorflow 2.8.4: saved_model"
    assert branch_trial.row["probability"] == "0.16.0"
    assert (branch_trial.row["wheels"], branch_trial.row["refuses"], branch_trial.row["pip"]) == (
        "3.7 to 3.10",
        "3.11",
        "3.11",
    )
    requested = {
        part for command, given, _ in machine[1] for part in (*command, given) if part and "onnx-compat[" in part
    }
    version = MATRIX.version
    assert requested == {
        f"onnx-compat[{extra}]=={version}" for extra in ("tf2-8", "tf2-8-cpu", "tf2-8-cpu-probability")
    }


def test_two_builds_of_one_framework_in_an_environment_are_a_failure(machine):
    machine[0]["resolved"] = ["tensorflow==2.8.4", "tensorflow-cpu==2.8.4"]
    (failure,) = run_trial("tf2-8").failures
    assert "tf2-8-cpu-probability installs two builds of TensorFlow" in failure


def test_tf_keras_is_tried_with_the_full_build(machine):
    assert run_trial("tf2-18").failures == []
    assert any(f"onnx-compat[tf2-18-probability]=={MATRIX.version}" in command for command, _, _ in machine[1])


@pytest.mark.parametrize(("branch", "message"), MESSAGES)
def test_a_refusal_names_the_framework_or_the_python(branch, message):
    (branch_trial,) = trial.trials(MATRIX, Path("dist"), [branch])
    refuse = [sys.executable, "-c", "import sys; sys.exit(sys.argv[1])", message]
    branch_trial._expect_refusal("3.99", *refuse)
    unrelated = re.sub("tensorflow|ai-edge-litert|onnx-compat-tf1|jax", "numpy", message)
    with pytest.raises(trial.Failed, match="refused for another reason"):
        branch_trial._expect_refusal("3.99", *refuse[:-1], unrelated)


@pytest.mark.parametrize(
    ("key", "value", "columns"),
    [
        ("broken", "AssertionError: selected: ['reference']", {"runs", "probability"}),
        ("refused", None, {"refuses", "pip"}),
        ("refused", "the disk is full", {"refuses", "pip"}),
    ],
)
def test_each_kind_of_error_is_a_failure(machine, key, value, columns):
    machine[0][key] = value
    branch_trial = run_trial("tf2-8")
    assert {name for name, result in branch_trial.row.items() if result == "FAILED"} == columns
    assert len(branch_trial.failures) == len(columns)
    assert value is None or all(value in failure for failure in branch_trial.failures)


def test_one_failure_stops_no_other_branch_and_fails_the_run(machine, capsys):
    machine[0]["broken"] = "it does not import"
    assert trial.main(["dist", "tf2-7", "tf2-8"]) == 1
    out = capsys.readouterr().out
    assert "2 branches, 4 failures" in out and "tf2-7: runs: it does not import" in out
    del machine[0]["broken"]
    assert trial.main(["dist", "tf2-8"]) == 0


def test_an_unknown_branch_is_named():
    with pytest.raises(MatrixError, match=r"no branch tf9-9\. The branches are tf1-14"):
        trial.trials(MATRIX, Path("dist"), ["tf9-9"])


def test_the_variables_of_the_shell_are_removed(monkeypatch):
    monkeypatch.setenv("ONNX_COMPAT_SHIM", "reference")
    code = "import os; print(os.environ.get('ONNX_COMPAT_SHIM'), os.environ['GIVEN'])"
    assert trial._run_command(sys.executable, "-c", code, env={"GIVEN": "1"}).split() == ["None", "1"]
    with pytest.raises(trial.Failed, match="on purpose"):
        trial._run_command(sys.executable, "-c", "raise SystemExit('on purpose')")


@pytest.mark.parametrize("name", [name for name, cell in branches(MATRIX).items() if cell.env])
def test_a_trial_sets_no_variable_that_a_user_does_not_set(machine, name):
    """A branch of Keras on JAX has to work where KERAS_BACKEND is not set."""
    _, ran = machine
    run_trial(name)
    environments = [options.get("env") or {} for _, _, options in ran]
    assert any(environments)
    assert not any(set(trial.UNSET) & set(environment) for environment in environments)

"""Trial of the branches: install each by its name from a folder of wheels, use it, and check that other Pythons refuse
it.

python -m matrix.trial FOLDER [--jobs N] [BRANCH ...]

Each environment is deleted after its use, because it is large. uv installs it again quickly from its cache.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from matrix import branches
from matrix.branches import CPU, PROBABILITY, branch_extras
from matrix.data import ROOT, Cell, Matrix, MatrixError, load
from matrix.interpreters import find

__all__ = ["Trial", "main"]

SCRIPT = ROOT / "tests" / "e2e" / "branch.py"
SECONDS = 3600
# Environment variables that are removed, because they would select a shim or a back end. A user of a branch sets none of
# them, so a trial does not set those of the cell either.
UNSET = ("PYTHONPATH", "ONNX_COMPAT_SHIM", "KERAS_BACKEND", "TF_USE_LEGACY_KERAS")


# Messages about a framework without wheels for a Python. uv names the Python, or the platform tags of the wheels. pip names
# the framework and the versions that it has for this Python. `{name}` and `{version}` are those of the framework or the shim.
REASONS = (
    r"{name}\S* .*has no wheels with a matching Python \w+ tag",
    r"{name}\S* .*depends on Python[<>]",
    r"Package '{name}' requires a different Python",
    r"No matching distribution found for {name}~={version}",
)


class Failed(Exception):
    """A step of a trial failed; the text is the reason."""


@dataclass(eq=False)
class Trial:
    """The trial of the branch of a cell. `cell` must have a branch. `folder` has the wheels of all distributions.

    `run` fills these:

    - row: column -> text. The columns are the branch, its Python, each step, and the seconds. A failed step has
      "FAILED".
    - failures: a text for each step that failed.
    """

    matrix: Matrix
    cell: Cell
    folder: Path
    row: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def run(self, pip: bool) -> None:
        """Run all steps of the trial, and fill `row` and `failures`.

        `pip`: also check with pip that other Pythons are refused.
        """
        began = time.monotonic()
        assert self.cell.branch
        self.row = {"branch": self.cell.branch, "Python": self.cell.python}
        self._step("runs", self._try_branch)
        self._step("probability", self._try_probability)
        self._step("wheels", self._resolve_at_both_ends)
        self._step("refuses", self._check_refusal)
        if pip:
            self._step("pip", self._check_refusal_by_pip)
        self.row["seconds"] = f"{time.monotonic() - began:.0f}"

    def _step(self, column: str, step: Callable[[], str]) -> None:
        """Run a step, and store the text that it returns in the column of the row.

        If the step fails, the column has "FAILED", and the reason is added to `failures`.
        """
        try:
            self.row[column] = step()
        except (Failed, MatrixError, ValueError, subprocess.TimeoutExpired) as error:
            self.row[column] = "FAILED"
            self.failures.append(f"{self.cell.branch}: {column}: {error}")

    def _extra(self, suffix: str = "") -> str:
        """Return the name of the branch's extra that ends with `suffix`.

        If the branch has such an extra for the build without GPU support, it is that extra.
        """
        extra = f"{self.cell.branch}{CPU}{suffix}"
        return extra if extra in branch_extras(self.matrix, self.cell) else f"{self.cell.branch}{suffix}"

    def _try_branch(self) -> str:
        """Install and use the branch. Return the framework, its version and the files that were written, as text."""
        report = self._try_extra(self._extra())
        return f"{report['framework']} {report['version']}: {', '.join(report['files']) or 'no files'}"

    def _try_probability(self) -> str:
        """Install and use the branch with its tensorflow-probability. Return the version; "" if the branch has none.

        Raise Failed if the extra installs two builds of TensorFlow.
        """
        if not self.cell.probability:
            return ""
        extra = self._extra(PROBABILITY)
        if {"tensorflow", "tensorflow-cpu"} <= set(self._resolve(extra, self.cell.python)):
            raise Failed(f"{extra} installs two builds of TensorFlow, which overwrite each other")
        return str(self._try_extra(extra)["probability"])

    def _try_extra(self, extra: str) -> dict[str, Any]:
        """Install the core with this extra in an empty environment, run SCRIPT in it, and return its report, a JSON
        object.

        Failed is raised if a command fails.
        """
        with tempfile.TemporaryDirectory() as scratch:
            python = _make_environment(Path(scratch, "env"), self.cell.python)
            _run_command(
                "uv", "pip", "install", "--quiet", f"--python={python}", *self._links(), self._requirement(extra)
            )
            empty = Path(scratch, "empty")
            empty.mkdir()
            output = _run_command(
                python,
                str(SCRIPT),
                self.cell.shim,
                str(ROOT / "examples"),
                cwd=empty,
                env={"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
            )
        report: dict[str, Any] = json.loads(output.splitlines()[-1])
        return report

    def _resolve_at_both_ends(self) -> str:
        """Check that the branch resolves on the oldest and on the newest Python that it accepts. Return `3.9 to 3.12`."""
        accepted = self._accepted_pythons()
        for python in (accepted[0], accepted[-1]):
            self._resolve(str(self.cell.branch), python)
        return f"{accepted[0]} to {accepted[-1]}"

    def _resolve(self, extra: str, python: str) -> list[str]:
        """Return the names of the distributions that uv would install for this extra on a Python. Raise Failed if uv
        finds none.
        """
        output = _run_command(*self._resolve_command(python), given=self._requirement(extra))
        return [Requirement(line).name for line in output.splitlines()]

    def _resolve_command(self, python: str) -> list[str]:
        """Return the command of uv that resolves requirements from standard input for a Python.

        Only versions of the frameworks that have a wheel count.
        """
        resolve = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", f"--python-version={python}"]
        return [*resolve, *(f"--only-binary={name}" for name in self._frameworks()), *self._links(), "-"]

    def _frameworks(self) -> list[str]:
        """Return the names of the frameworks of the branch; a build without GPU support also under the name of the full
        build.
        """
        names = [pin.name for pin in self.matrix.frameworks(self.cell)]
        return [*names, *(name[: -len(CPU)] for name in names if name.endswith(CPU))]

    def _check_refusal(self) -> str:
        """Check that uv refuses the branch on the Pythons before and after those that it accepts. Return these Pythons.

        Failed is raised if uv accepts one of them.
        """
        for python in self._refused_pythons():
            self._expect_refusal(python, *self._resolve_command(python), given=self._requirement(str(self.cell.branch)))
        return " ".join(self._refused_pythons())

    def _check_refusal_by_pip(self) -> str:
        """Check with the newest pip that it refuses the branch on the same Pythons as `_check_refusal`.

        Pythons that this machine lacks are left out. Return the checked Pythons. Failed is raised if pip accepts one of
        them.
        """
        refusing = []
        for python in self._refused_pythons():
            try:
                find(python)
            except MatrixError:
                continue
            with tempfile.TemporaryDirectory() as scratch:
                interpreter = _make_environment(Path(scratch), python, "--seed")
                self._expect_refusal(
                    python,
                    interpreter,
                    "-m",
                    "pip",
                    "install",
                    *self._links(),
                    self._requirement(str(self.cell.branch)),
                )
            refusing.append(python)
        return " ".join(refusing)

    def _expect_refusal(self, python: str, *command: str, given: str | None = None) -> None:
        """Run a command, and raise Failed unless it fails with a message that names the Python as the reason.

        `given`: its standard input, or None.
        """
        try:
            _run_command(*command, given=given)
        except Failed as error:
            if any(re.search(reason, " ".join(str(error).split())) for reason in self._reasons()):
                return
            raise Failed(f"Python {python} is refused for another reason:\n{error}") from error
        raise Failed(f"Python {python} is not refused")

    def _reasons(self) -> list[str]:
        """Return the regular expressions of messages that blame a missing wheel or the Python: `REASONS` for the shim
        and each framework.

        The frameworks are those of the full build of the branch.
        """
        shim, extra = self.matrix.distributions[self.cell.shim].name, str(self.cell.branch)
        versions = {shim: self.matrix.version}
        for requirement in map(Requirement, branch_extras(self.matrix, self.cell)[extra]):
            if requirement.name in self._frameworks():
                versions[requirement.name] = next(iter(requirement.specifier)).version
        return [
            reason.format(name=re.escape(name), version=re.escape(version))
            for name, version in versions.items()
            for reason in REASONS
        ]

    def _refused_pythons(self) -> list[str]:
        """Return the Python before and the Python after those that the branch accepts, without Pythons that the core
        refuses.
        """
        accepted = [int(python.partition(".")[2]) for python in self._accepted_pythons()]
        ends = [f"3.{accepted[0] - 1}", f"3.{accepted[-1] + 1}"]
        core = branches.minors(self.matrix.requires_python(self.matrix.distributions["core"]))
        return [python for python in ends if python in core]

    def _accepted_pythons(self) -> list[str]:
        """Return the minor versions of Python that the branch accepts, the oldest first."""
        return branches.minors(str(self.cell.pythons))

    def _links(self) -> list[str]:
        """Return the options of uv and pip for the folder of wheels."""
        return ["--find-links", str(self.folder)]

    def _requirement(self, extra: str) -> str:
        """Return the requirement on the core with this extra, at the version of this repository."""
        return f"{self.matrix.distributions['core'].name}[{extra}]=={self.matrix.version}"


def _make_environment(folder: Path, python: str, *options: str) -> str:
    """Create a virtual environment in `folder` with uv. Return the path of its interpreter. `options`: of `uv venv`."""
    _run_command("uv", "venv", "--quiet", *options, f"--python={find(python)}", str(folder))
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


def _run_command(
    *command: str, given: str | None = None, cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    """Run a command and return its standard output. `given`: its standard input.

    `cwd` None: the current folder. `env`: variables to add. Raises Failed with the end of the output if the command
    fails.
    """
    variables = {name: value for name, value in os.environ.items() if name not in UNSET}
    variables["UV_PYTHON_DOWNLOADS"] = "never"
    process = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**variables, **(env or {})},
        timeout=SECONDS,
    )
    if process.returncode != 0:
        raise Failed("\n".join((process.stdout + process.stderr).splitlines()[-15:]))
    return process.stdout


def trials(matrix: Matrix, folder: Path, names: list[str]) -> list[Trial]:
    """Return a trial for each branch in `names`; for each branch of the matrix, if `names` is empty.

    Raise a MatrixError for an unknown branch.
    """
    proving = branches.branches(matrix)
    unknown = [name for name in names if name not in proving]
    if unknown:
        raise MatrixError(f"There is no branch {', '.join(unknown)}. The branches are {', '.join(proving)}.")
    return [Trial(matrix, proving[name], folder) for name in names or proving]


def main(arguments: list[str] | None = None) -> int:
    """Run the trials, and print a row for each. Return 1 if a step failed."""
    parser = argparse.ArgumentParser(prog="python -m matrix.trial", description="Try the branches as their users do.")
    parser.add_argument("folder", type=Path, help="the folder with the wheels of all distributions")
    parser.add_argument(
        "--jobs", type=int, default=1, help="branches at a time; each needs the disk space of its framework"
    )
    parser.add_argument("branches", nargs="*", metavar="BRANCH")
    options = parser.parse_args(arguments)
    try:
        branch_trials = trials(load(), options.folder.resolve(), options.branches)
    except MatrixError as error:
        sys.exit(str(error))
    # pip is slow, and its answer is the same for each branch of a shim.
    first = {trial.cell.shim: trial for trial in reversed(branch_trials)}
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [
            pool.submit(trial.run, pip=bool(options.branches) or trial in first.values()) for trial in branch_trials
        ]
        for trial, result in zip(branch_trials, running):
            result.result()
            print("  ".join(f"{name} {value}" for name, value in trial.row.items() if value), flush=True)
            print("".join(f"{failure}\n" for failure in trial.failures), flush=True, end="")
    failures = [failure for trial in branch_trials for failure in trial.failures]
    print(f"\n{table([trial.row for trial in branch_trials])}\n")
    print("\n".join([f"{len(branch_trials)} branches, {len(failures)} failures", *failures]))
    return 1 if failures else 0


def table(rows: list[dict[str, str]]) -> str:
    """Return rows of column -> text as an aligned table with a header line."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [dict(zip(columns, columns)), *rows]
    widths = {name: max(len(line.get(name, "")) for line in lines) for name in columns}
    return "\n".join("  ".join(line.get(name, "").ljust(widths[name]) for name in columns).rstrip() for line in lines)


if __name__ == "__main__":
    sys.exit(main())

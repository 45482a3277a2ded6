"""Every branch as its user meets it: installed by name from a folder of wheels, used, and refused where it must be.

python -m matrix.trial FOLDER [--jobs N] [BRANCH ...]

Environments are deleted again at once: an installation is quick out of uv's cache, and large.
"""

from __future__ import annotations

import argparse
import json
import os
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
from matrix.branches import CPU
from matrix.data import ROOT, Cell, Matrix, MatrixError, load
from matrix.interpreters import find

__all__ = ["Trial", "main"]

SCRIPT = ROOT / "tests" / "e2e" / "branch.py"
SECONDS = 3600
# What a shell has set for itself must not choose for the user.
UNSET = ("PYTHONPATH", "ONNX_COMPAT_SHIM", "KERAS_BACKEND", "TF_USE_LEGACY_KERAS")


REASONS = ("requires a different Python", "requires Python", "no wheels with a matching Python ABI tag")


class Failed(Exception):
    """A step went wrong; the text says how."""


@dataclass(eq=False)
class Trial:
    """One branch: what each step found, as a row; or how it failed."""

    matrix: Matrix
    cell: Cell
    folder: Path
    row: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def run(self, pip: bool) -> None:
        """All steps; `pip`: a wrong Python also with pip itself."""
        began = time.monotonic()
        assert self.cell.branch
        self.row = {"branch": self.cell.branch, "Python": self.cell.python}
        self._step("runs", self._use)
        self._step("probability", self._use_with_probability)
        self._step("wheels", self._resolve_at_both_ends)
        self._step("refuses", self._refuse)
        if pip:
            self._step("pip", self._refuse_with_pip)
        self.row["seconds"] = f"{time.monotonic() - began:.0f}"

    def _step(self, column: str, step: Callable[[], str]) -> None:
        try:
            self.row[column] = step()
        except (Failed, MatrixError, ValueError, subprocess.TimeoutExpired) as error:
            self.row[column] = "FAILED"
            self.failures.append(f"{self.cell.branch}: {column}: {error}")

    @property
    def extra(self) -> str:
        """The extra to try: of builds for a CPU alone, where there are some."""
        core = branches.extras(self.matrix, self.matrix.distributions["core"])
        return f"{self.cell.branch}{CPU}" if f"{self.cell.branch}{CPU}" in core else str(self.cell.branch)

    def _use(self) -> str:
        found = self._installed(self.extra)
        return f"{found['framework']} {found['version']}: {', '.join(found['files']) or 'no files'}"

    def _use_with_probability(self) -> str:
        if not self.cell.probability:
            return ""
        # tf-keras asks for the full build of TensorFlow: two builds in one folder are neither.
        both = {"tensorflow", "tensorflow-cpu"} <= set(self._resolved(f"{self.extra},probability", self.cell.python))
        extra = str(self.cell.branch) if both else self.extra
        return str(self._installed(f"{extra},probability")["probability"])

    def _installed(self, extras: str) -> dict[str, Any]:
        """What the script found in an empty environment with that."""
        with tempfile.TemporaryDirectory() as room:
            python = _environment(Path(room, "env"), self.cell.python)
            _done("uv", "pip", "install", "--quiet", f"--python={python}", *self._links(), self._asked(extras))
            empty = Path(room, "empty")
            empty.mkdir()
            said = _done(
                python,
                str(SCRIPT),
                self.cell.shim,
                str(ROOT / "examples"),
                cwd=empty,
                env={**self.cell.env, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""},
            )
        found: dict[str, Any] = json.loads(said.splitlines()[-1])
        return found

    def _resolve_at_both_ends(self) -> str:
        """The framework has wheels for the oldest and the newest Python that the branch accepts, and all others fit."""
        accepted = self._accepted()
        for python in (accepted[0], accepted[-1]):
            self._resolved(str(self.cell.branch), python)
        return f"{accepted[0]} to {accepted[-1]}"

    def _resolved(self, extras: str, python: str) -> list[str]:
        """The names of all that would be installed."""
        said = _done(*self._resolving(python), given=self._asked(extras))
        return [Requirement(line).name for line in said.splitlines()]

    def _resolving(self, python: str) -> list[str]:
        """Each framework from a wheel."""
        resolve = ["uv", "pip", "compile", "--quiet", "--no-header", "--no-annotate", f"--python-version={python}"]
        return [*resolve, *(f"--only-binary={name}" for name in self._frameworks()), *self._links(), "-"]

    def _frameworks(self) -> list[str]:
        names = [pin.name for pin in self.matrix.frameworks(self.cell)]
        return [*names, *(name[: -len(CPU)] for name in names if name.endswith(CPU))]

    def _refuse(self) -> str:
        """The next older and the next newer Python, by uv, which takes of a Requires-Python its lower end alone."""
        for python in self._wrong():
            self._reason(python, *self._resolving(python), given=self._asked(str(self.cell.branch)))
        return " ".join(self._wrong())

    def _refuse_with_pip(self) -> str:
        """By the newest pip that such a Python has, if this machine has one."""
        tried = []
        for python in self._wrong():
            try:
                find(python)
            except MatrixError:
                continue
            with tempfile.TemporaryDirectory() as room:
                made = _environment(Path(room), python, "--seed")
                self._reason(python, made, "-m", "pip", "install", *self._links(), self._asked(str(self.cell.branch)))
            tried.append(python)
        return " ".join(tried)

    def _reason(self, python: str, *command: str, given: str | None = None) -> None:
        """That command must fail, and say that it is for the Python."""
        try:
            _done(*command, given=given)
        except Failed as error:
            if any(reason in str(error) for reason in REASONS):
                return
            raise Failed(f"Python {python} is refused for another reason:\n{error}") from error
        raise Failed(f"Python {python} is not refused")

    def _wrong(self) -> list[str]:
        """The Pythons next to those that are accepted, as far as the core itself accepts them."""
        accepted = [int(python.partition(".")[2]) for python in self._accepted()]
        ends = [f"3.{accepted[0] - 1}", f"3.{accepted[-1] + 1}"]
        core = branches.minors(self.matrix.requires_python(self.matrix.distributions["core"]))
        return [python for python in ends if python in core]

    def _accepted(self) -> list[str]:
        return branches.minors(str(self.cell.pythons))

    def _links(self) -> list[str]:
        return ["--find-links", str(self.folder)]

    def _asked(self, extras: str) -> str:
        return f"{self.matrix.distributions['core'].name}[{extras}]=={self.matrix.version}"


def _environment(folder: Path, python: str, *options: str) -> str:
    _done("uv", "venv", "--quiet", *options, f"--python={find(python)}", str(folder))
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


def _done(*command: str, given: str | None = None, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """What a command printed; raises with the end of what it said when it fails."""
    around = {name: value for name, value in os.environ.items() if name not in UNSET}
    around["UV_PYTHON_DOWNLOADS"] = "never"
    done = subprocess.run(
        command,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env={**around, **(env or {})},
        timeout=SECONDS,
    )
    if done.returncode != 0:
        raise Failed("\n".join((done.stdout + done.stderr).splitlines()[-15:]))
    return done.stdout


def trials(matrix: Matrix, folder: Path, names: list[str]) -> list[Trial]:
    """Of the named branches, or of all."""
    proving = branches.branches(matrix)
    unknown = [name for name in names if name not in proving]
    if unknown:
        raise MatrixError(f"no branch {', '.join(unknown)}: there are {', '.join(proving)}")
    return [Trial(matrix, proving[name], folder) for name in names or proving]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m matrix.trial", description="Try the branches as their users do.")
    parser.add_argument("folder", type=Path, help="with the wheels of all distributions")
    parser.add_argument(
        "--jobs", type=int, default=1, help="branches at a time; each needs its framework's room on the disk"
    )
    parser.add_argument("branches", nargs="*", metavar="BRANCH")
    options = parser.parse_args(arguments)
    try:
        tried = trials(load(), options.folder.resolve(), options.branches)
    except MatrixError as error:
        sys.exit(str(error))
    # pip takes its time: what it says is the same for each branch of a shim.
    first = {trial.cell.shim: trial for trial in reversed(tried)}
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(trial.run, pip=bool(options.branches) or trial in first.values()) for trial in tried]
        for trial, result in zip(tried, running):
            result.result()
            print("  ".join(f"{name} {value}" for name, value in trial.row.items() if value), flush=True)
            print("".join(f"{failure}\n" for failure in trial.failures), flush=True, end="")
    failures = [failure for trial in tried for failure in trial.failures]
    print(f"\n{table([trial.row for trial in tried])}\n")
    print("\n".join([f"{len(tried)} branches, {len(failures)} failures", *failures]))
    return 1 if failures else 0


def table(rows: list[dict[str, str]]) -> str:
    """Under the names of their columns."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [dict(zip(columns, columns)), *rows]
    widths = {name: max(len(line.get(name, "")) for line in lines) for name in columns}
    return "\n".join("  ".join(line.get(name, "").ljust(widths[name]) for name in columns).rstrip() for line in lines)


if __name__ == "__main__":
    sys.exit(main())

"""Process of a cell: nox in a process group of its own, with its output in results/logs."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from matrix.data import ROOT

__all__ = ["Nox", "Process", "environment", "nox_command"]

PATIENCE = 10.0
"""Seconds between SIGTERM and SIGKILL."""


class Process(Protocol):
    """A running process; tests replace it. `poll` returns the exit code, or None while it runs; `end` kills it."""

    def poll(self) -> int | None: ...
    def end(self) -> None: ...


class Nox:
    """A running nox, in one process group with every process that it starts. `log`: the file for its output.

    `env`: all environment variables of nox.
    """

    def __init__(self, command: Sequence[str], log: Path, env: dict[str, str]) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """Return the exit code of nox; None while it runs."""
        return self._process.poll()

    def end(self) -> None:
        """End the whole process group with SIGTERM, then SIGKILL: a worker that hangs would outlive nox."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._process.wait()

    def _signal(self, number: int) -> None:
        """Send a signal to the process group. A system without process groups kills nox alone."""
        with contextlib.suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.kill()


def nox_command(sessions: Sequence[str], arguments: Sequence[str] = (), nox: str = sys.executable) -> list[str]:
    """Return the command that runs these sessions. `arguments`: those after `--`, for pytest.

    `nox`: a Python interpreter that has nox installed.
    """
    return [nox, "-m", "nox", "--sessions", *sessions, *(["--", *arguments] if arguments else [])]


def environment(**more: str) -> dict[str, str]:
    """Return the environment variables for another nox: those of this process without those that the current nox
    session set.

    The variables `more` are added.
    """
    ours = {"VIRTUAL_ENV", "NOX_CURRENT_SESSION", "FORCE_COLOR", "PYTHONPATH"}
    return {**{name: value for name, value in os.environ.items() if name not in ours}, "NO_COLOR": "1", **more}

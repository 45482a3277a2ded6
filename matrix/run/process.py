"""A cell as a process: nox, in a group of its own, with all that it says in results/logs."""

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

__all__ = ["Nox", "Process", "command", "environment"]

PATIENCE = 10.0
"""Seconds between asking a process to end and ending it."""


class Process(Protocol):
    def poll(self) -> int | None: ...
    def end(self) -> None: ...


class Nox:
    """One run of nox, with everything that it starts."""

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
        return self._process.poll()

    def end(self) -> None:
        """Also what it started: a worker that hangs hears nothing of what becomes of nox."""
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(PATIENCE)
        self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.kill()


def command(sessions: Sequence[str], arguments: Sequence[str] = (), nox: str = sys.executable) -> list[str]:
    """`nox`: a Python that has it."""
    return [nox, "-m", "nox", "--sessions", *sessions, *(["--", *arguments] if arguments else [])]


def environment(**more: str) -> dict[str, str]:
    """This one, without what the session of nox that all this runs in says of itself."""
    ours = {"VIRTUAL_ENV", "NOX_CURRENT_SESSION", "FORCE_COLOR", "PYTHONPATH"}
    return {**{name: value for name, value in os.environ.items() if name not in ours}, "NO_COLOR": "1", **more}

"""Child process in another environment, whose functions this process calls."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Child", "ChildError", "environment"]

_CHILD = Path(__file__).resolve().parent / "child"


class ChildError(Exception):
    """A call failed in the child process, or the child process has ended."""


class Child:
    """A child process that runs `benchmarks/child` with the interpreter `python`. Use it in a `with` block.

    `label` names the process in errors.
    """

    def __init__(self, label: str, python: str) -> None:
        self.label = label
        self._log = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - until __exit__
        self._process = subprocess.Popen(
            [python, str(_CHILD)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            env=environment(),
            cwd=_CHILD,  # never the root of the repository: its packages are not those that are measured
        )

    def call(self, command: str, **arguments: Any) -> Any:
        """Call a command of `benchmarks/child` and return its result. Raise ChildError if it fails, or the process ends."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(json.dumps({"command": command, **arguments}) + "\n")
            stdin.flush()
            line = stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise ChildError(f"{self.label}: the process died during `{command}`\n{self._tail()}")
        answer = json.loads(line)
        if "error" in answer:
            raise ChildError(f"{self.label}: {command}: {answer['error']}")
        return answer["result"]

    def _tail(self) -> str:
        """Return the last five lines that the process wrote to standard error."""
        self._log.seek(0)
        return "".join(self._log.readlines()[-5:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        with contextlib.suppress(BrokenPipeError):  # the child died, which `call` has reported
            stdin.close()
        stdout.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


def environment() -> dict[str, str]:
    """Return the environment variables without those that would add packages to the environment of a child process."""
    return {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }

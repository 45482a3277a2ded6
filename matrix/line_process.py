"""Child process that reads lines and writes lines. The process may die, or give no answer in time."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Dict, Optional, Sequence

__all__ = ["LineProcess", "NoAnswer"]


class NoAnswer(Exception):
    """The process wrote no line in time."""


class LineProcess:
    """A running child process in a process group of its own. It runs until `end`.

    `env`: all environment variables of the process. `cwd`: its current folder; None for that of this process. Its
    standard error goes to a log.
    """

    def __init__(self, command: Sequence[str], env: Dict[str, str], cwd: Optional[Path] = None) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - until `end`; in bytes, because Python 3.7 has no `errors`
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            env=env,
            cwd=cwd,
            start_new_session=True,  # a process group, which ends with the process
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def send(self, line: str) -> None:
        """Write a line to the process. A process that has died reads nothing: `receive` then returns ""."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def receive(self, seconds: float) -> str:
        """Return the next line of the process with its line break; "" if the process has ended.

        Raises NoAnswer if no line comes in `seconds`.
        """
        try:
            return self._lines.get(timeout=seconds)
        except queue.Empty:
            raise NoAnswer("no answer after %g seconds" % seconds) from None

    def processor_seconds(self) -> Optional[float]:
        """Return the processor time of the process and its ended children.

        None: the system does not tell it, or the process has ended.
        """
        try:
            fields = Path("/proc/%d/stat" % self._process.pid).read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            return None
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")  # also of its children

    def describe_end(self, count: int = 1) -> str:
        """Wait until the process has ended, call `end`, and return a text that describes its end.

        The text has the exit code or signal, and at most 300 characters of the last `count` lines of its log.
        """
        code = self._process.wait()
        cause = signal.Signals(-code).name if code < 0 else "exit code %d" % code
        self._log.seek(0)
        lines = [line.decode("utf-8", "replace").strip() for line in self._log if line.strip()]
        self.end()
        return "the process died (%s)%s" % (cause, ": " + " / ".join(lines[-count:])[-300:] if lines else "")

    def end(self) -> None:
        """Kill the process and, where the system has process groups, its children. A second call does nothing."""
        if self._log.closed:
            return
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        else:
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # of bytes that were written but never read
            self._process.stdin.close()
        self._log.close()

    def _read(self) -> None:
        """Queue the lines of the process until it ends, then an empty line."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put("")

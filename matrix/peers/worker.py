"""Worker that runs cases of a peer in a child process. If the process dies or hangs in a case, that case fails.

The worker then starts a new process for the next case.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, Dict, NamedTuple, Optional

from matrix.harness.run import FAIL
from matrix.harness.tally import Result
from matrix.peers.tools import Tool
from matrix.suites.cache import Case

__all__ = ["PeerError", "Worker"]

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 300.0


class PeerError(Exception):
    """The peer cannot run at all, for example because its import fails. The text says why."""


class _Running(NamedTuple):
    process: subprocess.Popen[str]
    answers: queue.Queue[str]
    log: IO[str]


class Worker:
    """Runs cases in a child process, which it starts when needed.

    `about`: the packages and the Python of its environment.
    """

    def __init__(self, tool: Tool, seconds: float) -> None:
        """Store the arguments; start no process yet. `seconds`: the time limit of a case."""
        self._tool = tool
        self._seconds = seconds
        self._running: Optional[_Running] = None
        self._closed = False
        self._leaks = False
        self.about: Dict[str, Any] = {}

    def run(self, case: Case) -> Result:
        """Run a case and return its result.

        If it fails and the tool keeps state between models, run it again in a new process.
        """
        result = self._once(case)
        if result.outcome != FAIL or not self._leaks:
            return result
        self._end()
        second_result = self._once(case)
        if second_result.outcome == FAIL:
            return second_result
        return second_result._replace(detail="after other models: %s" % result.detail)

    def _once(self, case: Case) -> Result:
        running = self._running or self._start()
        assert running.process.stdin is not None
        try:
            running.process.stdin.write(json.dumps(case._asdict()) + "\n")
            running.process.stdin.flush()
            line = running.answers.get(timeout=self._seconds)
        except queue.Empty:
            self._end()
            return Result(case.id, FAIL, "no answer after %g seconds" % self._seconds, self._seconds)
        except BrokenPipeError:
            line = ""
        if not line:
            return Result(case.id, FAIL, self._describe_end(running), 0.0)
        answer = json.loads(line)
        return Result(case.id, answer["outcome"], answer["detail"], answer["seconds"])

    def close(self) -> None:
        """End the child process. Later calls of `run` raise PeerError."""
        self._closed = True
        self._end()

    def _start(self) -> _Running:
        if self._closed:
            raise PeerError("interrupted")
        log = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - until _end
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(
            [
                sys.executable,
                "-W",
                "ignore",
                "-m",
                "matrix.peers.child",
                self._tool.module,
                json.dumps(self._tool.options),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # a process group, which ends with the process
        )
        answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(process, answers), daemon=True).start()
        running = self._running = _Running(process, answers, log)
        try:
            line = answers.get(timeout=START_SECONDS)
        except queue.Empty:
            self._end()
            raise PeerError("%s: not imported after %g seconds" % (self._tool.module, START_SECONDS)) from None
        if not line:
            raise PeerError("%s: %s" % (self._tool.module, self._describe_end(running)))
        greeting = json.loads(line)
        self.about, self._leaks = greeting["about"], greeting["leaks"]
        return running

    def _describe_end(self, running: _Running) -> str:
        """Return the exit code or signal of the process, and the last line of its log."""
        code = running.process.wait()
        cause = signal.Signals(-code).name if code < 0 else "exit code %d" % code
        running.log.seek(0)
        log_lines = [line.strip() for line in running.log if line.strip()]
        self._end()
        return "the process died (%s)%s" % (cause, ": " + log_lines[-1][:200] if log_lines else "")

    def _end(self) -> None:
        running, self._running = self._running, None
        if running is None:
            return
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(running.process.pid, signal.SIGKILL)
        else:
            running.process.kill()
        running.process.wait()
        assert running.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # of bytes that were written but never read
            running.process.stdin.close()
        running.log.close()


def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    """Put each line of the process's output into the queue, and an empty line when the process has ended."""
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            answers.put(line)
    answers.put("")

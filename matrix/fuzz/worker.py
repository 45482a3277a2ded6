"""Process in the environment of a cell that runs cases. A case in which it dies or hangs has an outcome, and the run continues."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from matrix.fuzz.chunks import write_chunk
from matrix.fuzz.execution import DIED, HUNG, Outcome
from matrix.fuzz.graphs import Case

__all__ = ["Worker", "WorkerError"]

_CHILD = Path(__file__).resolve().parent / "child"
START_SECONDS = 300.0
CASE_SECONDS = 10.0
FIRST_SECONDS = 120.0
"""The limit of the first case of a process, which imports the framework."""


class WorkerError(Exception):
    """The process does not start; the text says why."""


class _Running(NamedTuple):
    process: subprocess.Popen[str]
    answers: queue.Queue[str]
    log: IO[str]


class Worker:
    """A child process at a time, until `close`. `env`: the variables of the cell."""

    def __init__(
        self, python: str, shim: str, env: Dict[str, str], form: Optional[str] = None, child: Path = _CHILD
    ) -> None:
        self._command = [python, "-W", "ignore", str(child)]
        self._shim = shim
        self._form = form
        self._env = {**os.environ, **env, "ONNX_COMPAT_VERIFY": "1"}
        self._running: Optional[_Running] = None
        self._first = True

    def close(self) -> None:
        """End the process."""
        self._end()

    def run(self, path: Path, count: int) -> Iterator[Tuple[int, Outcome]]:
        """Run the `count` cases of a chunk. Return the index and the outcome of each."""
        start = 0
        while start < count:
            for index, outcome in self._run_from(path, start):
                yield index, outcome
                start = index + 1

    def run_case(self, case: Case) -> Outcome:
        """Run a single case."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "case.gz"
            write_chunk(path, [case])
            outcomes: List[Outcome] = [outcome for _, outcome in self.run(path, 1)]
        return outcomes[0]

    def _run_from(self, path: Path, start: int) -> Iterator[Tuple[int, Outcome]]:
        """Run cases until the last one, or until the process ends."""
        running = self._running or self._start()
        assert running.process.stdin is not None
        request = {"path": str(path), "start": start, "shim": self._shim, "form": self._form}
        index = start
        try:
            running.process.stdin.write(json.dumps(request) + "\n")
            running.process.stdin.flush()
            while True:
                line = running.answers.get(timeout=FIRST_SECONDS if self._first else CASE_SECONDS)
                if not line:
                    yield index, Outcome(DIED, self._describe_end(running))
                    return
                answer: Dict[str, Any] = json.loads(line)
                if "end" in answer:
                    return
                if "begin" in answer:
                    index = answer["begin"]
                else:
                    self._first = False
                    yield answer["index"], Outcome(answer["kind"], answer["detail"], answer["output"])
        except queue.Empty:
            self._end()
            yield index, Outcome(HUNG, "no answer after %g s" % (FIRST_SECONDS if self._first else CASE_SECONDS))
        except BrokenPipeError:
            yield index, Outcome(DIED, self._describe_end(running))

    def _start(self) -> _Running:
        self._first = True
        log = tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace")  # noqa: SIM115 - until _end
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
            env=self._env,
            cwd=_CHILD,  # never the root of the repository: its packages are not those of the wheels
            start_new_session=True,  # a process group, which ends with the process
        )
        answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(process, answers), daemon=True).start()
        running = self._running = _Running(process, answers, log)
        try:
            line = answers.get(timeout=START_SECONDS)
        except queue.Empty:
            self._end()
            raise WorkerError("the process did not start in %g s" % START_SECONDS) from None
        if not line:
            raise WorkerError(self._describe_end(running))
        return running

    def _describe_end(self, running: _Running) -> str:
        """Return how the process ended, with the last lines of its log."""
        code = running.process.wait()
        cause = signal.Signals(-code).name if code < 0 else "exit code %d" % code
        running.log.seek(0)
        lines = [line.strip() for line in running.log if line.strip()]
        self._end()
        return "the process died (%s)%s" % (cause, ": " + " / ".join(lines[-3:])[-300:] if lines else "")

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
    """Queue the lines of a process until it ends, then an empty line."""
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            answers.put(line)
    answers.put("")

"""Process in the environment of a cell that runs cases. A case in which it dies or hangs has an outcome, and the run continues."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

from matrix.fuzz.chunks import write_chunk
from matrix.fuzz.execution import DIED, HUNG, Outcome
from matrix.fuzz.graphs import Case
from matrix.line_process import LineProcess, NoAnswer

__all__ = ["Worker", "WorkerError"]

_CHILD = Path(__file__).resolve().parent / "child"
START_SECONDS = 300.0
CASE_SECONDS = 10.0
"""The limit of the processor time of a case."""
FIRST_SECONDS = 120.0
"""The limit of the first case of a process, which imports the framework."""
PATIENCE = 12
"""The factor of a limit for a process that uses little processor time, because it waits or the machine is busy."""


class WorkerError(Exception):
    """The process does not start; the text says why."""


class Worker:
    """Runs cases in a child process in the environment of a cell. A new process replaces a process that dies or hangs.

    - python: the interpreter of the cell.
    - shim: the name of the shim that runs the cases.
    - env: environment variables that are set in the process.
    - form: the format of the file that is written and run. None: the model is prepared in the process.
    - child: the folder whose `__main__.py` the process runs.

    The first run starts the process, and `close` ends it.
    """

    def __init__(
        self, python: str, shim: str, env: Dict[str, str], form: Optional[str] = None, child: Path = _CHILD
    ) -> None:
        self._command = [python, "-W", "ignore", str(child)]
        self._shim = shim
        self._form = form
        self._env = {**os.environ, "ONNX_COMPAT_VERIFY": "1", **env}
        self._running: Optional[LineProcess] = None
        self._first = True

    def close(self) -> None:
        """End the process, if it runs. The next run starts a new process."""
        running, self._running = self._running, None
        if running is not None:
            running.end()

    def run(self, path: Path, count: int, start: int = 0) -> Iterator[Tuple[int, Outcome]]:
        """Run the cases `start` to `count` - 1 of the chunk file `path`. Yield (index, outcome) of each case.

        A case in which the process dies or hangs has an outcome too; the next case then runs in a new process. Raises
        WorkerError if a process does not start.
        """
        while start < count:
            for index, outcome in self._run_from(path, start):
                yield index, outcome
                start = index + 1

    def run_case(self, case: Case) -> Outcome:
        """Run a single case, and return its outcome."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "case.gz"
            write_chunk(path, [case])
            outcomes: List[Outcome] = [outcome for _, outcome in self.run(path, 1)]
        return outcomes[0]

    def _run_from(self, path: Path, start: int) -> Iterator[Tuple[int, Outcome]]:
        """Run cases from `start` on, and yield (index, outcome) of each, until the last case or the end of the process.

        The outcome of a case that ends the process is DIED. A case without an answer in time is HUNG; its process is
        killed.
        """
        running = self._running or self._start()
        running.send(json.dumps({"path": str(path), "start": start, "shim": self._shim, "form": self._form}))
        index = start
        try:
            while True:
                line = _receive(running, FIRST_SECONDS if self._first else CASE_SECONDS)
                if not line:
                    self._running = None
                    yield index, Outcome(DIED, running.describe_end(count=3))
                    return
                answer: Dict[str, Any] = json.loads(line)
                if "end" in answer:
                    return
                if "begin" in answer:
                    index = answer["begin"]
                else:
                    self._first = False
                    yield answer["index"], Outcome(answer["kind"], answer["detail"], answer["output"])
        except NoAnswer as error:
            self.close()
            yield index, Outcome(HUNG, str(error))

    def _start(self) -> LineProcess:
        """Start a process, and return it. Raises WorkerError unless it writes a line within `START_SECONDS`."""
        self._first = True
        # Never in the root of the repository: its packages are not those of the wheels.
        running = self._running = LineProcess(self._command, self._env, _CHILD)
        try:
            line = running.receive(START_SECONDS)
        except NoAnswer:
            self.close()
            raise WorkerError("the process did not start in %g s" % START_SECONDS) from None
        if not line:
            self._running = None
            raise WorkerError(running.describe_end(count=3))
        return running


def _receive(running: LineProcess, seconds: float) -> str:
    """Return the next line of a process; "" if the process has ended.

    Raises NoAnswer if no line comes until the process has used `seconds` of processor time, or until `PATIENCE` times
    `seconds` have passed. Where the processor time is unknown, it waits `seconds`.
    """
    start = running.processor_seconds()
    for attempt in range(PATIENCE):
        try:
            return running.receive(seconds)
        except NoAnswer:
            if start is None or (running.processor_seconds() or 0) - start >= seconds or attempt == PATIENCE - 1:
                raise
    raise AssertionError("PATIENCE is at least 1")

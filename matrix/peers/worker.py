"""Worker that runs cases of a peer in a child process. If the process dies or hangs in a case, that case fails.

The worker then starts a new process for the next case.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Dict, Optional

from matrix.harness.run import FAIL
from matrix.harness.tally import Result
from matrix.line_process import LineProcess, NoAnswer
from matrix.peers.tools import Tool
from matrix.suites.cache import Case

__all__ = ["PeerError", "Worker"]

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 300.0


class PeerError(Exception):
    """The peer cannot run at all, for example because its import fails. The text says why."""


class Worker:
    """Runs cases in a child process, which it starts when needed.

    `about`: the packages and the Python of its environment.
    """

    def __init__(self, tool: Tool, seconds: float) -> None:
        """Store the arguments; start no process yet. `seconds`: the time limit of a case."""
        self._tool = tool
        self._seconds = seconds
        self._running: Optional[LineProcess] = None
        self._closed = False
        self._leaks = False
        self.about: Dict[str, Any] = {}

    def run(self, case: Case) -> Result:
        """Run a case and return its result. Raise PeerError if the child process cannot start.

        If the case fails and the tool keeps state between models, run it again in a new process, and return the second
        result. If that is no failure, its detail names the first failure.
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
        """Run a case in the running child process or a new one. The case fails if the process dies or does not answer
        in time.

        The result is returned.
        """
        running = self._running or self._start()
        running.send(json.dumps(case._asdict()))
        try:
            line = running.receive(self._seconds)
        except NoAnswer as error:
            self._end()
            return Result(case.id, FAIL, str(error), self._seconds)
        if not line:
            self._running = None
            return Result(case.id, FAIL, running.describe_end(), 0.0)
        answer = json.loads(line)
        return Result(case.id, answer["outcome"], answer["detail"], answer["seconds"])

    def close(self) -> None:
        """End the child process. Later calls of `run` raise PeerError."""
        self._closed = True
        self._end()

    def _start(self) -> LineProcess:
        """Start the child process, and wait until it has imported the tool. Return the process.

        Raise PeerError after `close`, and if the process ends or takes longer than `START_SECONDS`.
        """
        if self._closed:
            raise PeerError("interrupted")
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        tool = [self._tool.module, json.dumps(self._tool.options)]
        command = [sys.executable, "-W", "ignore", "-m", "matrix.peers.child", *tool]
        running = self._running = LineProcess(command, {**os.environ, "PYTHONPATH": path})
        try:
            line = running.receive(START_SECONDS)
        except NoAnswer:
            self._end()
            raise PeerError("%s: not imported after %g seconds" % (self._tool.module, START_SECONDS)) from None
        if not line:
            self._running = None
            raise PeerError("%s: %s" % (self._tool.module, running.describe_end()))
        greeting = json.loads(line)
        self.about, self._leaks = greeting["about"], greeting["leaks"]
        return running

    def _end(self) -> None:
        """Kill the child process, if it runs."""
        running, self._running = self._running, None
        if running is not None:
            running.end()

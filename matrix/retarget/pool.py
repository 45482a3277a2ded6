"""Child processes that work on tasks at the same time. A process that died or hung is started again."""

from __future__ import annotations

import json
import os
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Dict, Iterable, Iterator, List, Optional

from matrix.line_process import LineProcess, NoAnswer
from matrix.retarget.outcomes import CRASHED

__all__ = ["ask_all"]

SECONDS = 240.0
"""The time limit of a task."""

Answer = List[Any]


def ask_all(module: str, tasks: Iterable[Dict[str, Any]], jobs: int, seconds: float = SECONDS) -> Iterator[Answer]:
    """Call `examine` of a module for each task in child processes, and yield the results in the order of the tasks.

    - module: the name of a module of this package, such as "node_check".
    - tasks: the keyword arguments of each call.
    - jobs: the number of child processes.
    - seconds: the time limit of a call.

    If the process exceeds the limit or dies, the answer is [CRASHED, reason]. An exception in `examine` ends it too.
    """
    children: queue.SimpleQueue[_Child] = queue.SimpleQueue()
    everything = [_Child() for _ in range(jobs)]
    for child in everything:
        children.put(child)

    def ask(task: Dict[str, Any]) -> Answer:
        child = children.get()
        try:
            return child.ask({"module": module, **task}, seconds)
        finally:
            children.put(child)

    executor = ThreadPoolExecutor(jobs)
    try:
        yield from executor.map(ask, tasks)
    finally:
        executor.shutdown(cancel_futures=True)
        for child in everything:
            child.end()


class _Child:
    """Runs tasks in a child process, which is started for the first task, and again after it has died or hung."""

    def __init__(self) -> None:
        self._process: Optional[LineProcess] = None

    def ask(self, task: Dict[str, Any], seconds: float) -> Answer:
        """Return the answer of a task: [CRASHED, reason] if the process dies, or does not answer in time."""
        if self._process is None:
            self._process = LineProcess([sys.executable, "-m", "matrix.retarget.child"], dict(os.environ))
        self._process.send(json.dumps(task))
        try:
            text = self._process.receive(seconds)
        except NoAnswer as error:
            self.end()
            return [CRASHED, str(error)]
        if not text:
            detail = self._process.describe_end()
            self._process = None
            return [CRASHED, detail]
        answer: Answer = json.loads(text)
        return answer

    def end(self) -> None:
        """Kill the process, if it runs."""
        if self._process is not None:
            self._process.end()
            self._process = None

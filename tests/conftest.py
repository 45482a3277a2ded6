"""Plugins for all tests: a file with the progress of the run, a watchdog for tests that hang while they hold the GIL,
and the lock of a cell. Random generators are restored before each test. `matrix` and `benchmarks` are imported here from
their folders, for all tests.

ONNX_COMPAT_PROGRESS names the file. It gets a line of JSON with the number of tests, and a line for each test that
ends.
"""

import faulthandler
import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Optional, Set

import pytest

_ROOT = Path(__file__).parents[1]
_IMPORT_PACKAGE = runpy.run_path(str(_ROOT / "matrix" / "by_path.py"))["import_package"]
_IMPORT_PACKAGE(_ROOT / "matrix")
_IMPORT_PACKAGE(_ROOT / "benchmarks")

from matrix.harness.generators import keep_states, restore_states  # noqa: E402

#: Every program and every target graph of the tests is verified, also in the processes that they start.
os.environ["ONNX_COMPAT_VERIFY"] = "1"
#: pytest-timeout needs the interpreter's lock to end a worker; what holds it is ended from outside of it, a little later.
GRACE = 30.0


def _join_run(cell: str) -> Any:
    """Share the lock of the cell, and end with the parent process. Return the lock, which holds until this process ends."""
    from matrix.cell_lock import CellLock, end_with_parent

    end_with_parent()
    lock = CellLock(cell)
    lock.share()
    return lock


def _choose_gpu(gpus: str, worker: str) -> Optional[str]:
    """Return the GPU of a worker of pytest-xdist, `gw3`. None: there are no GPUs, or this is no worker."""
    names = gpus.split(",") if gpus else []
    return names[int(worker[2:]) % len(names)] if names and worker else None


# Before a framework is imported: it sees one GPU, and uses it.
_GPU = _choose_gpu(os.environ.get("ONNX_COMPAT_GPUS", ""), os.environ.get("PYTEST_XDIST_WORKER", ""))
if _GPU is not None:
    os.environ["CUDA_VISIBLE_DEVICES"] = _GPU
_LOCK = _join_run(os.environ["ONNX_COMPAT_CELL"]) if "ONNX_COMPAT_CELL" in os.environ else None


class Watch:
    """Writes the progress file: counts the tests that have ended, in all workers."""

    def __init__(self, path: Optional[str]) -> None:
        self.total = 0
        self._ended: Set[str] = set()
        self._started: Dict[str, float] = {}
        self._file: Optional[IO[str]] = open(path, "w", encoding="utf-8") if path else None  # noqa: SIM115 (open until the last test)

    @property
    def missing(self) -> int:
        """Return the number of collected tests that have not run."""
        return self.total - len(self._ended)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: List[str]) -> None:
        self._set_total(len(ids))

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # not where workers collect
            self._set_total(len(session.items))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._started[nodeid] = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_handlecrashitem(self, crashitem: str, report: Any) -> None:
        """Set the message for a worker that died in a test. The run time of the test tells a crash from the time limit."""
        seconds = time.monotonic() - self._started.get(crashitem, time.monotonic())
        report.longrepr = "its process ended after %.0f s: it crashed, or ran into the limit of a test" % seconds

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = _outcome(report)
        if outcome:
            self._ended.add(report.nodeid)
            reason = str(report.longrepr).strip().splitlines()[-1:] if outcome == "failed" else []
            self._write({"id": report.nodeid, "outcome": outcome, "reason": "".join(reason)})

    def _set_total(self, total: int) -> None:
        if total != self.total:
            self.total = total
            self._write({"tests": total})

    def _write(self, line: Dict[str, Any]) -> None:
        if self._file:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def pytest_collection_finish() -> None:
    keep_states()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    restore_states()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        config.pluginmanager.register(Limit(), "limit")
    else:
        config.pluginmanager.register(Watch(os.environ.get("ONNX_COMPAT_PROGRESS")), "watch")


def _outcome(report: Any) -> str:
    """Return the outcome of a test, from the report that decides it; "" for its other reports."""
    if report.failed:  # in any phase; "???" is the phase of a test that ended its worker
        return "failed"
    if report.when == "call" or (report.when == "setup" and report.skipped):
        return "xfailed" if hasattr(report, "wasxfail") else str(report.outcome)
    return ""


class Limit:
    """Watchdog: ends a worker whose test holds the GIL for longer than the time limit of the test."""

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        seconds = _limit(item)
        if seconds:
            faulthandler.dump_traceback_later(seconds + GRACE, exit=True, file=sys.__stderr__)
        yield
        faulthandler.cancel_dump_traceback_later()


def _limit(item: pytest.Item) -> float:
    marker = item.get_closest_marker("timeout")
    limit = marker.args[0] if marker and marker.args else item.config.getoption("timeout", None)
    return float(limit or 0)

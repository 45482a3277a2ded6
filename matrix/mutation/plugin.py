"""pytest plugin for mutation testing: it collects the tests once, and runs some of them in forked processes.

The process that collects the tests runs none of them. So each forked process starts with imported modules and with
empty caches.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import pytest

from matrix.mutation.mutants import Mutant, compile_mutant

__all__ = ["KILLED", "LIVES", "NOT_APPLIED", "Module", "Runner", "Trace"]

LIVES, KILLED, NOT_APPLIED = "lives", "killed", "not applied"
_FAILED = 10  # exit codes of a forked process
_UNAPPLIED = 11
_LEAST_SECONDS = 5.0  # the limit of a test is at least this, and at least ten times its duration
_MOST_MEMORY = 8 * 2**30
_MONITOR = 4  # a free number among the tools of sys.monitoring


class Module(NamedTuple):
    """A module to mutate: its import name, its path and its source text."""

    name: str
    path: str
    source: str


class Trace(NamedTuple):
    """The result of one run of all tests without a mutant.

    `lines`: "path:line" -> the tests that execute the line. `seconds`: test -> duration. `failed`: tests that fail. A
    test is named by its pytest id.
    """

    lines: dict[str, list[str]]
    seconds: dict[str, float]
    failed: list[str]


_Functions = dict[tuple[str, str, int], list[FunctionType]]


class _Job(NamedTuple):
    """A mutant that a forked process runs.

    - number: the index of the mutant in the run.
    - module, mutant: the mutant, and the module that it changes.
    - functions: the function objects that it changes.
    - tests: the names of its tests, in the order in which they run.
    - pipe: (read end, write end). The process writes the name of the test that failed, or nothing.
    """

    number: int
    module: Module
    mutant: Mutant
    functions: list[FunctionType]
    tests: list[str]
    pipe: tuple[int, int]


class Runner:
    """pytest plugin that calls `work(runner)` in place of the run of the tests, after pytest has collected them.

    `work` calls `trace` and `run`. `jobs`: the number of forked processes that run mutants at a time.
    """

    def __init__(self, work: Callable[[Runner], None], jobs: int) -> None:
        self._work = work
        self._jobs = jobs
        self._items: dict[str, pytest.Item] = {}
        self._reports: list[pytest.TestReport] = []
        self._kills: dict[str, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self) -> None:
        # The same examples each time, and none of a mutant stored for the next run of the tests.
        from hypothesis import settings

        settings.register_profile("mutation", derandomize=True, database=None, deadline=None)
        settings.load_profile("mutation")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self._items = {item.nodeid: item for item in session.items}
        self._work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.append(report)

    def trace(self, modules: Sequence[Module], path: Path) -> None:
        """Run all tests in a forked process.

        Write a Trace of the lines of `modules` that each test executes to `path`, as JSON. Raises RuntimeError if the
        process fails.
        """
        process = _fork(lambda: self._trace(modules, path))
        if os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]):
            raise RuntimeError("the process that ran all tests has crashed")

    def _trace(self, modules: Sequence[Module], path: Path) -> int:
        """Run all tests in this process, and write the Trace. Return 0, the exit code of the process."""
        monitoring = _load_monitoring()
        lines: dict[str, list[str]] = {}
        seconds, failed, seen = {}, [], set()

        def note(code: CodeType, line: int) -> Any:
            seen.add(f"{code.co_filename}:{line}")
            return monitoring.DISABLE  # until the next test

        monitoring.use_tool_id(_MONITOR, "mutation")
        monitoring.register_callback(_MONITOR, monitoring.events.LINE, note)
        for functions in live_functions(modules).values():
            for code in _codes(functions[0].__code__):
                monitoring.set_local_events(_MONITOR, code, monitoring.events.LINE)
        for name in self._items:
            monitoring.restart_events()
            seen.clear()
            start = time.monotonic()
            if not self._passes(name):
                failed.append(name)
            seconds[name] = time.monotonic() - start
            for line in seen:
                lines.setdefault(line, []).append(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(Trace(lines, seconds, failed)._asdict()), encoding="utf-8")
        return 0

    def run(self, mutants: Sequence[tuple[Module, Mutant]], trace: Trace, limit: float) -> Iterator[str]:
        """Yield the outcome of each mutant, in order: LIVES, KILLED or NOT_APPLIED.

        A forked process for each mutant runs the tests that execute the lines of the mutant, until a test fails.

        - KILLED: a test fails, ends the process, or hangs for 10 times its duration in `trace`, at least 5 seconds.
        - LIVES: no test fails. After `limit` seconds, no further test is started; the running test still counts.
        - NOT_APPLIED: Python refuses the code of the mutant, or no function object has it (see `_apply`).
        """
        functions = live_functions([module for module, _ in mutants])
        running: dict[int, _Job] = {}
        outcomes: dict[int, str] = {}
        waiting = list(enumerate(mutants))[::-1]
        for number in range(len(mutants)):
            while number not in outcomes:
                while waiting and len(running) < self._jobs:
                    job = self._job(*waiting.pop(), functions, trace)
                    running[self._start(job, trace, limit)] = job
                process, status = os.wait()
                if process in running:
                    job = running.pop(process)
                    outcomes[job.number] = self._outcome(job, status)
            yield outcomes[number]

    def _job(self, number: int, change: tuple[Module, Mutant], functions: _Functions, trace: Trace) -> _Job:
        """Return the job of a mutant, with a new pipe. `functions`: the result of `live_functions`."""
        module, mutant = change
        live = functions.get((module.path, *mutant.function), [])
        return _Job(number, module, mutant, live, self._tests(module, mutant, trace), os.pipe())

    def _tests(self, module: Module, mutant: Mutant, trace: Trace) -> list[str]:
        """Return the names of the tests that execute a mutant, in the order in which they should run.

        The tests that killed most mutants in this run come first; among equals, the fast tests.
        """
        names = {name for line in mutant.lines for name in trace.lines.get(f"{module.path}:{line}", ())}
        return sorted(names & set(self._items), key=lambda name: (-self._kills.get(name, 0), trace.seconds[name], name))

    def _start(self, job: _Job, trace: Trace, limit: float) -> int:
        """Fork a process that applies a mutant, and runs its tests until a test fails. Return the process id.

        The exit code is 0, `_FAILED` or `_UNAPPLIED`. An alarm ends the process if a test hangs. After `limit` seconds,
        no further test is started.
        """

        def work() -> int:
            if not _apply(job):
                return _UNAPPLIED
            resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
            end = time.monotonic() + limit
            for name in job.tests:
                # The default action of the signal ends the process: no test can catch it.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, max(_LEAST_SECONDS, 10 * trace.seconds[name]))
                if not self._passes(name):
                    os.write(job.pipe[1], name.encode())
                    return _FAILED
                if time.monotonic() > end:
                    break
            return 0

        process = _fork(work)
        os.close(job.pipe[1])
        return process

    def _outcome(self, job: _Job, status: int) -> str:
        """Return the outcome of a job whose process has ended with this wait status.

        If a test failed, the kill is counted for this test.
        """
        with os.fdopen(job.pipe[0], encoding="utf-8") as pipe:
            killer = pipe.read()
        if killer:
            self._kills[killer] = self._kills.get(killer, 0) + 1
        return {0: LIVES, _UNAPPLIED: NOT_APPLIED}.get(os.waitstatus_to_exitcode(status), KILLED)

    def _passes(self, name: str) -> bool:
        """Run a test in this process. Return whether its setup, call and teardown succeed."""
        self._reports.clear()
        item = self._items[name]
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return not any(report.failed for report in self._reports)


def live_functions(modules: Sequence[Module]) -> _Functions:
    """Return (path, qualified name, first line) -> the function objects of the modules that exist in this process."""
    paths = {module.path for module in modules}
    match: _Functions = {}
    for value in gc.get_objects():
        if type(value) is FunctionType and value.__code__.co_filename in paths:
            code = value.__code__
            match.setdefault((code.co_filename, code.co_qualname, code.co_firstlineno), []).append(value)
    return match


def _load_monitoring() -> Any:
    """Return `sys.monitoring`. Raise RuntimeError on a Python without it."""
    monitoring = getattr(sys, "monitoring", None)
    if monitoring is None:
        raise RuntimeError("mutation testing needs Python 3.12 or newer: run `nox -s mutation`")
    return monitoring


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object, and the code objects of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _apply(job: _Job) -> bool:
    """Give the function objects of a job the code of its mutant. Return whether this succeeded.

    It fails if there is no function object, or if Python refuses the code: it then reads other variables of an outer
    function (closure).
    """
    compiled = compile_mutant(job.module.source, job.mutant, job.module.path)
    name, first = job.mutant.function
    changed = next(code for code in _codes(compiled) if (code.co_qualname, code.co_firstlineno) == (name, first))
    try:
        for function in job.functions:
            function.__code__ = changed
    except ValueError:
        return False
    return bool(job.functions)


def _fork(work: Callable[[], int]) -> int:
    """Fork a process that runs `work` with its output discarded. Return the process id.

    The exit code of the process is the result of `work`, or 1 if `work` raises an exception.
    """
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        silent = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silent, 1)
        os.dup2(silent, 2)
        code = work()
    finally:
        os._exit(code)

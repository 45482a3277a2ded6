"""Mutate modules of the core, and report the mutants that no test of tests/core kills.

python -m matrix.mutation [--sample N] [--trace FILE] [MODULE ...] [--tests PATH ...]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

from matrix.data import ROOT
from matrix.mutation.mutants import Mutant, find_mutants
from matrix.mutation.plugin import KILLED, LIVES, Module, Runner, Trace

MODULES = [
    "onnx_compat.execution.feeds",
    "onnx_compat.execution.partition",
    "onnx_compat.ir.dims",
    "onnx_compat.passes.weight_folding",
    "onnx_compat.primitives.rules",
    "onnx_compat.primitives.shape",
    "onnx_compat.tracing.interpreter",
    "onnx_compat.tracing.layout",
    "onnx_compat.tracing.sign_analysis",
]
FLOOR = 85
"""The percentage of mutants that tests must kill, in each module."""
TESTS = "tests/core"


def main(arguments: list[str] | None = None) -> int:
    """Run the mutants of the modules, and print those that no test kills.

    Return 1 if the tests kill less than 85 % of the mutants of a module, else 0. If pytest fails, return its exit code.
    """
    parser = argparse.ArgumentParser(prog="python -m matrix.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="mutants of each module; all by default")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--limit", type=float, default=120, help="seconds for the tests of a mutant")
    parser.add_argument("--trace", type=Path, help="a file that keeps the lines of each test for the next run")
    parser.add_argument("--tests", nargs="+", default=[str(ROOT / TESTS)], help=f"tests to run; {TESTS} by default")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help=f"all by default: {', '.join(MODULES)}")
    options = parser.parse_args(arguments)
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = (
        "1"  # a process with threads must not be forked
    )
    names = options.modules or MODULES
    modules = [_load(name) for name in names]
    chosen = [(module, mutant) for module in modules for mutant in sample_mutants(module, options.sample, options.seed)]
    outcomes: list[str] = []
    trace = options.trace or ROOT / "results" / "mutation" / "trace.json"

    def work(runner: Runner) -> None:
        if options.trace is None or not trace.exists():
            runner.trace(modules, trace)
        lines = Trace(**json.loads(trace.read_text(encoding="utf-8")))
        if lines.failed:
            raise RuntimeError("these tests fail without a mutant: %s" % ", ".join(lines.failed))
        for outcome in runner.run(chosen, lines, options.limit):
            if outcome == LIVES:
                _print_mutant(*chosen[len(outcomes)])
            outcomes.append(outcome)

    quiet = ["-qq", "-s", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-p", "no:xdist"]
    status = pytest.main([*options.tests, *quiet], plugins=[Runner(work, options.jobs)])
    if status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        return int(status)
    return report(chosen, outcomes)


def report(mutants: list[tuple[Module, Mutant]], outcomes: list[str]) -> int:
    """Print the percentage of killed mutants of each module. Return 1 if a percentage is below FLOOR, else 0.

    `outcomes`: the outcome of each of `mutants`, in order. Mutants that were not applied do not count.
    """
    counts: dict[str, Counter[str]] = {}
    for (module, _), outcome in zip(mutants, outcomes, strict=True):
        counts.setdefault(module.name, Counter())[outcome] += 1
    low = []
    for name, count in counts.items():
        total = count[KILLED] + count[LIVES]
        share = 100 * count[KILLED] / total if total else 100.0
        print(f"{name}: {count[KILLED]} of {total} mutants killed, {share:.1f} %")
        if share < FLOOR:
            low.append(name)
    if low:
        print(f"Below {FLOOR} %: {', '.join(low)}. Add tests to {TESTS} that fail with the mutants above.")
    return 1 if low else 0


def _load(name: str) -> Module:
    path = importlib.import_module(name).__file__
    assert path is not None
    return Module(name, path, Path(path).read_text(encoding="utf-8"))


def sample_mutants(module: Module, count: int, seed: int) -> list[Mutant]:
    """Return `count` mutants of a module, chosen at random by `seed`, in the order of its lines.

    `count` 0: all mutants.
    """
    mutants = find_mutants(module.source)
    if not count or count >= len(mutants):
        return mutants
    return sorted(random.Random(f"{module.name} {seed}").sample(mutants, count))  # noqa: S311 (no secret)


def _print_mutant(module: Module, mutant: Mutant) -> None:
    """Print the file, the line and the change of a mutant that no test kills."""
    index = f"{module.name.replace('.', '/')}.py:{mutant.line}"
    change = f"{mutant.before}  =>  {mutant.after}"
    print(f"{index}: {mutant.operator} in {mutant.function[0]}: {change}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m matrix.fuzz --python CELL=INTERPRETER … [--minutes N] [--graphs N] [--seed S] [--form FORMAT]`.

With `--damage KIND`, the inputs are damaged files and models instead of valid graphs: see `matrix.fuzz.damage`. With
`--report`, print the ledger; with `--again`, run the graphs that failed before.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, List, Optional
from typing import Counter as CounterType

from matrix import cells
from matrix.data import REFERENCE, ROOT, load
from matrix.fuzz.campaign import (
    CHUNK,
    Counts,
    Failure,
    Target,
    find_graph,
    generator_digest,
    make_chunk,
    run_chunk,
    write_failure,
)
from matrix.fuzz.damage.campaign import BATCH, has_failures, run_campaign
from matrix.fuzz.damage.kinds import KINDS
from matrix.fuzz.execution import FAILURES, FORMS
from matrix.fuzz.ledger import Ledger, format_report, needs_rerun, tested_revision
from matrix.fuzz.worker import Worker

CASES = ROOT / "results" / "fuzz"
"""Folder of the shrunk cases. A case that is mended moves to tests/fuzz/cases."""
_NOTE_SECONDS = 30.0
"""The longest time between two changes of the ledger by damaged inputs."""


def main(arguments: Optional[List[str]] = None) -> int:
    """Run random graphs or damaged inputs in cells, and print the outcomes. Return 1 if one of them failed, else 0.

    With `--report`, only print the ledgers, and return 0.
    """
    options = make_parser().parse_args(arguments)
    if options.report:
        print(format_report())
        return 0
    targets = [_target(text, options.form) for text in options.python]
    if options.damage:
        return _damage(targets, options)
    counts = {target.cell: Counts() for target in targets}
    run = _run_again if options.again else _run
    run(targets, counts, options)
    for target in targets:
        result = counts[target.cell]
        print("%s: %d graphs, %s" % (target.cell, sum(result.outcomes.values()), dict(result.outcomes)))
        for name in ("unused", "refused", "fallbacks"):
            reasons: CounterType[str] = getattr(result, name)
            for reason, count in reasons.most_common(20):
                print("  %s: %d: %s" % (name, count, reason))
    return int(any(result.outcomes[kind] for result in counts.values() for kind in FAILURES))


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(prog="python -m matrix.fuzz", description="Compare shims on random graphs.")
    parser.add_argument("--python", action="append", default=[], metavar="CELL=INTERPRETER", help="an environment")
    parser.add_argument("--minutes", type=float, help="stop after this time; without it, after --graphs")
    parser.add_argument("--graphs", type=int, default=CHUNK, help="inputs for each cell, if there is no --minutes")
    parser.add_argument(
        "--seed", type=int, help="the first seed; the ledger stays as it is. Default: the next unused seed"
    )
    parser.add_argument("--form", choices=sorted(FORMS), help="convert to a file and run the file")
    parser.add_argument("--damage", choices=sorted(KINDS), metavar="KIND", help="damage inputs: %s" % ", ".join(KINDS))
    parser.add_argument("--again", action="store_true", help="run what failed, and correct the ledger")
    parser.add_argument("--report", action="store_true", help="print what the ledger holds, and run nothing")
    parser.add_argument("--no-shrink", action="store_true", help="only count")
    parser.add_argument("--out", type=Path, default=CASES, help="the folder of the shrunk cases")
    return parser


def _target(text: str, form: Optional[str]) -> Target:
    """Return the target of a text `CELL=INTERPRETER`. `form`: the format of the files; None: no files."""
    matrix = load()
    id_, _, python = text.partition("=")
    if id_ == REFERENCE:
        return Target(REFERENCE, REFERENCE, python or sys.executable, {}, form)
    cell = matrix.cells[id_]
    return Target(cell.id, cell.shim, python, cells.environment(matrix, cell), form)


def _run(targets: List[Target], counts: Dict[str, Counts], options: argparse.Namespace) -> None:
    """Run chunk after chunk, each in all cells. Add the outcomes to `counts`, and report the failures.

    A cell starts at its next unused seed and adds its seeds to the ledger. With `--seed`, it starts there and leaves
    the ledger as it is. The run ends after `--minutes`, or after `--graphs` seeds in each cell.
    """
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    code = {"revision": tested_revision(), "generator": generator_digest()}
    ledgers = {target.cell: Ledger(target.cell) for target in targets}
    first = {
        target.cell: ledgers[target.cell].next_seed(target.kind) if options.seed is None else options.seed
        for target in targets
    }
    limit = {cell: sys.maxsize if options.minutes else seed + options.graphs for cell, seed in first.items()}
    with contextlib.ExitStack() as stack:
        workers = {
            target.cell: stack.enter_context(
                contextlib.closing(Worker(target.python, target.shim, target.env, target.form))
            )
            for target in targets
        }
        while time.monotonic() < end and any(first[cell] < limit[cell] for cell in first):
            for target in targets:
                seed = first[target.cell]
                count = min(CHUNK - seed % CHUNK, limit[target.cell] - seed)  # cells share the file of a chunk
                if count <= 0 or time.monotonic() > end:
                    continue
                path, unused = make_chunk(seed, count)
                result = run_chunk(path, workers[target.cell], counts[target.cell], lambda: time.monotonic() > end)
                last = seed + count - 1 if result.is_complete else result.last
                if options.seed is None and last is not None:
                    failed = {case.seed: outcome.kind for case, outcome in result.failures}
                    ledgers[target.cell].add(target.kind, code, (seed, last), result.outcomes, failed)
                counts[target.cell].unused.update(unused)
                text = "%s: seeds %d to %s: %s"
                print(text % (target.cell, seed, last, dict(result.outcomes)), flush=True)
                _write_failures(target, result.failures, counts[target.cell], options)
                first[target.cell] = seed + count


def _run_again(targets: List[Target], counts: Dict[str, Counts], options: argparse.Namespace) -> None:
    """Run the failed graphs of this generator again, and replace their outcomes in the ledger.

    The outcomes are also added to `counts`, and the failures are reported (see `_write_failures`).
    """
    for target in targets:
        ledger = Ledger(target.cell)
        with contextlib.closing(Worker(target.python, target.shim, target.env, target.form)) as worker:
            for seed, generator in ledger.failed_seeds(target.kind):
                path = find_graph(seed, generator)
                if path is None:
                    print("%s: seed %d: run it at the revision of its entry first" % (target.cell, seed), flush=True)
                    continue
                result = run_chunk(path, worker, counts[target.cell])
                (outcome,) = result.outcomes
                ledger.correct(target.kind, seed, outcome)
                _write_failures(target, result.failures, counts[target.cell], options)


def _write_failures(target: Target, failures: List[Failure], counts: Counts, options: argparse.Namespace) -> None:
    """Print each failure. Unless `--no-shrink`, also shrink it and write it to `--out`, if it was not seen before."""
    for case, outcome in failures:
        print("%s: seed %d: %s: %s" % (target.cell, case.seed, outcome.kind, outcome.detail), flush=True)
        if not options.no_shrink:
            file = write_failure(target, case, outcome, options.out, counts)
            print("  %s" % (file or "seen before"), flush=True)


def _damage(targets: List[Target], options: argparse.Namespace) -> int:
    """Run a campaign over damaged inputs in each cell, and print the outcomes. Return 1 if an input failed, else 0."""
    result = 0
    for target in targets:
        if not KINDS[options.damage].is_read_by(target.shim):
            print("%s: %s: the shim reads no such files" % (target.cell, options.damage), flush=True)
            continue
        run = _damage_again if options.again else _damage_next
        counts = run(target, options)
        print("%s: %s: %d inputs, %s" % (target.cell, options.damage, sum(counts.values()), dict(counts)), flush=True)
        result = 1 if has_failures(counts) else result
    return result


def _damage_next(target: Target, options: argparse.Namespace) -> CounterType[str]:
    """Run the next unused batches of a cell, or those from `--seed` on. Return the outcomes with their counts."""
    notes = _DamageNotes(target.cell, options.damage, options.seed)
    try:
        return _run_batches(target, options, notes.first, options.graphs, options.minutes, notes.add)
    finally:
        notes.write()


def _damage_again(target: Target, options: argparse.Namespace) -> CounterType[str]:
    """Run the batches of a cell that failed, and replace their counts in the ledger. Return the sum of the counts."""
    ledger = Ledger(target.cell)
    sums: CounterType[str] = Counter()
    for first, last in ledger.failed_batches(options.damage):
        counts = _run_batches(target, options, first, BATCH * (last + 1 - first))
        ledger.replace(options.damage, {"revision": tested_revision()}, (first, last), counts)
        sums.update(counts)
    return sums


def _run_batches(
    target: Target,
    options: argparse.Namespace,
    first: int,
    inputs: int,
    minutes: Optional[float] = None,
    note: Callable[[int, CounterType[str]], None] = lambda batch, counts: None,
) -> CounterType[str]:
    """Run batches of damaged inputs in the environment of a target, and return outcome -> number of inputs.

    - first: the number of the first batch.
    - inputs: the number of inputs, unless `minutes` is given.
    - minutes: the time limit; None: no limit.
    - note: a function that is called after each batch, with its number and the counts of its outcomes.

    Failed inputs are stored in a folder of `--out`.
    """
    folder = options.out / "damage" / options.damage / target.cell
    return run_campaign(
        target.python, target.shim, target.env, options.damage, first, folder, inputs, minutes, note=note
    )


class _DamageNotes:
    """Collects the outcomes of batches of damaged inputs, and writes them to the ledger of a cell.

    - kind: the kind of the inputs.
    - seed: the first batch; then nothing is written. None: the first batch is that after the last batch in the ledger.
    - first: the first batch that is not written yet.
    """

    def __init__(self, cell: str, kind: str, seed: Optional[int]) -> None:
        self._ledger = Ledger(cell) if seed is None else None
        self._kind = kind
        self._code = {"revision": tested_revision()}
        self.first = self._ledger.next_seed(kind) if self._ledger is not None else int(seed or 0)
        self._next = self.first
        self._counts: CounterType[str] = Counter()
        self._written = time.monotonic()

    def add(self, batch: int, counts: CounterType[str]) -> None:
        """Count the outcomes of a batch. Write the ledger if the last write was more than 30 seconds ago.

        A batch that needs another run has an entry of its own, which is written at once.
        """
        is_apart = needs_rerun(counts)
        if is_apart:
            self.write()
        self._counts.update(counts)
        self._next = batch + 1
        if is_apart or time.monotonic() > self._written + _NOTE_SECONDS:
            self.write()

    def write(self) -> None:
        """Write the added batches to the ledger, if there are any and no seed was given."""
        if self._ledger is not None and self._next > self.first:
            self._ledger.add(self._kind, self._code, (self.first, self._next - 1), self._counts)
        self.first, self._counts, self._written = self._next, Counter(), time.monotonic()


if __name__ == "__main__":
    sys.exit(main())

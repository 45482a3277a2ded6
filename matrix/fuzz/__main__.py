"""`python -m matrix.fuzz --python CELL=INTERPRETER … [--minutes N] [--graphs N] [--seed S] [--form FORMAT]`.

With `--damage KIND`, the inputs are damaged files and models instead of valid graphs: see `matrix.fuzz.damage`.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Dict, List, Optional

from matrix import cells
from matrix.data import REFERENCE, ROOT, load
from matrix.fuzz.campaign import CHUNK, Counts, Target, make_chunk, run_chunk, write_failure
from matrix.fuzz.damage.campaign import has_failures, run_campaign
from matrix.fuzz.damage.kinds import KINDS
from matrix.fuzz.execution import FORMS
from matrix.fuzz.record import write_record
from matrix.fuzz.worker import Worker

CASES = ROOT / "results" / "fuzz"
"""Folder of the shrunk cases. A case that is mended moves to tests/fuzz/cases."""


def main(arguments: Optional[List[str]] = None) -> int:
    """Run campaigns in cells, of random graphs or of damaged inputs. Return 1 if a graph or an input failed, else 0."""
    options = make_parser().parse_args(arguments)
    targets = [_target(text, options.form) for text in options.python]
    if options.damage:
        return _damage(targets, options)
    counts = {target.cell: Counts() for target in targets}
    seeds = _run(targets, counts, options)
    failed = False
    for target in targets:
        result = counts[target.cell]
        print("%s: %d graphs, %s" % (target.cell, sum(result.outcomes.values()), dict(result.outcomes)))
        failed = failed or bool(result.failures)
        if options.record:
            print("wrote %s" % write_record(target, options.seed, seeds, result))
    return 1 if failed else 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(prog="python -m matrix.fuzz", description="Compare shims on random graphs.")
    parser.add_argument("--python", action="append", default=[], metavar="CELL=INTERPRETER", help="an environment")
    parser.add_argument("--minutes", type=float, help="stop after this time; without it, after --graphs")
    parser.add_argument("--graphs", type=int, default=CHUNK, help="seeds for each cell, if there is no --minutes")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--form", choices=sorted(FORMS), help="convert to a file and run the file")
    parser.add_argument("--damage", choices=sorted(KINDS), metavar="KIND", help="damage inputs: %s" % ", ".join(KINDS))
    parser.add_argument("--no-shrink", action="store_true", help="only count")
    parser.add_argument("--record", action="store_true", help="write matrix/results/fuzz/<cell>.json")
    parser.add_argument("--out", type=Path, default=CASES, help="the folder of the shrunk cases")
    return parser


def _damage(targets: List[Target], options: argparse.Namespace) -> int:
    """Run a campaign over damaged inputs in each cell. Return 1 if an input failed, else 0."""
    result = 0
    for target in targets:
        folder = options.out / "damage" / options.damage / target.cell
        counts = run_campaign(
            target.python,
            target.shim,
            target.env,
            options.damage,
            options.seed,
            folder,
            options.graphs,
            options.minutes,
        )
        print("%s: %s: %d inputs, %s" % (target.cell, options.damage, sum(counts.values()), dict(counts)), flush=True)
        result = 1 if has_failures(counts) else result
    return result


def _target(text: str, form: Optional[str]) -> Target:
    matrix = load()
    id_, _, python = text.partition("=")
    if id_ == REFERENCE:
        return Target(REFERENCE, REFERENCE, python or sys.executable, {}, form)
    cell = matrix.cells[id_]
    return Target(cell.id, cell.shim, python, cells.environment(matrix, cell), form)


def _run(targets: List[Target], counts: Dict[str, Counts], options: argparse.Namespace) -> int:
    """Run chunk after chunk, each in all cells, and add the outcomes to `counts`. Return the number of seeds.

    Failures are printed and, unless `options.no_shrink`, written to the folder `options.out`.
    """
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    workers = {target.cell: Worker(target.python, target.shim, target.env, target.form) for target in targets}
    first: int = options.seed
    try:
        while time.monotonic() < end and (options.minutes or first < options.seed + options.graphs):
            count = CHUNK if options.minutes else min(CHUNK, options.seed + options.graphs - first)
            path, unused = make_chunk(first, count)
            for target in targets:
                result = counts[target.cell]
                result.unused.update(unused)
                for case, outcome in run_chunk(path, workers[target.cell], result, lambda: time.monotonic() > end):
                    print("%s: seed %d: %s: %s" % (target.cell, case.seed, outcome.kind, outcome.detail), flush=True)
                    if not options.no_shrink:
                        file = write_failure(target, case, outcome, options.out, result)
                        print("  %s" % (file or "seen before"), flush=True)
                text = "%s: seeds %d to %d: %s"
                print(text % (target.cell, first, first + count - 1, dict(result.outcomes)), flush=True)
            first += count
    finally:
        for worker in workers.values():
            worker.close()
    return first - int(options.seed)


if __name__ == "__main__":
    sys.exit(main())

"""`python -m matrix.retarget [--row NAME ...] [--record]`: measure rows of the table in docs/retarget.md.

Each row has options of its own. `--record` stores the figures, and renders the page.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Dict, List, Optional

from matrix.data import ROOT
from matrix.retarget import store
from matrix.retarget.outcomes import CONVERTERS
from matrix.retarget.page import PAGE, render_page
from matrix.retarget.result import Measure, Result
from matrix.revision import revision_apart_from

RESULTS = Path("results") / "retarget.json"
ROWS = ("nodes", "networks", "suites", "round_trip", "speed")


def main(arguments: Optional[List[str]] = None) -> int:
    """Measure the chosen rows, and write results/retarget.json after each row. Return 1 if an aim is missed, else 0.

    `arguments`: the arguments of the command line; None: those of this process. With `--record`, the figures are
    stored, and docs/retarget.md is rendered.
    """
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.record and (options.every > 1 or options.case):
        parser.error("--record stores the figures of all cases: leave --every and --case out")
    results: Dict[str, Result] = {}
    for row in options.row or ROWS:
        print("-- %s" % row, flush=True)
        measure: Measure = importlib.import_module("matrix.retarget." + row).measure
        results[row] = measure(options)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps({name: vars(result) for name, result in results.items()}, indent=1), "utf-8")
        if options.record:
            revision = revision_apart_from(PAGE, store.MEASURED.relative_to(ROOT))
            store.record(row, results[row], revision)
            (ROOT / PAGE).write_text(render_page(), encoding="utf-8")
    misses = ["%s: %s" % (row, text) for row, result in results.items() for text in result.misses]
    print("\n".join(["", *(misses or ["every aim is reached"])]))
    return 1 if misses else 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python -m matrix.retarget", description=__doc__)
    parser.add_argument("--row", action="append", choices=ROWS, help="by default all rows")
    parser.add_argument("--record", action="store_true", help="store the figures, and render %s" % PAGE)
    parser.add_argument("--jobs", type=int, default=2, help="the number of processes")
    parser.add_argument("--every", type=int, default=1, help="only every Nth case")
    parser.add_argument("--case", default="", help="only cases and networks whose name contains this text")
    parser.add_argument("--opset", type=int, action="append", help="nodes, networks: a target; by default several")
    parser.add_argument("--converter", action="append", choices=[*CONVERTERS], help="nodes: by default all")
    parser.add_argument("--suite", action="append", help="round_trip: a suite, or suite/release; by default all")
    parser.add_argument("--no-real", action="store_true", help="networks: only those that the zoo exports")
    parser.add_argument("--onnx", type=Path, help="suites: a source tree of onnx; by default its sdist is fetched")
    parser.add_argument("--onnxscript", type=Path, help="suites: a source tree of onnxscript, likewise")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""`python -m matrix.retarget [--every N] [--opset N ...] [--converter NAME ...] [--case TEXT]`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from matrix.line_process import LineProcess, NoAnswer
from matrix.retarget.child import CONVERTERS, OUTCOMES, RIGHT, UNTYPED, WRONG
from matrix.suites.cache import Case, read_index

OPSETS = (9, 11, 13, 15, 17, 18, 21, 23, 25)
RESULTS = Path("results") / "retarget.json"
CASE_SECONDS = 120.0
CRASHED = "crashed"

Key = Tuple[str, int]


def main(arguments: Optional[List[str]] = None) -> int:
    """Measure the converters, print a table, and write results/retarget.json.

    Return 1 if onnx-compat gives a wrong result, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m matrix.retarget", description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="only every Nth case")
    parser.add_argument("--opset", type=int, action="append", help="a target; by default nine of them")
    parser.add_argument("--converter", action="append", choices=[*CONVERTERS], help="by default all")
    parser.add_argument("--case", default="", help="only cases whose name contains this text")
    options = parser.parse_args(arguments)
    rows = read_index("node")
    newest = [row for row in rows if row.release == rows[-1].release]
    cases = [row for row in newest if options.case in row.name][:: options.every]
    details: List[Dict[str, Any]] = []
    counts: Dict[Key, Counter[str]] = {}
    child = _Child()
    for converter in options.converter or CONVERTERS:
        for opset in options.opset or OPSETS:
            counted = counts.setdefault((converter, opset), Counter())
            for case in cases:
                outcome, detail = child.ask(case, converter, opset)
                counted[outcome] += 1
                if outcome not in (RIGHT, UNTYPED):
                    details.append(
                        {
                            "converter": converter,
                            "opset": opset,
                            "case": case.name,
                            "outcome": outcome,
                            "detail": detail,
                        }
                    )
            print(line(converter, opset, counted), flush=True)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(details, indent=1), encoding="utf-8")
    child.end()
    return 1 if any(counted[WRONG] for (name, _), counted in counts.items() if name == "onnx-compat") else 0


def line(converter: str, opset: int, counted: Counter[str]) -> str:
    """Return a line of the table: the share of right cases, and the number of cases with each outcome.

    `counted`: outcome -> number of cases. Cases whose types are missing at the target are left out.
    """
    total = sum(count for outcome, count in counted.items() if outcome != UNTYPED)
    good = counted[RIGHT] + counted[OUTCOMES[1]]
    text = ", ".join("%d %s" % (counted[outcome], outcome) for outcome in (*OUTCOMES, CRASHED) if counted[outcome])
    return "%-12s opset %2d: %5.1f %% of %d: %s" % (converter, opset, 100 * good / max(total, 1), total, text)


class _Child:
    """The child process, which is started again after it has died or hung."""

    def __init__(self) -> None:
        self._process: Optional[LineProcess] = None

    def ask(self, case: Case, converter: str, opset: int) -> Tuple[str, str]:
        """Convert a case with a converter to an opset in the child process, and run the result. Return (outcome,
        detail).

        The outcome is CRASHED if the process dies, or does not answer in `CASE_SECONDS`.
        """
        if self._process is None:
            self._process = LineProcess([sys.executable, "-m", "matrix.retarget.child"], dict(os.environ))
        self._process.send(json.dumps({"case": case._asdict(), "converter": converter, "opset": opset}))
        try:
            answer = self._process.receive(CASE_SECONDS)
        except NoAnswer as error:
            self.end()
            return CRASHED, str(error)
        if not answer:
            detail = self._process.describe_end()
            self._process = None
            return CRASHED, detail
        outcome, detail = json.loads(answer)
        return outcome, detail

    def end(self) -> None:
        """Kill the process, if it runs."""
        if self._process is not None:
            self._process.end()
            self._process = None


if __name__ == "__main__":
    sys.exit(main())

"""Convert each case of the suites to a file, run the file, and count: agrees, refused (by reason), or wrong.

Run `python -m matrix.file_survey keras` in an environment of a shim that writes the format. Without options, it takes
the newest case of each name of the suite `node`. `--write FILE` stores an outcome a line, which `--compare FILE` reads.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from matrix.harness.children import call_in_children
from matrix.harness.files import (
    AGREES,
    FIXED,
    REFUSED,
    WRONG,
    Outcome,
    general_reason,
    newest,
    survey_case,
)
from matrix.harness.select import choose
from matrix.suites.cache import Case, read_index
from onnx_compat.conversion.convert import formats

__all__ = ["format_counts", "main"]


def format_counts(outcomes: Sequence[Outcome]) -> str:
    """Return the counts as text: of outcomes, then of reasons of refusals with their operators, then each wrong case."""
    totals = Counter(outcome.outcome for outcome in outcomes)
    lines = [
        "%d cases: %s" % (len(outcomes), ", ".join("%d %s" % (totals[k], k) for k in (AGREES, FIXED, REFUSED, WRONG)))
    ]
    reasons: Dict[str, Counter[str]] = {}
    for outcome in outcomes:
        if outcome.outcome == REFUSED:
            reasons.setdefault(general_reason(outcome.reason), Counter())[outcome.operator or "the model"] += 1
    for reason, operators in sorted(reasons.items(), key=lambda entry: -sum(entry[1].values())):
        listed = ", ".join("%s %d" % entry for entry in operators.most_common())
        lines.append("%5d  %s (%s)" % (sum(operators.values()), reason, listed))
    lines += ["WRONG  %s: %s" % (outcome.case, outcome.reason) for outcome in outcomes if outcome.outcome == WRONG]
    return "\n".join(lines)


def _survey(cases: Sequence[Case], form: str, shim: str) -> Iterator[Outcome]:
    """Convert the cases in child processes to the format `form` with a shim, and yield the outcome of each case.

    A case that ends its process is wrong.
    """
    for case, outcome in call_in_children(survey_case, cases, form, shim):
        ended = isinstance(outcome, BrokenProcessPool)
        yield Outcome(case.id, WRONG, reason="the process ended: %s" % outcome) if ended else outcome


def _read(path: Path) -> Dict[str, Outcome]:
    """Return case id -> outcome, from a file that `--write` wrote."""
    outcomes = [Outcome(*json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
    return {outcome.case: outcome for outcome in outcomes}


def main(arguments: Optional[List[str]] = None) -> int:
    """Survey the cases and print the counts. Return 1 if a case is wrong."""
    parser = argparse.ArgumentParser(prog="python -m matrix.file_survey", description=__doc__)
    parser.add_argument("form", metavar="FORMAT", help="a format of `onnx-compat convert --to`, such as keras")
    parser.add_argument("--suite", action="append", default=[], help="a suite of the cache; may be repeated")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th case")
    parser.add_argument("-k", dest="only", default="", metavar="REGEX", help="only cases whose id matches")
    parser.add_argument("--write", type=Path, metavar="FILE", help="store the outcome of each case")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="also print what differs from stored outcomes")
    parser.add_argument(
        "--outcome", choices=(AGREES, FIXED, REFUSED, WRONG), help="only cases of `--compare` with this outcome"
    )
    options = parser.parse_args(arguments)
    shim = formats()[options.form][0]
    before = _read(options.compare) if options.compare else {}
    chosen = newest(choose(" ".join(options.suite) or "node", read_index))
    rows = [row for row in chosen if re.search(options.only, row.id)]
    if options.outcome:
        rows = [row for row in rows if row.id in before and before[row.id].outcome == options.outcome]
    outcomes: List[Outcome] = []
    start = time.time()
    with (options.write or Path("/dev/null")).open("w", encoding="utf-8") as file:
        for outcome in _survey(rows[:: options.every], options.form, shim):
            outcomes.append(outcome)
            file.write(json.dumps(outcome) + "\n")
            file.flush()
    print(format_counts(outcomes))
    for outcome in outcomes:
        earlier: Any = before.get(outcome.case)
        if earlier is not None and earlier.outcome != outcome.outcome:
            print("%s: %s => %s" % (outcome.case, earlier.outcome, outcome.outcome))
    print("%.0f seconds" % (time.time() - start))
    return 1 if any(outcome.outcome == WRONG for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

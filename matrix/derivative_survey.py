"""Differentiate each case of the suites on a shim, and count: agrees with finite differences, refused (by reason), wrong.

Run `python -m matrix.derivative_survey tf2` in an environment of the shim. Without options, it takes the newest case of
each name of the suite `node`. Cases without float32 inputs or outputs are left out, and cases that draw random numbers.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter
from concurrent.futures.process import BrokenProcessPool
from typing import List, Optional, Sequence

from matrix.harness.children import call_in_children
from matrix.harness.derivatives import AGREES, FALLBACK, REFUSED, WRONG, Outcome, compare_derivatives
from matrix.harness.files import general_reason, newest
from matrix.harness.select import choose
from matrix.suites.cache import read_index

__all__ = ["format_counts", "main"]


def format_counts(outcomes: Sequence[Outcome]) -> str:
    """Return the counts as text: of outcomes, then of reasons of refusals, then each wrong case."""
    totals = Counter(outcome.outcome for outcome in outcomes)
    counts = ", ".join("%d %s" % (totals[k], k) for k in (AGREES, FALLBACK, REFUSED, WRONG))
    lines = ["%d differentiable cases: %s" % (len(outcomes), counts)]
    reasons = Counter(general_reason(outcome.reason) for outcome in outcomes if outcome.outcome == REFUSED)
    lines += ["%5d  %s" % (count, reason) for reason, count in reasons.most_common()]
    lines += ["WRONG  %s: %s" % (outcome.case, outcome.reason) for outcome in outcomes if outcome.outcome == WRONG]
    return "\n".join(lines)


def main(arguments: Optional[List[str]] = None) -> int:
    """Survey the cases and print the counts. Return 1 if a case is wrong."""
    parser = argparse.ArgumentParser(prog="python -m matrix.derivative_survey", description=__doc__)
    parser.add_argument("shim", metavar="SHIM", help="a shim of this environment, or `reference`")
    parser.add_argument("--suite", action="append", default=[], help="a suite of the cache; may be repeated")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th case")
    parser.add_argument("-k", dest="only", default="", metavar="REGEX", help="only cases whose id matches")
    parser.add_argument("--list", action="store_true", help="print a line for each case that does not agree")
    options = parser.parse_args(arguments)
    chosen = newest(choose(" ".join(options.suite) or "node", read_index))
    rows = [row for row in chosen if re.search(options.only, row.id)][:: options.every]
    outcomes: List[Outcome] = []
    start = time.time()
    for row, outcome in call_in_children(compare_derivatives, rows, options.shim):
        if isinstance(outcome, BrokenProcessPool):
            outcome = Outcome(row.id, WRONG, "the process ended: %s" % outcome)
        if outcome is not None:
            outcomes.append(outcome)
            if options.list and outcome.outcome != AGREES:
                print("%s: %s: %s" % outcome, flush=True)
    print(format_counts(outcomes))
    print("%.0f seconds" % (time.time() - start))
    return 1 if any(outcome.outcome == WRONG for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())

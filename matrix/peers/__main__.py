"""Run the recorded cases on a peer, in its environment: `python -m matrix.peers onnxruntime --release 1.23.2`."""

from __future__ import annotations

import argparse
import json
import os
import queue
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from matrix.harness.tally import Result, table, write
from matrix.peers.tools import PROJECTS, Tool
from matrix.peers.worker import PeerError, Worker
from matrix.suites.cache import Case, read_index

RESULTS = Path("results")
SUITE = "node"
CASE_SECONDS = 120.0
"""The default time limit of a case."""


def main(arguments: Optional[List[str]] = None) -> int:
    """Run the cases on a peer and write results/peer-<id>.json. Return 0, or 1 if the peer cannot run at all."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    project = options.project or options.id
    if project not in PROJECTS:
        parser.error("there is no project %s; the projects are %s" % (project, ", ".join(PROJECTS)))
    cases = choose_cases(options.release, options.every, options.case)
    if not cases:
        parser.error("the cache has no such case; `nox -s suites` fetches the cases")
    try:
        about, results = measure(Tool(PROJECTS[project], options.options), cases, options.workers, options.seconds)
    except PeerError as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(table(results)))
    if options.case:
        print("\n".join("%s: %s %s" % (result.id, result.outcome, result.detail) for result in results))
        return 0
    sample = {"sample": "every %s" % _ordinal(options.every)} if options.every > 1 else {}
    about_row = {"cell": "peer-" + options.id, "shim": project, "peer": True, "state": "ran"}
    about_row["revision"] = os.environ.get("ONNX_COMPAT_REVISION", "")
    path = RESULTS / ("%s.json" % about_row["cell"])
    write(path, results, {**about_row, **about, **sample})
    print("wrote", path)
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(prog="python -m matrix.peers", description=__doc__)
    parser.add_argument("id", help="the row; its results are written to results/peer-<id>.json")
    parser.add_argument("--project", choices=sorted(PROJECTS), help="the project, if it is not the id")
    parser.add_argument(
        "--options", type=json.loads, default={}, metavar="JSON", help="options of the project's prepare"
    )
    parser.add_argument(
        "--release", action="append", required=True, help="a release of onnx whose cases to run; repeatable"
    )
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a sample: every Nth case of each release")
    parser.add_argument("--case", action="append", default=[], help="only the cases of these names, without results")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at once")
    parser.add_argument("--seconds", type=float, default=CASE_SECONDS, metavar="N", help="the time limit of a case")
    return parser


def choose_cases(releases: List[str], every: int, names: List[str]) -> List[Case]:
    """Return every Nth case (`every`) of each of these releases.

    If `names` are given, keep only the cases with these names.
    """
    rows = read_index(SUITE)
    return [
        row
        for release in releases
        for row in [row for row in rows if row.release == release][::every]
        if not names or row.name in names
    ]


def measure(tool: Tool, cases: List[Case], workers: int, seconds: float) -> Tuple[Dict[str, Any], List[Result]]:
    """Run the cases in at most `workers` child processes. `seconds`: the time limit of a case.

    Return (Python and versions of the environment, result of each case in order). A PeerError is raised if the peer
    cannot run at all.
    """
    children = [Worker(tool, seconds) for _ in range(min(workers, len(cases)))]
    idle: queue.Queue[Worker] = queue.Queue()
    for child in children:
        idle.put(child)

    def run_case(case: Case) -> Result:
        child = idle.get()
        try:
            return child.run(case)
        finally:
            idle.put(child)

    with ThreadPoolExecutor(len(children)) as pool:
        results: List[Result] = []
        try:
            for result in pool.map(run_case, cases):
                results.append(result)
                if len(results) % 100 == 0:
                    print("%d of %d cases" % (len(results), len(cases)), flush=True)
        finally:
            for child in children:  # after an interrupt, this ends the threads that wait for an answer
                child.close()
    return children[0].about, results


def _ordinal(number: int) -> str:
    """Return an ordinal number from 2 to 20 as text: `2nd`, `10th`."""
    return "%d%s" % (number, {2: "nd", 3: "rd"}.get(number, "th"))


if __name__ == "__main__":
    sys.exit(main())

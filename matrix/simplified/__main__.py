"""`python -m matrix.simplified`: simplify cached models with every tool; compare nodes, outputs and latency.

Without a suite, the small zoo, onnx's light models and, where it is cached, the large zoo. A result is in
results/simplified.json.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import onnx

from matrix.simplified.measure import compare_outputs, count_nodes, load_session, measure_latencies
from matrix.simplified.summary import SOURCE, Row, summarise, table
from matrix.simplified.tools import OURS, TOOLS, run_tool
from matrix.suites.cache import Case, read_index

RESULTS = Path("results/simplified.json")
SUITES = ("zoo", "light", "zoo-full")
UNBOUNDED = 1e9
"""The growth for the light models: they compute their weights, and the peers fold these without a limit."""


def main(arguments: list[str] | None = None) -> int:
    """Measure the models, print the table and the summary, and write the result.

    Return 1 if onnx-compat gives a wrong model, or if no model was chosen, else 0.
    """
    parser = argparse.ArgumentParser(prog="python -m matrix.simplified", description=__doc__)
    parser.add_argument("--suite", action="append", default=[], help="a suite of the cache; repeatable")
    parser.add_argument("--tool", action="append", default=[], choices=TOOLS, help="only these tools; repeatable")
    parser.add_argument("--seconds", type=float, default=3, help="time for the latencies of a model; 0 measures none")
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these texts")
    options = parser.parse_args(arguments)
    rows: list[Row] = []
    for case in choose_cases(options.suite or SUITES, options.names):
        rows.append(measure(case, options.tool or list(TOOLS), options.seconds))
        print(
            "\n".join(table(rows[-1:])[2:]),
            *[f"  {tool}: {text}" for tool, text in rows[-1].wrong.items()],
            sep="\n",
            flush=True,
        )
    lines = summarise(rows)
    print("", *lines, sep="\n")
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(
        json.dumps({"summary": lines, "rows": [asdict(row) for row in rows]}, indent=1) + "\n", encoding="utf-8"
    )
    return 1 if any(OURS in row.wrong for row in rows) or not rows else 0


def choose_cases(suites: list[str] | tuple[str, ...], names: list[str]) -> Iterator[Case]:
    """Yield the cases of the suites that draw no random numbers, and that do not repeat the model of an earlier case.

    `names`: only cases whose id contains one of these texts. [] stands for all.
    """
    for suite in suites:
        for case in read_index(suite):
            is_named = not names or any(name in case.id for name in names)
            if is_named and case.folder == case.id and "random" not in case.tags:
                yield case


def measure(case: Case, tools: list[str], seconds: float) -> Row:
    """Return the row of a case: simplify its model with each tool, and compare the outputs with those of the source.

    Then the source and the simplified models are timed in turns for `seconds`; 0: not at all. A model that a tool
    leaves as it is has the latency of the source.
    """
    row = Row(case.id, {SOURCE: count_nodes(case.model)})
    feeds: list[Any] = [data.inputs for data in case.data_sets()]
    source = load_session(case.model, optimised=False)
    sessions = {SOURCE: load_session(case.model)}
    content, unchanged = onnx.load(str(case.model)).SerializeToString(), set[str]()
    with tempfile.TemporaryDirectory() as folder:
        for tool in tools:
            target = Path(folder) / f"{tool.partition(',')[0]}.onnx"
            problem = run_tool(tool, case.model, target, UNBOUNDED if case.suite == "light" else 1.1)
            if not problem:
                if target.read_bytes() == content:
                    unchanged.add(tool)
                row.nodes[tool] = count_nodes(target)
                try:
                    sessions[tool] = load_session(target)
                    problem = compare_outputs(source, sessions[tool], feeds)
                except Exception as error:  # noqa: BLE001 - onnxruntime has no common class of errors
                    problem = f"does not load: {str(error)[:200]}"
            if problem:
                row.wrong[tool] = problem
                sessions.pop(tool, None)
        if seconds:
            row.latency = measure_latencies(sessions, feeds[0], seconds)
            row.latency.update((tool, row.latency[SOURCE]) for tool in row.latency if tool in unchanged)
    return row


if __name__ == "__main__":
    sys.exit(main())

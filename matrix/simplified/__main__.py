"""`python -m matrix.simplified`: simplify cached models with every tool; compare nodes, outputs and latency.

Without a suite: the small zoo, onnx's light models, the large zoo and the trained networks of packages, as far as the
cache has them. results/simplified.json holds the result after each model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib import metadata
from pathlib import Path

import onnx

from matrix.data import ROOT, MatrixError
from matrix.revision import revision
from matrix.simplified import page
from matrix.simplified.measure import compare_outputs, count_nodes, load_session, measure_latencies
from matrix.simplified.models import SUITES, Source, choose_sources
from matrix.simplified.summary import SOURCE, Row, compute_figures, format_wrong, table
from matrix.simplified.tools import TOOLS, run_tool

RESULTS = ROOT / "results" / "simplified.json"
_PACKAGES = ("onnx", "onnxruntime", "onnxsim", "onnxslim")


def main(arguments: list[str] | None = None) -> int:
    """Measure the models, print the table and the summary, and write results/simplified.json.

    `arguments`: the arguments of the command line; None: those of this process. With `--record`, the result is also
    stored, and the page is rendered. Return 1 if an aim is missed, no model was chosen or a package is not installed,
    else 0.
    """
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.record and (options.tool or options.names or not options.seconds):
        parser.error("--record stores all tools and latencies of a suite: leave out --tool, --seconds 0 and names")
    try:
        versions = _versions()
    except MatrixError as error:
        print(error, file=sys.stderr)
        return 1
    known = _load_earlier_rows() if options.resume else {}
    rows: list[Row] = []
    for source in choose_sources(options.suite or SUITES, options.names):
        row = known.get(source.name) or measure(source, options.tool or list(TOOLS), options.seconds)
        known[source.name] = row
        rows.append(row)
        page.save_rows(RESULTS, revision(), versions, list(known.values()))
        print("\n".join(table([row])[2:]), flush=True)
    figures = compute_figures(rows)
    print("", *format_wrong(rows), "", *figures, sep="\n")
    if options.record and rows:
        page.save_rows(page.MEASURED, revision(), versions, rows)
        for path, text in page.files(ROOT).items():
            path.write_text(text, encoding="utf-8")
    return 1 if any(figure.is_missed for figure in figures) or not rows else 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the arguments."""
    parser = argparse.ArgumentParser(prog="python -m matrix.simplified", description=__doc__)
    parser.add_argument("--suite", action="append", default=[], choices=SUITES, help="a suite; repeatable")
    parser.add_argument("--tool", action="append", default=[], choices=TOOLS, help="only these tools; repeatable")
    parser.add_argument("--seconds", type=float, default=2, help="time for the latencies of a model; 0 measures none")
    parser.add_argument("--resume", action="store_true", help="keep the models that this revision measured before")
    parser.add_argument("--record", action="store_true", help=f"store the result, and render {page.PAGE}")
    parser.add_argument("names", nargs="*", help="only models whose name contains one of these texts")
    return parser


def _load_earlier_rows() -> dict[str, Row]:
    """Return name -> row of the last result, if it is of this revision without changes; else {}."""
    if not RESULTS.exists():
        return {}
    document, rows = page.load_rows(RESULTS)
    is_same = document["revision"] == revision() and not document["revision"].endswith("-dirty")
    return {row.name: row for row in rows} if is_same else {}


def _versions() -> dict[str, str]:
    """Return package -> version of the tools and of onnx. Raise a MatrixError if one is not installed."""
    versions: dict[str, str] = {}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError as error:
            raise MatrixError(f"{name} is not installed here. `nox -s simplify` has an environment with it.") from error
    return versions


def measure(source: Source, tools: list[str], seconds: float) -> Row:
    """Return the row of a model: simplify it with each tool, and compare the outputs with those of the source.

    Then the source and the simplified models are timed in turns for `seconds`; 0: not at all. A model that a tool
    leaves as it is has the latency of the source.
    """
    row = Row(source.name, {SOURCE: count_nodes(source.path)})
    feeds = source.read_feeds()
    reference = load_session(source.path, optimised=False)
    sessions = {SOURCE: load_session(source.path)}
    content, unchanged = onnx.load(str(source.path)).SerializeToString(), set[str]()
    with tempfile.TemporaryDirectory() as folder:
        for tool in tools:
            target = Path(folder) / f"{tool.partition(',')[0]}.onnx"
            problem = run_tool(tool, source.path, target, source.growth)
            if not problem:
                if target.read_bytes() == content:
                    unchanged.add(tool)
                row.nodes[tool] = count_nodes(target)
                try:
                    sessions[tool] = load_session(target)
                    problem = compare_outputs(reference, sessions[tool], feeds)
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

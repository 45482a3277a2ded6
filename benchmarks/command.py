"""Command line of the benchmarks: run the benches, and write their report."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import page
from benchmarks.bench import Findings, Missing, Setting
from benchmarks.conversion import measure_conversion
from benchmarks.imports import measure_imports
from benchmarks.latency import measure_tf2_latency, measure_tflite_latency
from benchmarks.models import NAMES, find_networks
from benchmarks.networks import measure_networks
from benchmarks.process import Child, ChildError
from benchmarks.reference import measure_reference
from benchmarks.report import markdown, to_json
from benchmarks.revisions import measure_revisions
from benchmarks.trees import measure_trees

__all__ = ["main"]

BENCHES: dict[str, Callable[[Setting, Findings], None]] = {
    "import": measure_imports,
    "reference": measure_reference,
    "conversion": measure_conversion,
    "tflite": measure_tflite_latency,
    "networks": measure_networks,
    "tf2": measure_tf2_latency,
    "trees": measure_trees,
}
REVISIONS = "revisions"
"""The bench that needs the environment of another revision, and runs only if it is named."""
_REPORTED = (
    "onnx-compat", "onnx", "numpy", "ai-edge-litert", "tflite-runtime", "tensorflow-cpu", "tensorflow", "keras",
    "onnxruntime", "onnx2tf", "onnx-tf", "litert-torch", "torch",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benches, and print and write their report. Return 1 if a measurement failed, else 0.

    A missed aim of a ratio is no failure. Too low a throughput of trees is.
    """
    options = _parser().parse_args(arguments)
    findings = Findings()
    with tempfile.TemporaryDirectory() as scratch:
        setting = Setting(dict(options.python), [], Path(scratch), options.rounds, tuple(options.threads))
        if set(options.bench) != {REVISIONS}:
            try:
                setting.networks = find_networks(options.network, setting.python("tflite-")[1])
            except Missing as error:
                findings.missing.append(str(error))
        _record_versions(setting, findings)
        for name in options.bench:
            print(f"{name} …", file=sys.stderr, flush=True)
            try:
                {**BENCHES, REVISIONS: measure_revisions}[name](setting, findings)
            except (Missing, ChildError) as error:
                findings.missing.append(f"{name}: {error}")
    text = markdown(findings)
    print(text)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".json").write_text(to_json(findings), encoding="utf-8")
    options.output.with_suffix(".md").write_text(text, encoding="utf-8")
    if options.docs:
        page.write(findings, Path(__file__).parents[1] / "docs")
    return 1 if findings.missing else 0


def _record_versions(setting: Setting, findings: Findings) -> None:
    """Store the versions of the packages of each environment in `findings`.

    An environment without an interpreter is appended to `findings.missing`.
    """
    for id_, python in setting.pythons.items():
        if not Path(python).exists():
            findings.missing.append(f"The environment {id_} has no interpreter.")
            continue
        with Child(id_, python) as child:
            findings.environments[id_] = child.call("versions", names=_REPORTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        type=_parse_pair,
        metavar="ID=INTERPRETER",
        help="an environment of matrix.toml; repeatable",
    )
    parser.add_argument("--bench", nargs="+", choices=[*BENCHES, REVISIONS], default=list(BENCHES))
    parser.add_argument("--network", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--docs", action="store_true", help="write docs/networks.md and its charts, too")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of a latency bench; conversions run a quarter")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent / "results" / "bench",
        help="where the .json and the .md go (default: benchmarks/results/)",
    )
    return parser


def _parse_pair(text: str) -> tuple[str, str]:
    """Parse `ID=INTERPRETER` into a pair. Raise ArgumentTypeError for any other text."""
    id_, _, python = text.partition("=")
    if not id_ or not python:
        raise argparse.ArgumentTypeError(f"{text!r} is not ID=INTERPRETER")
    return id_, python

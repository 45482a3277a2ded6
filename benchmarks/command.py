"""The command line of the benches."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import page
from benchmarks.bench import Findings, Missing, Setting
from benchmarks.conversion import conversion
from benchmarks.imports import import_time
from benchmarks.latency import tf2_latency, tflite_latency
from benchmarks.models import NAMES, networks
from benchmarks.networks import networks_bench
from benchmarks.process import Child, ChildError
from benchmarks.reference import reference_speed
from benchmarks.report import markdown, to_json
from benchmarks.trees import trees

__all__ = ["main"]

BENCHES: dict[str, Callable[[Setting, Findings], None]] = {
    "import": import_time,
    "reference": reference_speed,
    "conversion": conversion,
    "tflite": tflite_latency,
    "networks": networks_bench,
    "tf2": tf2_latency,
    "trees": trees,
}
_REPORTED = (
    "onnx-compat", "onnx", "numpy", "ai-edge-litert", "tflite-runtime", "tensorflow-cpu", "tensorflow", "keras",
    "onnxruntime", "onnx2tf", "onnx-tf", "litert-torch", "torch",
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """0: all was measured; 1: something was not, which the page names. A missed aim is a finding, not a failure."""
    options = _parser().parse_args(arguments)
    found = Findings()
    with tempfile.TemporaryDirectory() as scratch:
        setting = Setting(dict(options.python), [], Path(scratch), options.rounds, tuple(options.threads))
        try:
            setting.networks = networks(options.network, setting.python("tflite-")[1])
        except Missing as error:
            found.missing.append(str(error))
        _versions(setting, found)
        for name in options.bench:
            print(f"{name} …", file=sys.stderr, flush=True)
            try:
                BENCHES[name](setting, found)
            except (Missing, ChildError) as error:
                found.missing.append(f"{name}: {error}")
    text = markdown(found)
    print(text)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.with_suffix(".json").write_text(to_json(found), encoding="utf-8")
    options.output.with_suffix(".md").write_text(text, encoding="utf-8")
    if options.docs:
        page.write(found, Path(__file__).parents[1] / "docs")
    return 1 if found.missing else 0


def _versions(setting: Setting, found: Findings) -> None:
    for id_, python in setting.pythons.items():
        if not Path(python).exists():
            found.missing.append(f"the environment {id_} has no interpreter")
            continue
        with Child(id_, python) as child:
            found.environments[id_] = child.call("versions", names=_REPORTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--python",
        action="append",
        default=[],
        type=_pair,
        metavar="ID=INTERPRETER",
        help="an environment of matrix.toml; repeatable",
    )
    parser.add_argument("--bench", nargs="+", choices=list(BENCHES), default=list(BENCHES))
    parser.add_argument("--network", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--docs", action="store_true", help="write docs/networks.md and its charts, too")
    parser.add_argument("--rounds", type=int, default=20, help="of latency; conversions take a quarter")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent / "results" / "bench",
        help="where the .json and the .md go (default: benchmarks/results/)",
    )
    return parser


def _pair(text: str) -> tuple[str, str]:
    id_, _, python = text.partition("=")
    if not id_ or not python:
        raise argparse.ArgumentTypeError("give it as ID=INTERPRETER")
    return id_, python

"""Simplify a model with one tool: `python -m matrix.simplified.tools TOOL SOURCE TARGET [--growth N]`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from matrix.data import ROOT

__all__ = ["OURS", "PEERS", "SIMPLIFIERS", "TOOLS", "run_tool"]

OURS = "onnx-compat"
SIMPLIFIERS = ("onnxsim", "onnxslim")
"""The peers with whose best result ours is compared."""
SECONDS = 900
"""The time limit of a tool for a model."""


def _ours(source: str, target: str, growth: float) -> None:
    """Simplify with this project. `growth`: the factor by which folding may make the model grow."""
    import onnx

    from onnx_compat.simplify import simplify

    onnx.save(simplify(onnx.load(source), growth=growth)[0], target)


def _onnxsim(source: str, target: str, _: float) -> None:
    """Simplify with onnxsim."""
    import onnx
    import onnxsim  # type: ignore[import-not-found]  # in the environment of the session only

    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def _onnxslim(source: str, target: str, _: float) -> None:
    """Simplify with onnxslim."""
    import onnx
    import onnxslim  # type: ignore[import-not-found]  # in the environment of the session only

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def _onnxruntime(source: str, target: str, _: float) -> None:
    """Write the graph that onnxruntime optimises at its level "basic"."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = target
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


TOOLS: dict[str, Callable[[str, str, float], None]] = {
    OURS: _ours,
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
    "onnxruntime, basic": _onnxruntime,
}
PEERS = tuple(name for name in TOOLS if name != OURS)


def run_tool(tool: str, source: Path, target: Path, growth: float) -> str:
    """Simplify a model in a process of its own, which has `SECONDS` to end.

    Return "", or the reason why there is no simplified model. `growth`: the factor by which onnx-compat may make the
    file grow.
    """
    command = [sys.executable, "-m", "matrix.simplified.tools", tool, str(source), str(target), f"--growth={growth}"]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, errors="replace", check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done after {SECONDS} seconds"
    if done.returncode == 0 and target.exists():
        return ""
    lines = done.stderr.strip().splitlines()
    return f"exit code {done.returncode}: {lines[-1][:200] if lines else ''}"


def main() -> None:
    """Simplify the model with the tool that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m matrix.simplified.tools", description=__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--growth", type=float, default=1.1, help="the factor by which ours may make the file grow")
    options = parser.parse_args()
    TOOLS[options.tool](options.source, options.target, options.growth)


if __name__ == "__main__":
    main()

"""Measure a tool on a model: `python -m matrix.retarget.tool_run TOOL SOURCE TARGET SMALL [--runs N]` prints JSON.

The tool first takes the model SMALL, so that its imports do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Callable, Dict

import onnx

from benchmarks.child.memory import largest_resident
from matrix.retarget.outcomes import OURS, READ_WRITE, UNVERIFIED

__all__ = ["OPSET", "TOOLS", "main"]

OPSET = 13


def _ours(source: str, target: str) -> None:
    import onnx_compat

    onnx_compat.convert(source, target, opset=OPSET)


def _convert_only(source: str, target: str) -> None:
    import onnx_compat

    onnx_compat.convert(source, target, opset=OPSET, verify=False)


def _read_write(source: str, target: str) -> None:
    onnx.save(onnx.load(source), target)


def _onnxsim(source: str, target: str) -> None:
    import onnxsim  # type: ignore[import-not-found]  # in the environment of the session only

    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def _onnxslim(source: str, target: str) -> None:
    import onnxslim  # type: ignore[import-not-found]  # in the environment of the session only

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def _onnx(source: str, target: str) -> None:
    from onnx import version_converter

    onnx.save(version_converter.convert_version(onnx.load(source), OPSET), target)


TOOLS: Dict[str, Callable[[str, str], None]] = {
    READ_WRITE: _read_write,
    UNVERIFIED: _convert_only,
    OURS: _ours,
    "onnx's converter": _onnx,
    "onnxsim": _onnxsim,
    "onnxslim": _onnxslim,
}


def main() -> None:
    """Run the tool of the command line, and print JSON: the seconds of each run, and the peak memory in bytes."""
    parser = argparse.ArgumentParser(prog="python -m matrix.retarget.tool_run", description=__doc__)
    parser.add_argument("tool", choices=TOOLS)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("small")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    work = TOOLS[options.tool]
    with contextlib.suppress(Exception):  # a converter may refuse the small model, and its modules are imported
        work(options.small, options.target)
    seconds = []
    for _ in range(options.runs):
        start = time.perf_counter()
        work(options.source, options.target)
        seconds.append(time.perf_counter() - start)
    sys.stdout.write("\n" + json.dumps({"seconds": seconds, "peak": peak_memory()}) + "\n")


def peak_memory() -> int:
    """Return the peak memory of this process in bytes.

    On Linux, the peak is that since the start of the program; elsewhere, it may include the process that started it.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return largest_resident()
    (line,) = [line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    main()

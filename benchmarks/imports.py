"""Bench of the import time of onnx_compat, in a program that imports numpy and onnx anyway."""

from __future__ import annotations

import subprocess
import time
from functools import partial

from benchmarks.bench import Findings, Setting
from benchmarks.measure import alternate, figures, ratio
from benchmarks.process import environment

__all__ = ["measure_imports"]

AIM = 1.1
"""The aim: at most 1.1 times the import time of numpy and onnx alone."""
CODE = {
    "numpy, onnx, onnx_compat": "import numpy, onnx, onnx_compat",
    "numpy, onnx": "import numpy, onnx",
    "onnx_compat": "import onnx_compat",
}


def measure_imports(setting: Setting, findings: Findings) -> None:
    """Measure new interpreters with three imports: numpy and onnx; these and onnx_compat; onnx_compat alone.

    The figures, and the ratio of the imports with onnx_compat to those without, are appended to `findings`.
    """
    _, python = setting.python("tflite-")

    def run(code: str) -> list[float]:
        start = time.perf_counter()
        subprocess.run([python, "-c", code], check=True, env=environment(), cwd=setting.scratch)
        return [time.perf_counter() - start]

    samples = alternate(
        {name: partial(run, code) for name, code in CODE.items()},
        setting.rounds,
    )
    subject = "a fresh interpreter that imports"
    findings.ratios.append(ratio(subject, samples, "numpy, onnx, onnx_compat", "numpy, onnx", AIM))
    findings.figures += figures(subject, samples, "ms", 1e3)

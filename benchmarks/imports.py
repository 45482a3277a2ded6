"""What `import onnx_compat` costs a program that uses numpy and onnx anyway."""

from __future__ import annotations

import subprocess
import time

from benchmarks.bench import Findings, Setting
from benchmarks.measure import alternate, figures, ratio
from benchmarks.process import environment

__all__ = ["import_time"]

AIM = 1.1
"""No noticeable time: within a tenth of numpy and onnx alone."""
CODE = {
    "numpy, onnx, onnx_compat": "import numpy, onnx, onnx_compat",
    "numpy, onnx": "import numpy, onnx",
    "onnx_compat": "import onnx_compat",
}


def import_time(setting: Setting, found: Findings) -> None:
    _, python = setting.python("tflite-")

    def run(code: str) -> list[float]:
        start = time.perf_counter()
        subprocess.run([python, "-c", code], check=True, env=environment(), cwd=setting.scratch)
        return [time.perf_counter() - start]

    samples = alternate(
        {name: lambda code=code: run(code) for name, code in CODE.items()},  # type: ignore[misc]
        setting.rounds,
    )
    what = "a fresh interpreter that imports"
    found.ratios.append(ratio(what, samples, "numpy, onnx, onnx_compat", "numpy, onnx", AIM))
    found.figures += figures(what, samples, "ms", 1e3)

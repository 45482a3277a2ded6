"""Bench of an ensemble of decision trees over a batch of rows: the reference and the tf2 shim, compared with
onnxruntime.
"""

from __future__ import annotations

from functools import partial

from benchmarks.bench import Findings, Setting
from benchmarks.measure import Figure, alternate, figures, ratio
from benchmarks.process import Child

__all__ = ["measure_trees"]

ROWS, FEATURES, TREES, DEPTH = 1000, 20, 100, 8
RUNS = 3
"""The number of runs of a runner in a round."""
PAUSE = 0.02
LEAST = 1000
"""The aim: at least this number of rows per second."""


def measure_trees(setting: Setting, findings: Findings) -> None:
    """Measure all runners in one process. Append ratios and throughputs to `findings`.

    The ratio has no aim: onnxruntime has a kernel for trees, and the shims compose them of primitives.
    """
    _, python = setting.python("tf2-")
    path = str(setting.scratch / "trees.onnx")
    for threads in setting.threads:
        with Child("tf2", python) as child:
            child.call("forest", path=path, trees=TREES, depth=DEPTH, features=FEATURES)
            model = {"threads": threads, "path": path, "shape": (ROWS, FEATURES)}
            kinds = {"tf2": "onnx-compat", "reference": "reference", "onnxruntime": "onnxruntime"}
            for name, kind in kinds.items():
                child.call("open", name=name, kind=kind, **model)

            def runs(name: str, child: Child = child) -> list[float]:
                seconds: list[float] = child.call("run", name=name, times=RUNS)
                return seconds

            work = {name: partial(runs, name) for name in kinds}
            samples = alternate(work, setting.rounds, PAUSE)
            subject = f"{TREES} trees of depth {DEPTH}, {ROWS} rows, {threads} thread{'s' if threads > 1 else ''}"
            findings.ratios += [ratio(subject, samples, ours, "onnxruntime") for ours in ("tf2", "reference")]
            findings.figures += figures(subject, samples, "ms", 1e3)
            _record_throughput(subject, samples, findings)


def _record_throughput(subject: str, samples: dict[str, list[float]], findings: Findings) -> None:
    """Append the rows per second of each runner to `findings`.

    `samples`: runner -> seconds of each round. A shim that misses the aim is appended to `findings.missing`.
    """
    for figure in figures(subject, samples, "s"):
        findings.figures.append(Figure(f"{subject}: throughput", figure.tool, ROWS / figure.value, "rows/s"))
        if ROWS / figure.value < LEAST and figure.tool != "onnxruntime":
            findings.missing.append(f"{subject}: {figure.tool} does less than {LEAST} rows a second")

"""An ensemble of decision trees over a batch of rows: the reference and tf2 beside onnxruntime, all in one process."""

from __future__ import annotations

from benchmarks.bench import Findings, Setting
from benchmarks.measure import Figure, alternate, figures, ratio
from benchmarks.process import Child

__all__ = ["trees"]

ROWS, FEATURES, TREES, DEPTH = 1000, 20, 100, 8
RUNS = 3
"""Per round and runner."""
PAUSE = 0.02
LEAST = 1000
"""The aim, which is absolute: so many rows a second."""


def trees(setting: Setting, found: Findings) -> None:
    """onnxruntime has a kernel for it, ours are made of primitives: the ratio is reported, and has no aim."""
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

            work = {name: lambda name=name: runs(name) for name in kinds}
            samples = alternate(work, setting.rounds, PAUSE)
            what = f"{TREES} trees of depth {DEPTH}, {ROWS} rows, {threads} thread{'s' if threads > 1 else ''}"
            found.ratios += [ratio(what, samples, ours, "onnxruntime") for ours in ("tf2", "reference")]
            found.figures += figures(what, samples, "ms", 1e3)
            _rows(what, samples, found)


def _rows(what: str, samples: dict[str, list[float]], found: Findings) -> None:
    for figure in figures(what, samples, "s"):
        found.figures.append(Figure(f"{what}: throughput", figure.of, ROWS / figure.value, "rows/s"))
        if ROWS / figure.value < LEAST and figure.of != "onnxruntime":
            found.missing.append(f"{what}: {figure.of} does less than {LEAST} rows a second")

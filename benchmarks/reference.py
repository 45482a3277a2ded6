"""How long onnx's light models take on the reference, beside onnx's own reference evaluator: both are numpy."""

from __future__ import annotations

from benchmarks.bench import Findings, Setting
from benchmarks.measure import alternate, figures, ratio
from benchmarks.models import light
from benchmarks.process import Child

__all__ = ["reference_speed"]

AIM = 0.2
"""Five times as fast."""
RUNNERS = {"reference": "reference", "ReferenceEvaluator": "evaluator"}
SHAPE = (1, 3, 224, 224)


def reference_speed(setting: Setting, found: Findings) -> None:
    """One process a model; the evaluator is slow, so a few rounds of one run each."""
    _, python = setting.python("tflite-")
    for model, path in light(python).items():
        with Child("reference", python) as child:
            for name, kind in RUNNERS.items():
                child.call("open", name=name, kind=kind, threads=0, path=path, shape=SHAPE)
            runs = {name: lambda name=name: list(child.call("run", name=name, times=1)) for name in RUNNERS}
            samples = alternate(runs, max(3, setting.rounds // 4))
        what = f"{model}: reference, run"
        found.ratios.append(ratio(what, samples, "reference", "ReferenceEvaluator", AIM))
        found.figures += figures(what, samples, "ms", 1e3)

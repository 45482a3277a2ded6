"""Bench of the numpy reference on onnx's light models, compared with onnx's own ReferenceEvaluator."""

from __future__ import annotations

from benchmarks.bench import Findings, Setting
from benchmarks.measure import alternate, figures, ratio
from benchmarks.models import find_light_models
from benchmarks.process import Child

__all__ = ["measure_reference"]

AIM = 0.2
"""The aim: at most a fifth of the time of ReferenceEvaluator."""
RUNNERS = {"reference": "reference", "ReferenceEvaluator": "evaluator"}
SHAPE = (1, 3, 224, 224)


def measure_reference(setting: Setting, findings: Findings) -> None:
    """Measure the reference and ReferenceEvaluator on each light model, and append the ratios to `findings`.

    Each model has a process of its own. There are few rounds of one run each, because ReferenceEvaluator is slow.
    """
    _, python = setting.python("tflite-")
    for model, path in find_light_models(python).items():
        with Child("reference", python) as child:
            for name, kind in RUNNERS.items():
                child.call("open", name=name, kind=kind, threads=0, path=path, shape=SHAPE)
            runs = {name: lambda name=name: list(child.call("run", name=name, times=1)) for name in RUNNERS}
            samples = alternate(runs, max(3, setting.rounds // 4))
        subject = f"{model}: reference, run"
        findings.ratios.append(ratio(subject, samples, "reference", "ReferenceEvaluator", AIM))
        findings.figures += figures(subject, samples, "ms", 1e3)

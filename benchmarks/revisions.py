"""Conversion time, peak memory and import time of this tree, beside those of another revision in one run.

`nox -s against -- REV` makes the environments: equal pins, the wheels of this tree in one and those of REV in the other.
"""

from __future__ import annotations

import subprocess
import time
from contextlib import ExitStack
from functools import partial
from math import prod
from pathlib import Path

from benchmarks.bench import Findings, Missing, Setting
from benchmarks.measure import Ratio, alternate, figures, ratio
from benchmarks.models import find_cached, find_light_models
from benchmarks.process import Child, environment

__all__ = ["mean_ratio", "measure_revisions"]

OURS, BASE = "this tree", "base"
LIMIT = 1.03
"""The aim: at most 3 % more than the base."""
ALL = "all models, geometric mean"
TIME, PEAK, IMPORT = "convert to .tflite, time", "convert to .tflite, peak memory", "import onnx_compat"


def measure_revisions(setting: Setting, findings: Findings) -> None:
    """Measure both revisions on onnx's light models and the small zoo, and append the results to `findings`.

    Raises Missing if the cache lacks the light models, or if there is no environment for one of the revisions.
    """
    pythons = {OURS: setting.python("tflite-")[1], BASE: setting.python("base")[1]}
    _measure_imports(setting, pythons, findings)
    models = find_light_models(pythons[OURS])
    models.update({name.partition("/")[2]: path for name, path in find_cached(pythons[OURS], "zoo").items()})
    if not models:
        raise Missing("There are no models in the cache. Run `nox -s suites zoo`.")
    times = [_measure_time(setting, name, path, pythons, findings) for name, path in sorted(models.items())]
    peaks = [_measure_peak(setting, name, path, pythons) for name, path in sorted(models.items())]
    findings.ratios += [mean_ratio(TIME, times), mean_ratio(PEAK, peaks), *times, *peaks]


def _measure_imports(setting: Setting, pythons: dict[str, str], findings: Findings) -> None:
    """Measure the import of onnx_compat in new interpreters of both revisions, and append the results to `findings`."""

    def run(python: str) -> list[float]:
        start = time.perf_counter()
        subprocess.run([python, "-c", "import onnx_compat"], check=True, env=environment(), cwd=setting.scratch)
        return [time.perf_counter() - start]

    samples = alternate({name: partial(run, python) for name, python in pythons.items()}, setting.rounds)
    findings.ratios.append(ratio(IMPORT, samples, OURS, BASE, LIMIT))
    findings.figures += figures(IMPORT, samples, "ms", 1e3)


def _measure_time(setting: Setting, name: str, model: str, pythons: dict[str, str], findings: Findings) -> Ratio:
    """Return the ratio of the conversion times of a model, and append the times to `findings`.

    `pythons`: revision -> interpreter. Each process converts the model once before it is measured.
    """
    with ExitStack() as stack:
        children = {label: stack.enter_context(Child(label, python)) for label, python in pythons.items()}

        def convert(label: str) -> list[float]:
            return [_convert(children[label], model, setting.scratch)["seconds"] for _ in range(3)]

        samples = alternate({label: partial(convert, label) for label in pythons}, max(5, setting.rounds // 2))
    findings.figures += figures(f"{name}: {TIME}", samples, "ms", 1e3)
    return ratio(f"{name}: {TIME}", samples, OURS, BASE)


def _measure_peak(setting: Setting, name: str, model: str, pythons: dict[str, str]) -> Ratio:
    """Return the ratio of the peaks of the first conversion of new processes, the memory of the imports included."""

    def convert(python: str) -> list[float]:
        with Child(name, python) as child:
            child.call("import", modules=["onnx_compat"])
            return [float(_convert(child, model, setting.scratch)["highest"])]

    samples = alternate({label: partial(convert, python) for label, python in pythons.items()}, 3, warm_up=False)
    return ratio(f"{name}: {PEAK}", samples, OURS, BASE)


def _convert(child: Child, model: str, folder: Path) -> dict[str, float]:
    """Convert a model in a child process with onnx-compat. Return the measurement of its command `convert`."""
    answer: dict[str, float] = child.call(
        "convert", tool="onnx-compat", model=model, path=str(folder / f"{child.label.replace('/', ' ')}.tflite")
    )
    return answer


def mean_ratio(subject: str, ratios: list[Ratio]) -> Ratio:
    """Return the geometric mean of the ratios of all models, with the limit as its aim."""

    def mean(values: list[float]) -> float:
        return prod(values) ** (1 / len(values))

    low, high = mean([row.low for row in ratios]), mean([row.high for row in ratios])
    return Ratio(f"{ALL}: {subject}", OURS, BASE, mean([row.value for row in ratios]), low, high, len(ratios), LIMIT)

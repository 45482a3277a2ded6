"""Many kinds of networks: what their .tflite files are made of, and how long they take, beside onnx2tf and onnxruntime.

Ours keeps the layout of the model's inputs and outputs, onnx2tf's file has another one: the TRANSPOSEs at the ends, which
are the difference, do not count as operators.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench import Findings, Setting
from benchmarks.latency import PEER, compare
from benchmarks.measure import Figure, Ratio
from benchmarks.models import cached
from benchmarks.process import Child, ChildError

__all__ = ["networks_bench"]

OURS, OTHER = "onnx-compat", "onnx2tf"
_ZOO = {
    "zoo-full": ("mobilenet_v2", "mobilenet_v3", "efficientnet", "resnet50", "unet_bilinear", "unet_transpose"),
    "zoo": ("grouped", "unet_nearest", "vit", "bert", "gpt", "audio", "lstm_batch_first", "lstm", "gru", "rnn_tanh"),
}
_LIGHT = ("densenet121", "inception_v1", "shufflenet", "squeezenet")
_MADE = ("detector", "recurrent")


def networks_bench(setting: Setting, found: Findings) -> None:
    python = setting.python("tflite-")[1]
    pythons = {OURS: python, OTHER: setting.python("onnx2tf")[1]}
    models = _models(setting, python)
    files: dict[str, dict[str, str]] = {name: {} for name in models}
    for tool, interpreter in pythons.items():
        with Child(tool, interpreter) as child:
            for name, model in models.items():
                path = str(setting.scratch / f"{name}.{tool}.all.tflite")
                try:
                    child.call("convert", tool=tool, model=str(model), path=path)
                    files[name][tool] = path
                except ChildError as error:
                    found.missing.append(f"{name}: {error}")
    for name, made in files.items():
        if OURS in made:
            try:
                _anatomy(name, made, python, found)
                _latency(setting, name, made, models[name], python, found)
            except ChildError as error:
                found.missing.append(f"{name}: {error}")
    _medians(setting, found)


def _models(setting: Setting, python: str) -> dict[str, Path]:
    paths = cached(python, *_ZOO, "light-random")
    models = {
        f"{name}{'' if suite == 'zoo-full' else ' (small)'}": Path(paths[f"{suite}/{name}-dynamo-fixed"])
        for suite, names in _ZOO.items()
        for name in names
        if f"{suite}/{name}-dynamo-fixed" in paths
    }
    models.update(
        (name, Path(paths[f"light-random/test_{name}"])) for name in _LIGHT if f"light-random/test_{name}" in paths
    )
    with Child("made", python) as child:
        for name in _MADE:
            models[name] = setting.scratch / f"{name}.onnx"
            child.call(name, path=str(models[name]))
    return models


def _anatomy(name: str, files: dict[str, str], python: str, found: Findings) -> None:
    parts: dict[str, Any] = {}
    with Child("anatomy", python) as child:
        for tool, path in files.items():
            part = parts[tool] = child.call("anatomy", path=path)
            for what, value in (
                ("operators", _count(part)),
                ("TRANSPOSEs of inputs and outputs", part["turns"]),
                ("nodes that XNNPACK takes", part["delegated"]),
                ("nodes that XNNPACK leaves", part["nodes"] - part["delegated"]),
                ("pieces that XNNPACK takes", part["pieces"]),
            ):
                found.figures.append(Figure(f"{name}: {what}", tool, value, ""))
    if OTHER in parts:
        for what, ours, other in (
            ("operators", _count(parts[OURS]), _count(parts[OTHER])),
            ("bytes of the file", parts[OURS]["bytes"], parts[OTHER]["bytes"]),
        ):
            value = ours / other
            aim = PEER if what == "operators" else None
            found.ratios.append(Ratio(f"{name}: {what}", OURS, OTHER, value, value, value, 1, aim))


def _count(part: dict[str, Any]) -> int:
    return int(sum(part["operators"].values()) - part["turns"])


def _latency(setting: Setting, name: str, files: dict[str, str], model: Path, python: str, found: Findings) -> None:
    for threads in setting.threads:
        with Child("tflite", python) as child:
            for tool, path in files.items():
                child.call("open", name=tool, kind="tflite", threads=threads, path=path)
            child.call("open", name="onnxruntime", kind="onnxruntime", threads=threads, path=str(model))
            others: dict[str, float | None] = {"onnxruntime": None}
            if OTHER in files:
                others[OTHER] = PEER
            compare(setting, f"{name}: network", threads, OURS, others, {"": child}, found)


def _medians(setting: Setting, found: Findings) -> None:
    """Over the networks; the aim beside onnxruntime is that of the median one."""
    for threads in setting.threads:
        ending = f": network, latency, {threads} thread{'s' if threads > 1 else ''}"
        for other in (OTHER, "onnxruntime"):
            each = sorted(one.value for one in found.ratios if one.what.endswith(ending) and one.other == other)
            if each:
                what = f"the median network{ending}"
                found.ratios.append(Ratio(what, OURS, other, median(each), each[0], each[-1], len(each), PEER))

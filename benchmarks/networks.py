"""Many kinds of networks: how they are converted, what their .tflite files are made of, and how long they take, beside onnx2tf,
litert-torch (those that the zoo has as PyTorch modules) and onnxruntime.

Ours keeps the layout of the model's inputs and outputs. Images of onnx2tf's files have their channels last: beside these, ours
is converted with `channels_last`, so that both take and give the same. The TRANSPOSEs at the ends that are left, of other
tensors, do not count as operators.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.bench import Findings, Missing, Setting
from benchmarks.conversion import inside, whole_command
from benchmarks.from_torch import TORCH, from_torch
from benchmarks.latency import PEER, compare
from benchmarks.measure import Figure, Ratio
from benchmarks.models import cached
from benchmarks.process import Child, ChildError

__all__ = ["BYTES", "ERRORS", "LEFT", "MEDIAN", "OPERATORS", "networks_bench"]

OURS, LAST, OTHER = "onnx-compat", "onnx-compat, channels last", "onnx2tf"
OPERATORS, BYTES, LEFT = "operators", "bytes of the file", "nodes that XNNPACK leaves"
ERRORS = ("error of the first run", "error of the second run")
MEDIAN = "the median network"
ROUNDS = 8
"""At most: there are some twenty networks."""
_ZOO = {
    "zoo-full": ("mobilenet_v2", "mobilenet_v3", "efficientnet", "resnet50", "unet_bilinear", "unet_transpose"),
    "zoo": ("grouped", "unet_nearest", "vit", "bert", "gpt", "audio", "lstm_batch_first", "lstm", "gru", "rnn_tanh"),
}
_LIGHT = ("densenet121", "inception_v1", "shufflenet", "squeezenet")
_MADE = ("detector", "generator", "recurrent")


class _Model(NamedTuple):
    path: Path
    torch: tuple[str, bool] | None = None
    """Its name in the zoo, and whether it is of full size; None for what does not come from there."""


def networks_bench(setting: Setting, found: Findings) -> None:
    setting = replace(setting, rounds=min(setting.rounds, ROUNDS))
    python = setting.python("tflite-")[1]
    models = _models(setting, python)
    small = min((model.path for model in models.values()), key=lambda path: path.stat().st_size)
    theirs = from_torch(setting, {name: model.torch for name, model in models.items() if model.torch}, found)
    for name, model in models.items():
        try:
            files = inside(setting, name, model.path, small, found)
            if name in theirs:
                files[TORCH] = theirs[name]
            if OTHER in files:
                files.update(_channels_last(setting, name, model.path, files[OURS], python))
            _anatomy(name, files, python, found)
            _agreement(name, files, model.path, python, found)
            _latency(setting, name, files, model.path, python, found)
        except ChildError as error:
            found.missing.append(f"{name}: {error}")
    for network in setting.networks:
        try:
            whole_command(setting, network, found)
        except (ChildError, Missing) as error:
            found.missing.append(f"{network.name}: the whole command: {error}")
    _medians(found)


def _models(setting: Setting, python: str) -> dict[str, _Model]:
    paths = cached(python, *_ZOO, "light-random")
    models = {
        f"{name}{'' if suite == 'zoo-full' else ' (small)'}": _Model(
            Path(paths[f"{suite}/{name}-dynamo-fixed"]), (name, suite == "zoo-full")
        )
        for suite, names in _ZOO.items()
        for name in names
        if f"{suite}/{name}-dynamo-fixed" in paths
    }
    models.update(
        (name, _Model(Path(paths[f"light-random/test_{name}"])))
        for name in _LIGHT
        if f"light-random/test_{name}" in paths
    )
    with Child("made", python) as child:
        for name in _MADE:
            models[name] = _Model(setting.scratch / f"{name}.onnx")
            child.call(name, path=str(models[name].path))
    return models


def _channels_last(setting: Setting, name: str, model: Path, ours: str, python: str) -> dict[str, str]:
    """Another file of ours, if the model has images."""
    path = setting.scratch / f"{name}.channels-last.tflite"
    with Child(LAST, python) as child:
        child.call("convert", tool=LAST, model=str(model), path=str(path))
    return {} if path.read_bytes() == Path(ours).read_bytes() else {LAST: str(path)}


def _anatomy(name: str, files: dict[str, str], python: str, found: Findings) -> None:
    parts: dict[str, Any] = {}
    with Child("anatomy", python) as child:
        for tool, path in files.items():
            part = parts[tool] = child.call("anatomy", path=path)
            for what, value in (
                (OPERATORS, _count(part)),
                (BYTES, part["bytes"]),
                ("TRANSPOSEs of inputs and outputs", part["turns"]),
                ("nodes that XNNPACK takes", part["delegated"]),
                (LEFT, part["nodes"] - part["delegated"]),
                ("pieces that XNNPACK takes", part["pieces"]),
            ):
                found.figures.append(Figure(f"{name}: {what}", tool, value, ""))
    for other in (tool for tool in files if tool not in (OURS, LAST)):
        own = parts[LAST if other == OTHER and LAST in parts else OURS]
        for what, ours, theirs in (
            (OPERATORS, _count(own), _count(parts[other])),
            (BYTES, own["bytes"], parts[other]["bytes"]),
        ):
            value = ours / theirs
            aim = PEER if what == OPERATORS and other == OTHER else None
            found.ratios.append(Ratio(f"{name}: {what}", OURS, other, value, value, value, 1, aim))


def _agreement(name: str, files: dict[str, str], model: Path, python: str, found: Findings) -> None:
    with Child("agreement", python) as child:
        for tool, path in files.items():
            try:
                errors = child.call("errors", model=str(model), path=path)
            except ChildError as error:
                found.missing.append(f"{name}, the numbers of {tool}'s file: {error}")
                continue
            found.figures += [
                Figure(f"{name}: {what}", tool, value, "") for what, value in zip(ERRORS, errors, strict=True)
            ]


def _count(part: dict[str, Any]) -> int:
    return int(sum(part["operators"].values()) - part["turns"])


def _latency(setting: Setting, name: str, files: dict[str, str], model: Path, python: str, found: Findings) -> None:
    for threads in setting.threads:
        with Child("tflite", python) as child:
            for tool, path in files.items():
                child.call("open", name=tool, kind="tflite", threads=threads, path=path)
            child.call("open", name="onnxruntime", kind="onnxruntime", threads=threads, path=str(model))
            others = dict.fromkeys(["onnxruntime", *(tool for tool in files if tool not in (OURS, LAST, OTHER))])
            compare(setting, f"{name}: network", threads, OURS, others, {"": child}, found)
            if OTHER in files:
                own = LAST if LAST in files else OURS
                compare(setting, f"{name}: network", threads, own, {OTHER: PEER}, {"": child}, found)
                found.ratios[-1] = found.ratios[-1]._replace(ours=OURS)


def _medians(found: Findings) -> None:
    """Over the networks, with the best and the worst; the aim beside onnxruntime is that of the median one."""
    groups: dict[tuple[str, str, str], list[Ratio]] = {}
    for one in found.ratios:
        groups.setdefault((one.what.partition(": ")[2], one.ours, one.other), []).append(one)
    for (what, ours, other), each in groups.items():
        values = sorted(one.value for one in each)
        aim = PEER if other == "onnxruntime" else each[0].aim
        found.ratios.append(
            Ratio(f"{MEDIAN}: {what}", ours, other, median(values), values[0], values[-1], len(values), aim)
        )

"""Bench of many kinds of networks: conversion, anatomy (operators, size), agreement and latency.

This project is compared with onnx2tf, litert-torch and onnxruntime. litert-torch converts only the networks that the
zoo has as PyTorch modules.

This project keeps the layout of the model's inputs and outputs; onnx2tf stores images channels-last. So for the
comparison with onnx2tf, this project converts the model with `channels_last`. A TRANSPOSE at an input or an output does
not count as an operator.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.bench import Findings, Missing, Setting
from benchmarks.conversion import measure_command, measure_in_process
from benchmarks.from_torch import TORCH, from_torch
from benchmarks.latency import PEER, compare_runners
from benchmarks.measure import Figure, Ratio
from benchmarks.models import find_cached
from benchmarks.process import Child, ChildError

__all__ = ["BYTES", "ERRORS", "LEFT", "MEDIAN", "OPERATORS", "measure_networks"]

OURS, LAST, OTHER = "onnx-compat", "onnx-compat, channels last", "onnx2tf"
OPERATORS, BYTES, LEFT = "operators", "bytes of the file", "nodes that XNNPACK leaves"
ERRORS = ("error of the first run", "error of the second run")
MEDIAN = "the median network"
ROUNDS = 8
"""The largest number of rounds, because there are about twenty networks."""
_ZOO = {
    "zoo-full": ("mobilenet_v2", "mobilenet_v3", "efficientnet", "resnet50", "unet_bilinear", "unet_transpose"),
    "zoo": ("grouped", "unet_nearest", "vit", "bert", "gpt", "audio", "lstm_batch_first", "lstm", "gru", "rnn_tanh"),
}
_LIGHT = ("densenet121", "inception_v1", "shufflenet", "squeezenet")
_MADE = ("detector", "generator", "recurrent")


class _Model(NamedTuple):
    """The ONNX file of a network of this bench."""

    path: Path
    torch: tuple[str, bool] | None = None
    """(name in the zoo, whether it is the large variant); None for a model that is not from the zoo."""


def measure_networks(setting: Setting, findings: Findings) -> None:
    """Measure every network, and append the results and the medians over the networks to `findings`."""
    setting = replace(setting, rounds=min(setting.rounds, ROUNDS))
    python = setting.python("tflite-")[1]
    models = _find_models(setting, python)
    small = min((model.path for model in models.values()), key=lambda path: path.stat().st_size)
    theirs = from_torch(setting, {name: model.torch for name, model in models.items() if model.torch}, findings)
    for name, model in models.items():
        try:
            files = measure_in_process(setting, name, model.path, small, findings)
            if name in theirs:
                files[TORCH] = theirs[name]
            if OTHER in files:
                files.update(_convert_channels_last(setting, name, model.path, files[OURS], python))
            _record_anatomy(name, files, python, findings)
            _record_agreement(name, files, model.path, python, findings)
            _measure_latency(setting, name, files, model.path, python, findings)
        except ChildError as error:
            findings.missing.append(f"{name}: {error}")
    for network in setting.networks:
        try:
            measure_command(setting, network, findings)
        except (ChildError, Missing) as error:
            findings.missing.append(f"{network.name}: the whole command: {error}")
    _add_medians(findings)


def _find_models(setting: Setting, python: str) -> dict[str, _Model]:
    """Return name -> model, of the zoo and the light models that the cache has, and of the generated networks.

    The generated networks are written to the scratch folder.
    """
    paths = find_cached(python, *_ZOO, "light-random")
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


def _convert_channels_last(setting: Setting, name: str, model: Path, ours: str, python: str) -> dict[str, str]:
    """Convert a model with `channels_last`, and return {LAST: path of the file}.

    `ours`: the path of our file without `channels_last`. Return {} if both files are equal, because the model has no
    images.
    """
    path = setting.scratch / f"{name}.channels-last.tflite"
    with Child(LAST, python) as child:
        child.call("convert", tool=LAST, model=str(model), path=str(path))
    return {} if path.read_bytes() == Path(ours).read_bytes() else {LAST: str(path)}


def _record_anatomy(name: str, files: dict[str, str], python: str, findings: Findings) -> None:
    """Append the operators, the size and the delegated nodes of each file to `findings`.

    Ratios of operators and size are appended for each file of another tool.
    """
    parts: dict[str, Any] = {}
    with Child("anatomy", python) as child:
        for tool, path in files.items():
            part = parts[tool] = child.call("anatomy", path=path)
            for topic, value in (
                (OPERATORS, _count_operators(part)),
                (BYTES, part["bytes"]),
                ("TRANSPOSEs of inputs and outputs", part["turns"]),
                ("nodes that XNNPACK takes", part["delegated"]),
                (LEFT, part["nodes"] - part["delegated"]),
                ("pieces that XNNPACK takes", part["pieces"]),
            ):
                findings.figures.append(Figure(f"{name}: {topic}", tool, value, ""))
    for tool in (tool for tool in files if tool not in (OURS, LAST)):
        own = parts[LAST if tool == OTHER and LAST in parts else OURS]
        for topic, our_count, their_count in (
            (OPERATORS, _count_operators(own), _count_operators(parts[tool])),
            (BYTES, own["bytes"], parts[tool]["bytes"]),
        ):
            value = our_count / their_count
            aim = PEER if topic == OPERATORS and tool == OTHER else None
            findings.ratios.append(Ratio(f"{name}: {topic}", OURS, tool, value, value, value, 1, aim))


def _record_agreement(name: str, files: dict[str, str], model: Path, python: str, findings: Findings) -> None:
    """Append the errors of each file in its first and second run to `findings`.

    A file that does not run is appended to `findings.missing`.
    """
    with Child("agreement", python) as child:
        for tool, path in files.items():
            try:
                errors = child.call("errors", model=str(model), path=path)
            except ChildError as error:
                findings.missing.append(f"{name}, the numbers of {tool}'s file: {error}")
                continue
            findings.figures += [
                Figure(f"{name}: {topic}", tool, value, "") for topic, value in zip(ERRORS, errors, strict=True)
            ]


def _count_operators(part: dict[str, Any]) -> int:
    """Return the number of operators in an anatomy, without the TRANSPOSEs at inputs and outputs."""
    return int(sum(part["operators"].values()) - part["turns"])


def _measure_latency(
    setting: Setting, name: str, files: dict[str, str], model: Path, python: str, findings: Findings
) -> None:
    """Measure the latency of a network's files and of onnxruntime, for each number of threads.

    - files: tool -> path of its .tflite file.
    - model: the path of the ONNX model that onnxruntime runs.
    - python: the interpreter of the child process that runs all of them.

    The results are appended to `findings`. Our file in the layout of the model takes turns with onnxruntime and the
    files of other tools. The file of onnx2tf takes turns with our file in the same layout.
    """
    for threads in setting.threads:
        with Child("tflite", python) as child:
            for tool, path in files.items():
                child.call("open", name=tool, kind="tflite", threads=threads, path=path)
            child.call("open", name="onnxruntime", kind="onnxruntime", threads=threads, path=str(model))
            aims = dict.fromkeys(["onnxruntime", *(tool for tool in files if tool not in (OURS, LAST, OTHER))])
            compare_runners(setting, f"{name}: network", threads, OURS, aims, {"": child}, findings)
            if OTHER in files:
                own = LAST if LAST in files else OURS
                compare_runners(setting, f"{name}: network", threads, own, {OTHER: PEER}, {"": child}, findings)
                findings.ratios[-1] = findings.ratios[-1]._replace(ours=OURS)


def _add_medians(findings: Findings) -> None:
    """Append to `findings` the median ratio over the networks, for each topic and peer, with the best and the worst
    ratio.

    The aim for onnxruntime holds for the median only.
    """
    groups: dict[tuple[str, str, str], list[Ratio]] = {}
    for ratio in findings.ratios:
        groups.setdefault((ratio.subject.partition(": ")[2], ratio.ours, ratio.theirs), []).append(ratio)
    for (topic, ours, theirs), ratios in groups.items():
        values = sorted(ratio.value for ratio in ratios)
        aim = PEER if theirs == "onnxruntime" else ratios[0].aim
        findings.ratios.append(
            Ratio(f"{MEDIAN}: {topic}", ours, theirs, median(values), values[0], values[-1], len(values), aim)
        )

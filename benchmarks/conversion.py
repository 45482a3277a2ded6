"""ONNX to .tflite: the time and the memory that it takes, beside onnx2tf.

Once as a user meets it, a command in a fresh process; once inside a process that has converted before, where imports
and first-time work no longer count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench import Findings, Network, Setting
from benchmarks.measure import Figure, Ratio, alternate, figures, ratio
from benchmarks.process import Child, ChildError, environment

__all__ = ["conversion"]

OURS, PEER = "onnx-compat", "onnx2tf"
FASTER = 1 / 5
"""The aim: five times faster than onnx2tf."""
MEMORY = 2.5
"""The aim: at most so many times the bytes of the model."""


def conversion(setting: Setting, found: Findings) -> None:
    for network in setting.networks:
        _warm(setting, network, found)
        _cold(setting, network, found)


def _warm(setting: Setting, network: Network, found: Findings) -> None:
    (_, ours), (_, peer) = setting.python("tflite-"), setting.python("onnx2tf")
    what = f"{network.name}: convert to .tflite"
    answers: dict[str, list[dict[str, Any]]] = {OURS: [], PEER: []}
    with Child(OURS, ours) as our_child, Child(PEER, peer) as peer_child:
        children = {OURS: our_child, PEER: peer_child}
        for tool, child in children.items():
            child.call("convert", tool=tool, model=str(network.small), path=str(setting.scratch / "small.tflite"))

        def convert(tool: str) -> list[float]:
            path = setting.scratch / f"{network.name}.{tool}.tflite"
            answer = children[tool].call("convert", tool=tool, model=str(network.fixed), path=str(path))
            answers[tool].append(answer)
            return [answer["seconds"]]

        samples = alternate(
            {tool: lambda tool=tool: convert(tool) for tool in children},  # type: ignore[misc]
            max(3, setting.rounds // 4),
            warm_up=False,
        )
    found.ratios.append(ratio(f"{what}, time", samples, OURS, PEER, FASTER))
    found.figures += figures(f"{what}, time", samples, "s")
    _memory(what, network, answers, found)


def _memory(what: str, network: Network, answers: dict[str, list[dict[str, Any]]], found: Findings) -> None:
    size = network.fixed.stat().st_size
    for tool, each in answers.items():
        peaks = sorted(answer["peak"] / size for answer in each if answer["peak"] is not None)
        if not peaks:
            found.missing.append(f"{what}, peak memory of {tool}: this kernel does not tell")
            continue
        found.figures.append(Figure(f"{what}, peak memory above baseline", tool, median(peaks) * size / 1e6, "MB"))
        aim = MEMORY if tool == OURS else None
        name = f"{what}, peak memory above baseline"
        found.ratios.append(
            Ratio(name, tool, "bytes of the model", median(peaks), peaks[0], peaks[-1], len(peaks), aim)
        )


def _cold(setting: Setting, network: Network, found: Findings) -> None:
    (_, ours), (_, peer) = setting.python("tflite-"), setting.python("onnx2tf")
    out = setting.scratch / "cold"
    copy = setting.scratch / "copy.onnx"  # onnx2tf writes into the model that it is given
    model = str(network.fixed)
    commands = {
        OURS: [ours, "-m", "onnx_compat.cli", "convert", model, str(out) + ".tflite"],
        PEER: [peer, "-m", "onnx2tf", "-n", "-i", str(copy), "-o", str(out)],
    }

    def run(tool: str) -> list[float]:
        copy.write_bytes(network.fixed.read_bytes())
        return [_command(tool, commands[tool], setting.scratch)]

    samples = alternate(
        {tool: lambda tool=tool: run(tool) for tool in commands},  # type: ignore[misc]
        max(3, setting.rounds // 4),
    )
    what = f"{network.name}: the whole command"
    found.ratios.append(ratio(what, samples, OURS, PEER, FASTER))
    found.figures += figures(what, samples, "s")


def _command(tool: str, command: list[str], folder: Path) -> float:
    """The seconds of a command, with the tools of its own environment on PATH."""
    env = environment()
    env["PATH"] = os.pathsep.join([str(Path(command[0]).parent), env.get("PATH", os.defpath)])
    start = time.perf_counter()
    done = subprocess.run(
        command, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.stderr.write(done.stdout[-2000:])
        raise ChildError(f"{tool}: the command failed with exit code {done.returncode}")
    return seconds

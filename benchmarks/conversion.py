"""ONNX to .tflite: the time and the memory that it takes, beside onnx2tf.

Once as a user meets it, a command in a fresh process; once inside a process that has converted something else before, where
imports and first-time work no longer count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks.bench import Findings, Missing, Network, Setting
from benchmarks.measure import Figure, Ratio, alternate, figures, ratio
from benchmarks.process import Child, ChildError, environment

__all__ = ["COMMAND", "FASTER", "LARGE", "MEMORY", "MODEL", "PEAK", "TIME", "conversion", "inside", "whole_command"]

OURS, PEER = "onnx-compat", "onnx2tf"
TIME = "convert to .tflite, time"
PEAK = "convert to .tflite, peak memory above baseline"
COMMAND = "the whole command"
MODEL = "bytes of the model"
"""The weights as floats: those of the larger file, since a model may make its weights by nodes."""
FASTER = 1 / 5
"""The aim: five times faster than onnx2tf."""
MEMORY = 2.0
"""The aim: at most so many times the bytes of the model."""
LARGE = 4e6
"""Bytes from which on that is an aim. Of a smaller model the most are the objects that stand for its nodes: the figure tells."""


def conversion(setting: Setting, found: Findings) -> None:
    for network in setting.networks:
        inside(setting, network.name, network.fixed, network.small, found)
        whole_command(setting, network, found)


def inside(setting: Setting, name: str, model: Path, small: Path, found: Findings) -> dict[str, str]:
    """Convert in a process of each tool's own that has converted only `small` before; gives the files, by tool."""
    files, answers = {}, {}
    with ExitStack() as stack:
        children = {}
        for tool, prefix in ((OURS, "tflite-"), (PEER, "onnx2tf")):
            try:
                child = stack.enter_context(Child(tool, setting.python(prefix)[1]))
                child.call("convert", tool=tool, model=str(small), path=str(setting.scratch / "small.tflite"))
                # The first tells of the memory: what a process keeps for later is in the baseline of the next.
                path = str(setting.scratch / f"{name}.{tool}.tflite")
                answers[tool] = child.call("convert", tool=tool, model=str(model), path=path)
                children[tool], files[tool] = child, path
            except (Missing, ChildError) as error:
                if tool == OURS:
                    raise
                found.missing.append(f"{name}: {error}")

        def again(tool: str) -> list[float]:
            return [children[tool].call("convert", tool=tool, model=str(model), path=files[tool])["seconds"]]

        work = {tool: lambda tool=tool: again(tool) for tool in children}
        samples = alternate(work, max(2, setting.rounds // 4), warm_up=False)
    if PEER in files:
        found.ratios.append(ratio(f"{name}: {TIME}", samples, OURS, PEER, FASTER))
    found.figures += figures(f"{name}: {TIME}", samples, "s")
    _memory(name, max(model.stat().st_size, Path(files[OURS]).stat().st_size), answers, found)
    return files


def _memory(name: str, size: int, answers: dict[str, dict[str, Any]], found: Findings) -> None:
    found.figures.append(Figure(f"{name}: {MODEL}", "", size / 1e6, "MB"))
    for tool, answer in answers.items():
        if answer["peak"] is None:
            found.missing.append(f"{name}, peak memory of {tool}: this kernel does not tell")
            continue
        found.figures.append(Figure(f"{name}: {PEAK}", tool, answer["peak"] / 1e6, "MB"))
        if size >= LARGE:
            share = answer["peak"] / size
            aim = MEMORY if tool == OURS else None
            found.ratios.append(Ratio(f"{name}: {PEAK}", tool, MODEL, share, share, share, 1, aim))


def whole_command(setting: Setting, network: Network, found: Findings) -> None:
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
        warm_up=False,  # it has just converted: the files of its environment were read
    )
    what = f"{network.name}: {COMMAND}"
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

"""Bench of the conversion from ONNX to .tflite: time and peak memory of this project and of onnx2tf.

Each conversion is measured twice: as a command in a new process, as users run it, and in a process that has converted
another model before. The second measurement leaves out imports and other work of the first call.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.bench import Findings, Missing, Network, Setting
from benchmarks.measure import Figure, Ratio, alternate, figures, ratio
from benchmarks.process import Child, ChildError, environment

__all__ = [
    "COMMAND",
    "FASTER",
    "LARGE",
    "MEMORY",
    "MODEL",
    "PEAK",
    "TIME",
    "measure_command",
    "measure_conversion",
    "measure_in_process",
]

OURS, PEER = "onnx-compat", "onnx2tf"
TIME = "convert to .tflite, time"
PEAK = "convert to .tflite, peak memory above baseline"
COMMAND = "the whole command"
MODEL = "bytes of the model"
"""Name of the figure: the size of the larger of the ONNX file and our .tflite file.

It stands for the size of the weights. A model that computes weights by nodes has a small ONNX file."""
FASTER = 1 / 5
"""The aim for the time: at most a fifth of onnx2tf's."""
MEMORY = 2.0
"""The aim for the peak memory: at most this multiple of the bytes of the model."""
LARGE = 4e6
"""The bytes of a model from which on MEMORY is an aim. In a smaller model, Python objects need more than the weights."""


def measure_conversion(setting: Setting, findings: Findings) -> None:
    """Measure the conversion of each network, in a process and as a command. Append the results to `findings`."""
    for network in setting.networks:
        measure_in_process(setting, network.name, network.fixed, network.small, findings)
        measure_command(setting, network, findings)


def measure_in_process(setting: Setting, name: str, model: Path, small: Path, findings: Findings) -> dict[str, str]:
    """Measure conversions of `model` in one process per tool, after a warm-up with `small`, and append the results to
    `findings`.

    Return tool -> path of its file. If onnx2tf fails, it has no file, and the reason is appended to `findings.missing`.
    If this project fails, ChildError is raised.
    """
    files, answers = {}, {}
    with ExitStack() as stack:
        children = {}
        for tool, prefix in ((OURS, "tflite-"), (PEER, "onnx2tf")):
            try:
                child = stack.enter_context(Child(tool, setting.python(prefix)[1]))
                child.call("convert", tool=tool, model=str(small), path=str(setting.scratch / "small.tflite"))
                # Memory is measured on the first conversion: memory that a process retains raises the next baseline.
                path = str(setting.scratch / f"{name}.{tool}.tflite")
                answers[tool] = child.call("convert", tool=tool, model=str(model), path=path)
                children[tool], files[tool] = child, path
            except (Missing, ChildError) as error:
                if tool == OURS:
                    raise
                findings.missing.append(f"{name}: {error}")

        def convert_again(tool: str) -> list[float]:
            return [children[tool].call("convert", tool=tool, model=str(model), path=files[tool])["seconds"]]

        work = {tool: partial(convert_again, tool) for tool in children}
        samples = alternate(work, max(2, setting.rounds // 4), warm_up=False)
    if PEER in files:
        findings.ratios.append(ratio(f"{name}: {TIME}", samples, OURS, PEER, FASTER))
    findings.figures += figures(f"{name}: {TIME}", samples, "s")
    _record_memory(name, max(model.stat().st_size, Path(files[OURS]).stat().st_size), answers, findings)
    return files


def _record_memory(name: str, size: int, answers: dict[str, dict[str, Any]], findings: Findings) -> None:
    """Append the peak memory of each tool and, for a large model, its ratio to the size of the model to `findings`.

    `size`: the bytes of the model. `answers`: tool -> answer of `convert` in the child process.
    """
    findings.figures.append(Figure(f"{name}: {MODEL}", "", size / 1e6, "MB"))
    for tool, answer in answers.items():
        if answer["peak"] is None:
            findings.missing.append(f"{name}, peak memory of {tool}: this kernel does not report it")
            continue
        findings.figures.append(Figure(f"{name}: {PEAK}", tool, answer["peak"] / 1e6, "MB"))
        if size >= LARGE:
            share = answer["peak"] / size
            aim = MEMORY if tool == OURS else None
            findings.ratios.append(Ratio(f"{name}: {PEAK}", tool, MODEL, share, share, share, 1, aim))


def measure_command(setting: Setting, network: Network, findings: Findings) -> None:
    """Measure the conversion of a network as a command in a new process, imports included. Append the results to
    `findings`.

    Missing or ChildError is raised if a tool is not installed or fails.
    """
    (_, ours), (_, peer) = setting.python("tflite-"), setting.python("onnx2tf")
    out = setting.scratch / "cold"
    copy = setting.scratch / "copy.onnx"  # onnx2tf writes into the model that it reads
    model = str(network.fixed)
    commands = {
        OURS: [ours, "-m", "onnx_compat", "convert", model, str(out) + ".tflite"],
        PEER: [peer, "-m", "onnx2tf", "-n", "-i", str(copy), "-o", str(out)],
    }

    def run(tool: str) -> list[float]:
        copy.write_bytes(network.fixed.read_bytes())
        return [time_command(tool, commands[tool], setting.scratch)]

    samples = alternate(
        {tool: partial(run, tool) for tool in commands},
        max(3, setting.rounds // 4),
        warm_up=False,  # the conversions before have read the files of the environment
    )
    subject = f"{network.name}: {COMMAND}"
    findings.ratios.append(ratio(subject, samples, OURS, PEER, FASTER))
    findings.figures += figures(subject, samples, "s")


def time_command(tool: str, command: list[str], folder: Path) -> float:
    """Run a command and return its duration in seconds. `tool`: its name in errors. `folder`: the current folder.

    The folder of its interpreter, `command[0]`, is first on PATH. Raise ChildError if the command fails.
    """
    env = environment()
    env["PATH"] = os.pathsep.join([str(Path(command[0]).parent), env.get("PATH", os.defpath)])
    start = time.perf_counter()
    process = subprocess.run(
        command, env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.stderr.write(process.stdout[-2000:])
        raise ChildError(f"{tool}: the command failed with exit code {process.returncode}")
    return seconds

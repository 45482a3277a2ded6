"""Bench of the latency of one image.

.tflite files of this project are compared with those of onnx2tf and with onnxruntime; the tf2 shim is compared with
keras.applications and with onnx-tf.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from benchmarks.bench import Findings, Missing, Network, Setting
from benchmarks.measure import alternate, figures, ratio
from benchmarks.process import Child, ChildError

__all__ = ["PEER", "compare_runners", "measure_tf2_latency", "measure_tflite_latency", "runs_per_round"]

RUNS = 5
"""The smallest number of runs of a runner in a round."""
ENOUGH, MOST = 5e-3, 500
"""A runner runs for at least ENOUGH seconds in a round, with at most MOST runs."""
PAUSE = 0.02
"""Seconds between two runners: the idle threads of the first runner spin for a while."""
OWN = 1.05
"""The aim: at most this ratio to the framework's own network (keras.applications)."""
PEER = 1.0
"""The aim: at most this ratio to the file or model of another tool."""


def measure_tflite_latency(setting: Setting, findings: Findings) -> None:
    """Measure the .tflite files of all tools, and onnxruntime, in one process. Append the ratios to `findings`.

    A file that the conversion bench has not written is converted here.
    """
    _, python = setting.python("tflite-")
    for network in setting.networks:
        files = _convert_files(setting, network, findings)
        for threads in setting.threads:
            with Child("tflite", python) as child:
                for name, path in files.items():
                    child.call("open", name=name, kind="tflite", threads=threads, path=path)
                child.call(
                    "open",
                    name="onnxruntime",
                    kind="onnxruntime",
                    threads=threads,
                    path=str(network.fixed),
                    shape=network.shape,
                )
                aims = {name: PEER for name in (*files, "onnxruntime") if name != "onnx-compat"}
                compare_runners(
                    setting, f"{network.name}: .tflite", threads, "onnx-compat", aims, {"": child}, findings
                )


def _convert_files(setting: Setting, network: Network, findings: Findings) -> dict[str, str]:
    """Return tool -> path of the .tflite file of a network. Files that earlier benches wrote are used again.

    If onnx2tf fails, it is absent and appended to `findings.missing`. If onnx-compat fails, ChildError is raised.
    """
    files = {}
    for tool, prefix in (("onnx-compat", "tflite-"), ("onnx2tf", "onnx2tf")):
        path = setting.scratch / f"{network.name}.{tool}.tflite"
        try:
            if not path.exists():
                with Child(tool, setting.python(prefix)[1]) as child:
                    child.call("convert", tool=tool, model=str(network.fixed), path=str(path))
        except (Missing, ChildError) as error:
            if tool == "onnx-compat":
                raise
            findings.missing.append(f"{network.name}: the latency of {tool}'s file: {error}")
            continue
        files[tool] = str(path)
    return files


def measure_tf2_latency(setting: Setting, findings: Findings) -> None:
    """Measure the tf2 shim and keras.applications in one process, in turns with onnx-tf in another process.

    onnx-tf needs its own version of TensorFlow; without it, the rest is measured. The ratios are appended to
    `findings`.
    """
    _, python = setting.python("tf2-")
    for network in setting.networks:
        for threads in setting.threads:
            with ExitStack() as stack:
                child = stack.enter_context(Child("tf2", python))
                model = {"threads": threads, "path": str(network.dynamic), "shape": network.shape}
                child.call("open", name="onnx-compat", kind="onnx-compat", **model)
                child.call("open", name="keras.applications", kind="keras", network=network.keras, **model)
                children, aims = {"": child}, {"keras.applications": OWN}
                try:
                    peer = stack.enter_context(Child("onnx-tf", setting.python("onnx-tf")[1]))
                    peer.call("open", name="onnx-tf", kind="onnx-tf", **model)
                    children["onnx-tf"], aims["onnx-tf"] = peer, PEER
                except (Missing, ChildError) as error:
                    findings.missing.append(f"{network.name}, {threads} threads: the latency of onnx-tf: {error}")
                compare_runners(setting, f"{network.name}: tf2", threads, "onnx-compat", aims, children, findings)


def compare_runners(
    setting: Setting,
    subject: str,
    threads: int,
    ours: str,
    aims: Mapping[str, float | None],
    children: dict[str, Child],
    findings: Findings,
) -> None:
    """Measure the open runners `ours` and those in `aims` in turns, and append ratios and medians to `findings`.

    Each ratio is the latency of `ours` divided by that of a runner in `aims`.

    - subject: the network, and the kind of runner.
    - threads: the number of threads with which the runners were opened; it only labels the results.
    - aims: runner -> the largest ratio that meets the aim, or None without an aim.
    - children: runner -> the child process in which it is open; the key "" is for all other runners.
    """

    def runs(name: str, times: int = RUNS) -> list[float]:
        seconds: list[float] = children.get(name, children[""]).call("run", name=name, times=times)
        return seconds

    names = [ours, *aims]
    work = {name: partial(runs, name, runs_per_round(runs(name))) for name in names}
    samples = alternate(work, setting.rounds, PAUSE)
    subject = f"{subject}, latency, {threads} thread{'s' if threads > 1 else ''}"
    findings.ratios += [ratio(subject, samples, ours, name, aim) for name, aim in aims.items()]
    findings.figures += figures(subject, samples, "ms", 1e3)


def runs_per_round(durations: list[float]) -> int:
    """Return the number of runs in a round, from `RUNS` to `MOST`: the shorter a run, the more runs.

    `durations`: the seconds of some runs.
    """
    return max(RUNS, min(MOST, int(ENOUGH / max(min(durations), 1e-9))))

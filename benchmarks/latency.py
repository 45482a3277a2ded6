"""How long one image takes: the .tflite file beside onnx2tf's and onnxruntime, tf2 beside Keras' own network and onnx-tf."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial

from benchmarks.bench import Findings, Missing, Network, Setting
from benchmarks.measure import alternate, figures, ratio
from benchmarks.process import Child, ChildError

__all__ = ["PEER", "compare", "enough", "tf2_latency", "tflite_latency"]

RUNS = 5
"""Per round and runner, at least."""
ENOUGH, MOST = 5e-3, 500
"""Seconds that they take together, of something that takes some microseconds, and the most runs for that."""
PAUSE = 0.02
"""Seconds between runners: idle threads of the last one stop spinning."""
OWN = 1.05
"""The aim beside the framework's own network."""
PEER = 1.0
"""The aim beside another tool."""


def tflite_latency(setting: Setting, found: Findings) -> None:
    """All in one process, both files in the same interpreter. The files are those of the conversion bench, or made here."""
    _, python = setting.python("tflite-")
    for network in setting.networks:
        files = _files(setting, network, found)
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
                others = {name: PEER for name in (*files, "onnxruntime") if name != "onnx-compat"}
                compare(setting, f"{network.name}: .tflite", threads, "onnx-compat", others, {"": child}, found)


def _files(setting: Setting, network: Network, found: Findings) -> dict[str, str]:
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
            found.missing.append(f"{network.name}: the latency of {tool}'s file: {error}")
            continue
        files[tool] = str(path)
    return files


def tf2_latency(setting: Setting, found: Findings) -> None:
    """Ours and Keras' network in one process; onnx-tf in its own, with its own TensorFlow, in turns with them."""
    _, python = setting.python("tf2-")
    for network in setting.networks:
        for threads in setting.threads:
            with ExitStack() as stack:
                child = stack.enter_context(Child("tf2", python))
                model = {"threads": threads, "path": str(network.dynamic), "shape": network.shape}
                child.call("open", name="onnx-compat", kind="onnx-compat", **model)
                child.call("open", name="keras.applications", kind="keras", network=network.keras, **model)
                children, others = {"": child}, {"keras.applications": OWN}
                try:
                    peer = stack.enter_context(Child("onnx-tf", setting.python("onnx-tf")[1]))
                    peer.call("open", name="onnx-tf", kind="onnx-tf", **model)
                    children["onnx-tf"], others["onnx-tf"] = peer, PEER
                except (Missing, ChildError) as error:
                    found.missing.append(f"{network.name}, {threads} threads: the latency of onnx-tf: {error}")
                compare(setting, f"{network.name}: tf2", threads, "onnx-compat", others, children, found)


def compare(
    setting: Setting,
    what: str,
    threads: int,
    ours: str,
    others: Mapping[str, float | None],
    children: dict[str, Child],
    found: Findings,
) -> None:
    """Measure runners in turns; each lives in the child of its name, or in the one without a name."""

    def runs(name: str, times: int = RUNS) -> list[float]:
        seconds: list[float] = children.get(name, children[""]).call("run", name=name, times=times)
        return seconds

    names = [ours, *others]
    work = {name: partial(runs, name, enough(runs(name))) for name in names}
    samples = alternate(work, setting.rounds, PAUSE)
    what = f"{what}, latency, {threads} thread{'s' if threads > 1 else ''}"
    found.ratios += [ratio(what, samples, ours, name, aim) for name, aim in others.items()]
    found.figures += figures(what, samples, "ms", 1e3)


def enough(seconds: list[float]) -> int:
    """How many runs a round takes, of what has taken so long: a few of some microseconds say little."""
    return max(RUNS, min(MOST, int(ENOUGH / max(min(seconds), 1e-9))))

"""Measure a network: convert and verify it, then time our file, the package's own .tflite file and onnxruntime in turns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.measure import alternate
from benchmarks.process import Child
from matrix.real.catalog import Network

__all__ = ["measure_network"]

ROUNDS = 11
RUNS = 5
"""The number of runs of each runner in a round."""
PAUSE = 0.02
THREADS = 1


def measure_network(network: Network, files: dict[str, Path], python: str, scratch: Path) -> dict[str, Any]:
    """Convert, check and time a network. Return the results of `check` in benchmarks/child/real.py, and the latencies.

    The latencies have the key `milliseconds`: runner -> the median time of a run in the fastest round.

    `files`: path in the package -> path in the cache. `python`: the interpreter that converts and runs. `scratch`: a
    folder for files. Raise ChildError if the network cannot be converted or run.
    """
    model, path, feeds = str(files[network.onnx]), str(scratch / "ours.tflite"), str(scratch / "feeds.npz")
    theirs = str(files[network.tflite]) if network.tflite else None
    with Child(network.name, python) as child:
        result: dict[str, Any] = child.call(
            "real",
            model=model,
            path=path,
            feeds=feeds,
            shapes=network.shapes,
            values=network.values,
            fed=network.fed,
            ranges=network.ranges,
            theirs=theirs,
        )
        runners = {"ours": ("tflite", path), "onnxruntime": ("onnxruntime", model)}
        if theirs:
            runners["theirs"] = ("tflite", theirs)
        for name, (kind, model_path) in runners.items():
            child.call("open", name=name, kind=kind, threads=THREADS, path=model_path, feeds=feeds)

        def run(name: str) -> list[float]:
            seconds: list[float] = child.call("run", name=name, times=RUNS)
            return seconds

        samples = alternate({name: partial(run, name) for name in runners}, ROUNDS, PAUSE)
    result["milliseconds"] = {name: 1e3 * min(rounds) for name, rounds in samples.items()}
    return result

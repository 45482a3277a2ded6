"""One network: converted and verified in an environment of its own, then timed beside the package's own file and onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.measure import alternate
from benchmarks.process import Child
from matrix.real.catalog import Network

__all__ = ["measured"]

ROUNDS = 11
RUNS = 5
"""Per round and runner, after one that is not counted."""
PAUSE = 0.02
THREADS = 1


def measured(network: Network, files: dict[str, Path], python: str, scratch: Path) -> dict[str, Any]:
    """What became of it; ChildError where it does not come so far."""
    model, path, feeds = str(files[network.onnx]), str(scratch / "ours.tflite"), str(scratch / "feeds.npz")
    theirs = str(files[network.tflite]) if network.tflite else None
    with Child(network.name, python) as child:
        found: dict[str, Any] = child.call(
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
        for name, (kind, where) in runners.items():
            child.call("open", name=name, kind=kind, threads=THREADS, path=where, feeds=feeds)

        def run(name: str) -> list[float]:
            seconds: list[float] = child.call("run", name=name, times=RUNS)
            return seconds

        samples = alternate({name: lambda name=name: run(name) for name in runners}, ROUNDS, PAUSE)  # type: ignore[misc]
    found["milliseconds"] = {name: 1e3 * min(rounds) for name, rounds in samples.items()}
    return found

"""Measure a simplified model: count its nodes, compare its outputs with those of the source, and time it in onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

__all__ = ["RTOL", "compare_outputs", "count_nodes", "load_session", "measure_latencies"]

_RUNS = 2
"""A session runs so often before the next session runs."""
_ROUNDS = 5
"""Each session has so many turns at least."""
RTOL, ATOL = 1e-3, 1e-5
"""The tolerance of an output. The absolute tolerance counts relative to the largest number of the output, or 1."""


def count_nodes(path: Path) -> int:
    """Return the number of nodes, those of subgraphs included. A call of a function counts as the nodes of its body."""
    model = onnx.load(str(path), load_external_data=False)
    bodies = {(function.domain, function.name): function.node for function in model.functions}

    def count(nodes: Iterable[onnx.NodeProto]) -> int:
        total = 0
        for node in nodes:
            total += count(bodies[node.domain, node.op_type]) if (node.domain, node.op_type) in bodies else 1
            for attribute in node.attribute:
                total += sum(count(graph.node) for graph in (attribute.g, *attribute.graphs))
        return total

    return count(model.graph.node)


def load_session(path: Path, optimised: bool = True) -> Any:
    """Return a session of onnxruntime with one thread. `optimised`: whether onnxruntime optimises the graph."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def compare_outputs(source: Any, simplified: Any, feeds: Iterable[Mapping[str, Any]]) -> str:
    """Compare two sessions of onnxruntime. Return "" if their outputs agree, else the first difference as text.

    The names of the inputs and of the outputs must be equal, in the same order. For each feed, the dtypes and shapes of
    the outputs must be equal, and the numbers within the tolerance. An error of `source` is not caught.
    """
    names = [port.name for port in source.get_outputs()]
    output_names = [port.name for port in simplified.get_outputs()]
    if output_names != names:
        return f"outputs {output_names}, not {names}"
    expected = [port.name for port in source.get_inputs()]
    if [port.name for port in simplified.get_inputs()] != expected:
        return f"inputs {[port.name for port in simplified.get_inputs()]}, not {expected}"
    for feed in feeds:
        try:
            results = simplified.run(None, dict(feed))
        except Exception as error:  # noqa: BLE001 - onnxruntime has no common class of errors
            return f"does not run: {str(error)[:200]}"
        for name, got, wanted in zip(names, results, source.run(None, dict(feed))):
            if not is_close(got, wanted):
                return f"'{name}' differs"
    return ""


def is_close(got: Any, wanted: Any) -> bool:
    """Whether two outputs are equal within the tolerance: arrays, lists of arrays, maps, or None."""
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(is_close, got, wanted))
    if not isinstance(wanted, np.ndarray):
        return bool(got == wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    if wanted.dtype.kind not in "fc":
        return bool(np.array_equal(got, wanted))
    largest = np.nanmax(np.abs(wanted[np.isfinite(wanted)]), initial=1)
    return bool(np.allclose(got, wanted, RTOL, ATOL * largest, equal_nan=True))


def measure_latencies(sessions: Mapping[str, Any], feed: Mapping[str, Any], seconds: float) -> dict[str, float]:
    """Return label -> the seconds of the fastest run of each session. The sessions run in turn for `seconds` in total.

    Each session has `_ROUNDS` turns at least. The fastest run is the one that other processes disturb least. The time is
    that of this thread on the processor: a session has one thread.
    """
    fastest = dict.fromkeys(sessions, float("inf"))
    for session in sessions.values():
        session.run(None, dict(feed))
    end = time.perf_counter() + seconds
    turns = 0
    while turns < _ROUNDS or time.perf_counter() < end:
        turns += 1
        for label, session in sessions.items():
            for _ in range(_RUNS):
                start = time.thread_time()
                session.run(None, feed)
                fastest[label] = min(fastest[label], time.thread_time() - start)
    return fastest

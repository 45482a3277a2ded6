"""Shrinker: apply reductions to a case as long as it fails in the same way. The oracle computes each candidate again."""

from __future__ import annotations

import hashlib
import json
import re
import time
from typing import Any, Callable, Dict, List, Optional

import numpy as np

from matrix.fuzz.document import dump_case
from matrix.fuzz.execution import ERROR, Outcome
from matrix.fuzz.graphs import Case, Graph, Port, Run
from matrix.fuzz.oracle import OracleError, compute
from matrix.fuzz.reductions import REDUCTIONS, Values, prune

__all__ = ["digest", "shrink", "signature"]

#: Wider than in a generated case: the operands of a shrunk case are not checked for rounding.
ATOL = 1e-3


def signature(outcome: Outcome) -> str:
    """Return a text that is equal for failures of the same cause: the kind of the outcome.

    For ERROR, the text also has the class of the error and its position, `<file>:<line>`.
    """
    if outcome.kind != ERROR:
        return outcome.kind
    error, position = outcome.detail.split(":", 1)[0], re.search(r"\(([\w.]+:\d+)\)$", outcome.detail)
    return "%s %s %s" % (outcome.kind, error, position.group(1) if position else "")


def digest(case: Case) -> str:
    """Return 8 hexadecimal digits, a hash of the content of a case without its seed."""
    document = {key: value for key, value in dump_case(case).items() if key != "seed"}
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:8]


def shrink(case: Case, outcome: Outcome, run: Callable[[Case], Outcome], seconds: float = 60.0) -> Case:
    """Return the smallest case found within `seconds` that fails like `case`, whose outcome is `outcome`.

    A case fails alike if its outcome has the same `signature`. `run`: the function that runs a case on the shim.
    Without a smaller case, `case` itself is returned.
    """
    wanted = signature(outcome)
    end = time.monotonic() + seconds
    smaller = True
    while smaller and time.monotonic() < end:
        smaller = False
        for reduction in REDUCTIONS:
            applied = True
            while applied and time.monotonic() < end:
                values = _all_values(case)
                if values is None:
                    return case
                applied = False
                for candidate in reduction(case, values):
                    settled = _settle(candidate)
                    if settled is not None and signature(run(settled)) == wanted:
                        case, applied, smaller = settled, True, True
                        break
                    if time.monotonic() > end:
                        break
    return case


def _settle(candidate: Case) -> Optional[Case]:
    """Return the candidate, pruned, with the results of the oracle as its expected outputs.

    Returns None if no node is left, if the oracle refuses the candidate, or if an output is not plain (see
    `_is_plain`).
    """
    candidate = prune(candidate)
    if not candidate.graph.nodes:
        return None
    try:
        results = compute(candidate.graph, candidate.opset, [run.feeds for run in candidate.runs])
    except OracleError:
        return None
    ports: List[Port] = []
    for port, value in zip(candidate.graph.outputs, results[0]):
        if isinstance(value, np.ndarray):
            port = port._replace(dtype=value.dtype.name, shape=("?",) * value.ndim)
        ports.append(port)
    names = [port.name for port in ports]
    runs = []
    for run, outputs in zip(candidate.runs, results):
        if not all(_is_plain(value) for value in outputs):
            return None
        expected = dict(zip(names, outputs))
        runs.append(Run(run.feeds, expected, {name: _atol(value) for name, value in expected.items()}))
    graph: Graph = candidate.graph._replace(outputs=tuple(ports))
    return candidate._replace(graph=graph, runs=tuple(runs))


def _all_values(case: Case) -> Optional[Values]:
    """Return name -> value of all values of the graph, for each run.

    Returns None if the oracle refuses the graph with all values as outputs.
    """
    produced = [name for node in case.graph.nodes for name in node.outputs]
    graph = case.graph._replace(outputs=tuple(Port(name, "float32", None) for name in produced))
    try:
        results = compute(graph, case.opset, [run.feeds for run in case.runs])
    except OracleError:
        return None
    values: List[Dict[str, Any]] = []
    for run, outputs in zip(case.runs, results):
        values.append({**run.feeds, **case.graph.initializers, **dict(zip(produced, outputs))})
    return values


def _is_plain(value: Any) -> bool:
    """Whether a value is finite, below 1e5 in magnitude, and neither an empty optional nor an empty sequence."""
    if isinstance(value, list):
        return bool(value) and all(_is_plain(item) for item in value)
    if not isinstance(value, np.ndarray):
        return False
    return value.dtype.kind != "f" or bool(np.isfinite(value).all() and (np.abs(value) < 1e5).all())


def _atol(value: Any) -> float:
    """Return the absolute tolerance of an output; of a sequence, the greatest of an item. 0.0 without floats."""
    if isinstance(value, list):
        return max(_atol(item) for item in value)
    return ATOL * max(1.0, float(np.abs(value).max())) if value.dtype.kind == "f" and value.size else 0.0

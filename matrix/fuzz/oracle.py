"""Oracles of a whole model: onnxruntime without optimisation, and the ReferenceEvaluator where onnxruntime refuses."""

from __future__ import annotations

from typing import Any, Dict, List

from matrix.fuzz.evaluation import evaluator_of, session_of
from matrix.fuzz.graphs import Case, Graph, Run
from matrix.harness.compare import Mismatch, compare

__all__ = ["OracleError", "check_oracles", "compute"]

#: Half of the tolerance of the shims, so that the oracles leave them the other half.
RTOL = 5e-4


#: What onnxruntime says of an operator or a type that it does not implement. Any other error says that the graph is invalid.
_MISSING = ("NOT_IMPLEMENTED", "is not a registered function/op", "No Op registered", "Type Error: Type 'tensor(")


class OracleError(Exception):
    """The oracles refuse the graph, or an output of the oracle differs from the expected output."""


def check_oracles(case: Case) -> None:
    """Raise OracleError unless the oracle computes the expected outputs of a case, within half of the tolerance.

    The expected outputs were computed node by node.
    """
    runs = compute(case.graph, case.opset, [run.feeds for run in case.runs])
    for run, outputs in zip(case.runs, runs):
        _compare(run, outputs)


def compute(graph: Graph, opset: int, feeds: List[Dict[str, Any]]) -> List[List[Any]]:
    """Return the outputs of a graph for each of `feeds`: a list of values.

    onnxruntime computes them, or the ReferenceEvaluator if onnxruntime lacks an operator or a type. Raises OracleError
    for any other error of onnxruntime, and if the ReferenceEvaluator fails too.
    """
    try:
        run = session_of(graph, opset)
        return [run(feed) for feed in feeds]
    except Exception as error:  # noqa: BLE001 - onnxruntime has an exception for each of its codes
        if not any(text in str(error) for text in _MISSING):
            raise OracleError("refused: %s" % str(error)[-200:]) from None
    try:
        run = evaluator_of(graph, opset)
        return [run(feed) for feed in feeds]
    except Exception as error:  # noqa: BLE001 - an implementation of an operator raises any exception
        raise OracleError("refused by both: %s" % str(error)[-200:]) from None


def _compare(run: Run, outputs: List[Any]) -> None:
    """Raise OracleError if an output differs from the expected output of the run by more than half of the tolerance."""
    for output, (name, wanted) in zip(outputs, run.expected.items()):
        try:
            compare(name, output, wanted, RTOL, run.atol[name] / 2)
        except Mismatch as mismatch:
            raise OracleError("differ: %s" % mismatch) from None

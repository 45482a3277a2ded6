"""Write the programs of a case as ONNX, read them, and write them again: the tasks of the row `round_trip`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from matrix.harness.compare import Mismatch, compare, compare_kind
from matrix.harness.gaps import find_gap, load_gaps
from matrix.harness.run import run_case
from matrix.retarget.outcomes import CHANGED, FIXED_POINT, NO_PROGRAM, REFUSED, VOID, WRONG
from matrix.suites.cache import Case
from onnx_compat.conversion.attempt import emit_model
from onnx_compat.discovery.selection import find
from onnx_compat.errors import OnnxCompatError
from onnx_compat.execution.plan import TracedModel
from onnx_compat.execution.runnable import Runnable
from onnx_compat.model import load
from onnx_compat.onnx_shim.emission import write_program
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.shim import OnnxShim
from onnx_compat.onnx_shim.signatures import newest_opset
from onnx_compat.shim.interface import Compiled, Emitter, Program

__all__ = ["Recorder", "Run", "Written", "check_program", "examine"]

_RECORDED_WRONG = Path(__file__).resolve().parents[2] / "tests" / "gaps" / "recorded.toml"
_ATOL = 1e-6


class Run(NamedTuple):
    """A run of a program: the program, the arrays of its inputs, and its results, as carrier arrays."""

    program: Program
    arrays: List[np.ndarray]
    results: List[np.ndarray]


class Written(Compiled):
    """Writes a program as an ONNX model, and runs that model in the reference. Each run is appended to `runs`."""

    def __init__(self, program: Program, runs: List[Run]) -> None:
        self._program = program
        self._runs = runs
        self.native = Runnable(load(write(program).SerializeToString()), find("reference"), None, True, True)

    def run(self, arrays: Sequence[np.ndarray]) -> List[np.ndarray]:
        """Run the written model on carrier arrays, and record the run. Return the carrier arrays of the results."""
        pairs = zip(self.native.inputs, self._program.inputs, arrays)
        feed: Any = {declared.name: (array, port.dtype) for declared, port, array in pairs}
        results = [np.asarray(result[0]) for result in self.native.run_checked(feed)]
        self._runs.append(Run(self._program, [np.array(array) for array in arrays], results))
        return results


class Recorder(OnnxShim):
    """The shim `onnx` with the operators of the newest opset. It appends each run of its programs to `runs`."""

    def __init__(self) -> None:
        super().__init__()
        self.runs: List[Run] = []

    def emitter(self) -> Emitter:
        """Return an emitter for the newest opset."""
        return OnnxEmitter(OperatorOffer(newest_opset()))

    def compile(self, program: Program, device: Optional[str] = None) -> Compiled:
        """Write a program as ONNX, and return an object that runs the written model. `device` has no effect."""
        return Written(program, self.runs)


def write(program: Program) -> Any:
    """Return a program as an onnx.ModelProto of the newest opset."""
    return write_program(program, newest_opset())


def examine(case: List[Any]) -> Tuple[str, str]:
    """Run a case, check the round trip of each of its programs, and return (outcome, detail).

    The outcome is the first that is not FIXED_POINT, if a program has such an outcome. `case`: its row of the index.
    """
    row = Case(*case)
    if find_gap(load_gaps(_RECORDED_WRONG), [row.id]) is not None:
        return VOID, ""
    recorder = Recorder()
    try:
        run_case(lambda model, shim, **_: Runnable(load(model), recorder, None, True, True), row, None)
    except Mismatch as error:
        return WRONG, "the first program: %s" % error
    except OnnxCompatError as error:
        return REFUSED, "the model: %s" % error.reason
    for run in recorder.runs:
        outcome, detail = check_program(run, row, recorder)
        if outcome != FIXED_POINT:
            return outcome, detail[:300]
    return (FIXED_POINT, "") if recorder.runs else (NO_PROGRAM, "")


def check_program(run: Run, case: Case, shim: OnnxShim) -> Tuple[str, str]:
    """Write a program as ONNX three times, and return (outcome, detail).

    The second and the third program are traces of the model that was written before. The second program runs on the
    inputs of `run`, and its results must agree. The second and the third written model must be equal.
    """
    program, writings = run.program, []
    results: List[np.ndarray] = []
    for number in ("first", "second", "third"):
        try:
            writings.append(write(program))
            if number == "second":
                results = Written(program, []).run(run.arrays)
            if number != "third":
                program = trace(writings[-1].SerializeToString(), shim)
        except OnnxCompatError as error:
            return REFUSED, "the %s program: %s" % (number, error.reason)
    problem = compare_results(run, results, case)
    if problem:
        return WRONG, "the second program: " + problem
    if writings[1].SerializeToString() != writings[2].SerializeToString():
        return CHANGED, first_difference(writings[1], writings[2])
    return FIXED_POINT, ""


def trace(content: bytes, shim: OnnxShim) -> Program:
    """Trace a serialised ONNX model on a shim, and return its program."""
    traced: List[TracedModel] = []
    emit_model(load(content), shim, traced.append)
    return traced[0].program


def compare_results(run: Run, results: Sequence[np.ndarray], case: Case) -> str:
    """Return the first difference of `results` from the results of `run` as text; "" if they agree.

    Of a case that draws random numbers, only dtypes and shapes are compared.
    """
    for port, got, wanted in zip(run.program.outputs, results, run.results):
        try:
            if "random" in case.tags:
                compare_kind(port.name, got, wanted)
            else:
                compare(port.name, got, wanted, case.rtol, max(case.atol, _ATOL))
        except Mismatch as error:
            return str(error)
    return ""


def first_difference(before: Any, after: Any) -> str:
    """Return a text: the numbers of nodes of two models, and the first lines in which their texts differ."""
    lines = [str(model).splitlines() for model in (before, after)]
    pairs = [(old.strip(), new.strip()) for old, new in zip(*lines) if old != new]
    nodes = [len(model.graph.node) for model in (before, after)]
    return "%d and %d nodes; first '%s', then '%s'" % (*nodes, *(pairs[0] if pairs else ("", "")))

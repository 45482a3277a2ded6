"""Run of a case on a shim, and its outcome."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

from matrix.fuzz.graphs import Case, Run, to_model
from matrix.harness.compare import Mismatch, compare

__all__ = ["DIED", "ERROR", "FAILURES", "FALLBACK", "FORMS", "HUNG", "REFUSED", "SAME", "WRONG", "Outcome", "execute"]

SAME, FALLBACK, REFUSED = "same", "fallback", "refused"
WRONG, ERROR, DIED, HUNG = FAILURES = ("wrong", "error", "died", "hung")
FORMS = {"tflite": ".tflite", "keras": ".keras", "saved_model": "", "graphdef": ".pb"}
"""Format -> the suffix of its files."""
RTOL = 1e-3
LONGEST = 600


class Outcome(NamedTuple):
    """The outcome of a case.

    - `same`: the expected outputs; `fallback`: the same, and nodes ran outside of the framework
    - `refused`: an error of this library says that the case is not supported
    - `wrong`: other outputs; `error`: any other error; `died`, `hung`: no answer

    `detail`: the text of the difference or the error; for `fallback`, the operators that ran outside.
    """

    kind: str
    detail: str = ""
    output: str = ""
    """The first wrong output."""


def execute(case: Case, shim: str, form: Optional[str] = None) -> Outcome:
    """Run a case on a shim, and return the outcome. An exception is an outcome too.

    `form`: the format of the file that is written and run; None prepares the model in this process.
    """
    from onnx_compat.errors import InputError, InvalidModelError, OnnxCompatError, VerificationError

    try:
        return _compare(case, shim, form)
    except (InputError, InvalidModelError, VerificationError) as error:  # of a valid model, with valid feeds
        return Outcome(ERROR, _describe(error))
    except OnnxCompatError as error:  # of the base class: the framework stopped while it computed
        return Outcome(ERROR if type(error) is OnnxCompatError else REFUSED, _describe(error))
    except Exception as error:  # noqa: BLE001 - any exception is the outcome of the case
        return Outcome(ERROR, _describe(error))


def _compare(case: Case, shim: str, form: Optional[str]) -> Outcome:
    """Run the feeds of a case on one prepared model, or on one file of the format `form`, and compare.

    Returns WRONG with the first difference, else FALLBACK or SAME. The errors of this library and of the framework are
    not caught.
    """
    import onnx_compat

    model = to_model(case.graph, case.opset).SerializeToString()
    if form is None:
        return _compare_runs(case, onnx_compat.prepare(model, shim=shim), form)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model" + FORMS[form])
        onnx_compat.convert(model, path, to=form, shim=shim)
        return _compare_runs(case, onnx_compat.load_converted(path), form)


def _compare_runs(case: Case, runnable: Any, form: Optional[str]) -> Outcome:
    """Run the feeds of a case on a model or a file, and return WRONG, FALLBACK or SAME.

    `form`: the format of the file; None for a prepared model.
    """
    for index, run in enumerate(case.runs):
        outputs = runnable.run(run.feeds)
        if form is not None:  # a file also has an output for each element of a sequence
            named = outputs.as_dict()
            outputs = [named[name] for name in run.expected]
        wrong = _first_difference(_narrow(run, outputs) if form == "keras" else run, outputs, index)
        if wrong is not None:
            return wrong
    fallbacks: Sequence[str] = getattr(runnable, "fallbacks", [])
    return Outcome(FALLBACK, " ".join(sorted(_operators(fallbacks)))) if fallbacks else Outcome(SAME)


def _narrow(run: Run, outputs: Sequence[Any]) -> Run:
    """Return the run with int32 as the expected dtype where `outputs` has int32 in place of int64.

    Keras narrows some results of a .keras file.
    """
    expected = dict(run.expected)
    for name, output in zip(expected, outputs):
        dtypes = getattr(expected[name], "dtype", None), getattr(output, "dtype", None)
        if dtypes == (np.int64, np.int32):
            expected[name] = expected[name].astype(np.int32)
    return run._replace(expected=expected)


def _first_difference(run: Run, outputs: Sequence[Any], index: int) -> Optional[Outcome]:
    """Return WRONG for the first output that differs from the expected output, or None. `index`: the run's number."""
    if len(outputs) != len(run.expected):
        return Outcome(WRONG, "expected %d outputs, got %d" % (len(run.expected), len(outputs)))
    for output, (name, wanted) in zip(outputs, run.expected.items()):
        try:
            compare(name, output, wanted, RTOL, run.atol[name])
        except Mismatch as mismatch:
            return Outcome(WRONG, ("run %d: %s" % (index, mismatch))[:LONGEST], name)
    return None


def _operators(names: Sequence[str]) -> List[str]:
    """Return the operators of nodes with these names, sorted. A generated name ends with `<operator>_<index>`."""
    return sorted({name.rpartition("/")[2].rpartition("_")[0] for name in names})


def _describe(error: Exception) -> str:
    """Return `<class>: <message> (<file>:<line>)`, with the position where the error was raised."""
    import traceback

    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1] if frames else None
    where = "" if last is None else " (%s:%s)" % (Path(last.filename).name, last.lineno)
    return ("%s: %s" % (type(error).__name__, error))[:LONGEST] + where

"""Run a case on a shim: run all its data sets on one prepared model, compare the outputs, and judge the outcome."""

from __future__ import annotations

import os
from typing import Any, Callable, List, NamedTuple, Optional

import onnx

from .chance import check_sample
from .compare import Mismatch, compare, compare_kind
from .gaps import Gap, GapError
from .variants import RECORDED, VARIANTS, loosen_shapes

__all__ = ["FAIL", "FALLBACK", "GAP", "OUTCOMES", "PASS", "Retraced", "Verdict", "judge", "run_case"]

PASS, FALLBACK, GAP, FAIL = OUTCOMES = ("pass", "fallback", "gap", "fail")

#: The relative tolerance of an output of bfloat16: two units in the last place. Runtimes that round each step to 16 bits
#: differ by that much. onnx's own test runner has the same tolerance.
COARSE = 2.0**-6


class Retraced(AssertionError):
    """A model with symbolic sizes was traced again for another size, on a framework that supports symbolic sizes."""


class Verdict(NamedTuple):
    """The outcome of a case (pass, fallback, gap or fail), with its detail as text."""

    outcome: str
    detail: str
    error: Optional[BaseException]
    """The exception that the pytest test must raise; None unless the outcome is `fail`."""


def run_case(prepare: Callable[..., Any], case: Any, shim: Optional[str], variant: str = RECORDED) -> List[str]:
    """Run all data sets of a case on one prepared model, and compare. Return the names of the nodes in the fallback.

    `prepare`: the function `onnx_compat.prepare`, or a function with its arguments and result. `shim` None: the default
    of `prepare`. Of a model that draws random numbers, dtypes, shapes and the distribution are compared.

    Raises Mismatch for a wrong output, and Retraced for a model with symbolic sizes that is traced again. Errors of the
    shim are not caught.
    """
    chosen_variant = VARIANTS[variant]
    runnable = prepare(chosen_variant.model(str(case.model)), shim=shim, **chosen_variant.options)
    is_random = "random" in case.tags
    traces: Optional[int] = None
    for k, data in enumerate(case.data_sets()):
        outputs = list(runnable.run(data.inputs))
        if len(outputs) != len(data.outputs):
            raise Mismatch("expected %d outputs, got %d" % (len(data.outputs), len(outputs)))
        for got, (name, wanted) in zip(outputs, data.outputs.items()):
            output_name = name if case.sets == 1 else "%s of data set %d" % (name, k)
            if is_random:
                compare_kind(output_name, got, wanted)
            else:
                rtol = max(case.rtol, COARSE) if name in data.coarse else case.rtol
                compare(output_name, got, wanted, rtol, case.atol)
        if is_random:
            large = prepare(loosen_shapes(str(case.model), ranks=False), shim=shim, **chosen_variant.options)
            check_sample(onnx.load(str(case.model)), large.run, data.inputs)
        traces = getattr(runnable, "traces", None) if traces is None else traces
    if "dynamic" in case.tags and not _compiles_per_shape() and getattr(runnable, "traces", None) != traces:
        raise Retraced("traced %d times for %d data sets" % (runnable.traces, case.sets))
    return [str(node) for node in getattr(runnable, "fallbacks", ())]


def judge(error: Optional[Exception], fallbacks: List[str], gap: Optional[Gap]) -> Verdict:
    """Return the verdict on a run.

    - error: the exception that the run raised, or None.
    - fallbacks: the names of the nodes that ran in the fallback.
    - gap: the gap that covers the case, or None.

    Without a gap, the outcome is FAIL with an error, FALLBACK with fallbacks, else PASS. With a gap, it is GAP if the
    error has exactly the class that the gap names, else FAIL with a GapError.
    """
    message = "" if error is None else "%s: %s" % (type(error).__name__, (str(error).splitlines() or [""])[0])
    if gap is None:
        if error is not None:
            return Verdict(FAIL, message, error)
        return Verdict(FALLBACK, ", ".join(fallbacks), None) if fallbacks else Verdict(PASS, "", None)
    if error is None:
        return _contradict(gap, "passes: remove it")
    if type(error).__name__ != gap.exception:
        return _contradict(gap, "expects %s, but raised %s" % (gap.exception, message), error)
    return Verdict(GAP, "%s: %s" % (gap.kind, gap.reason), None)


def _contradict(gap: Gap, text: str, cause: Optional[Exception] = None) -> Verdict:
    """Return the verdict FAIL with a GapError, whose cause is the error of the run; None: the run has no error."""
    error = GapError("the declared gap of %s %s" % (" ".join(gap.patterns), text))
    error.__cause__ = cause
    return Verdict(FAIL, str(error), error)


def _compiles_per_shape() -> bool:
    """Whether the back end of Keras is JAX. It compiles for each shape, so symbolic sizes do not avoid a new trace."""
    return os.environ.get("KERAS_BACKEND") == "jax"

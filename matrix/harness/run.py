"""One case on one shim: run all its data sets on one prepared model, compare, and judge what happened."""

from __future__ import annotations

import os
from typing import Any, Callable, List, NamedTuple, Optional

import onnx

from .chance import check_sample
from .compare import Mismatch, compare, compare_kind
from .gaps import Gap, GapError
from .variants import RECORDED, VARIANTS, loosened

__all__ = ["FAIL", "FALLBACK", "GAP", "OUTCOMES", "PASS", "Retraced", "Verdict", "judge", "run_case"]

PASS, FALLBACK, GAP, FAIL = OUTCOMES = ("pass", "fallback", "gap", "fail")

#: Two units in the last place of a bfloat16: where each step is rounded to 16 bits, no two runtimes agree better. onnx's
#: own runner allows as much.
COARSE = 2.0**-6


class Retraced(AssertionError):
    """A model with open dimensions was traced again for another size, where the framework knows open dimensions."""


class Verdict(NamedTuple):
    outcome: str
    detail: str
    error: Optional[BaseException]
    """What the test must raise: set exactly when the outcome is a failure."""


def run_case(prepare: Callable[..., Any], case: Any, shim: Optional[str], variant: str = RECORDED) -> List[str]:
    """Run a case; gives the nodes that ran in the fallback. Raises what the shim raises, `Mismatch`, or `Retraced`."""
    way = VARIANTS[variant]
    runnable = prepare(way.model(str(case.model)), shim=shim, **way.options)
    drawn = "random" in case.tags
    traces: Optional[int] = None
    for k, data in enumerate(case.data_sets()):
        outputs = list(runnable.run(data.inputs))
        if len(outputs) != len(data.outputs):
            raise Mismatch("expected %d outputs, got %d" % (len(data.outputs), len(outputs)))
        for got, (name, wanted) in zip(outputs, data.outputs.items()):
            told = name if case.sets == 1 else "%s of data set %d" % (name, k)
            if drawn:
                compare_kind(told, got, wanted)
            else:
                rtol = max(case.rtol, COARSE) if name in data.coarse else case.rtol
                compare(told, got, wanted, rtol, case.atol)
        if drawn:
            large = prepare(loosened(str(case.model), ranks=False), shim=shim, **way.options)
            check_sample(onnx.load(str(case.model)), large.run, data.inputs)
        traces = getattr(runnable, "traces", None) if traces is None else traces
    if "dynamic" in case.tags and not _compiles_per_shape() and getattr(runnable, "traces", None) != traces:
        raise Retraced("traced %d times for %d data sets" % (runnable.traces, case.sets))
    return [str(node) for node in getattr(runnable, "fallbacks", ())]


def judge(error: Optional[Exception], fallbacks: List[str], gap: Optional[Gap]) -> Verdict:
    """Which of the four outcomes this is. A case that a gap lists fails unless it raises exactly what the gap says."""
    told = "" if error is None else "%s: %s" % (type(error).__name__, (str(error).splitlines() or [""])[0])
    if gap is None:
        if error is not None:
            return Verdict(FAIL, told, error)
        return Verdict(FALLBACK, ", ".join(fallbacks), None) if fallbacks else Verdict(PASS, "", None)
    if error is None:
        return _against(gap, "passes: remove it")
    if type(error).__name__ != gap.exception:
        return _against(gap, "expects %s, but raised %s" % (gap.exception, told), error)
    return Verdict(GAP, "%s: %s" % (gap.kind, gap.reason), None)


def _against(gap: Gap, text: str, cause: Optional[Exception] = None) -> Verdict:
    error = GapError("the declared gap of %s %s" % (" ".join(gap.patterns), text))
    error.__cause__ = cause
    return Verdict(FAIL, str(error), error)


def _compiles_per_shape() -> bool:
    """JAX does, and open dimensions change nothing about it."""
    return os.environ.get("KERAS_BACKEND") == "jax"

"""Convert a case to a file, run the file, and compare: it agrees, is refused with a reason, or is wrong."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple

import numpy as np

import onnx_compat
from matrix.suites.cache import Case
from onnx_compat.discovery.selection import find
from onnx_compat.errors import NeedsKnownError

from .compare import Mismatch, compare, compare_kind
from .gaps import find_gap, load_gaps
from .run import COARSE

__all__ = [
    "AGREES",
    "FIXED",
    "REFUSED",
    "WRONG",
    "Outcome",
    "general_reason",
    "newest",
    "survey_case",
]

AGREES, FIXED, REFUSED, WRONG = "agrees", "agrees with fixed inputs", "refused", "wrong"
_RECORDED_WRONG = Path(__file__).parents[2] / "tests" / "gaps" / "recorded.toml"
#: The errors that refuse a valid model. Any other error is a wrong outcome.
_REFUSALS = (onnx_compat.UnsupportedError, onnx_compat.ConversionError, onnx_compat.LimitError)


class Outcome(NamedTuple):
    """The outcome of a case: `AGREES`, `FIXED`, `REFUSED` or `WRONG`.

    - case: the id of the case.
    - operator: the refused operator, if the error names it.
    - reason: why the case is refused or wrong, as text.
    """

    case: str
    outcome: str
    operator: str = ""
    reason: str = ""


def newest(rows: Iterable[Case]) -> List[Case]:
    """Return the row of the newest release for each suite and name, sorted, without cases that are recorded wrong.

    `rows`: the rows of indexes, each sorted by release. `tests/gaps/recorded.toml` declares the cases that are recorded
    wrong.
    """
    newest_rows = {(row.suite, row.name): row for row in rows}  # an index is sorted by release
    gaps = load_gaps(_RECORDED_WRONG)
    return [row for _, row in sorted(newest_rows.items()) if find_gap(gaps, [row.id]) is None]


def survey_case(case: Case, form: str, shim: str) -> Outcome:
    """Convert a case to a file of the format `form`, run the file on all data sets, and return the outcome.

    - AGREES: all outputs are as recorded.
    - FIXED: as AGREES, but the file needs known values of inputs, so those of the only data set are fixed.
    - REFUSED: the conversion raises an error that refuses a valid model.
    - WRONG: the conversion raises any other error, the file does not run, or an output differs.
    """
    fixed: Dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model" + find(shim).formats[form][0])
        try:
            while True:
                try:
                    onnx_compat.convert(str(case.model), path, to=form, shim=shim, values=fixed or None)
                    break
                except onnx_compat.ConversionError as error:
                    needed = _values_to_fix(error, case)
                    if not set(needed) - set(fixed):
                        raise
                    fixed.update(needed)
        except _REFUSALS as error:
            return Outcome(case.id, REFUSED, str(error.operator or ""), error.reason)
        except Exception as error:  # noqa: BLE001 - any other exception is the outcome of the case
            return Outcome(case.id, WRONG, reason="convert: %s" % _first_line(error))
        try:
            _run_file(path, case, shim)
        except Exception as error:  # noqa: BLE001 - any exception is the outcome of the case
            return Outcome(case.id, WRONG, reason=_first_line(error))
    return Outcome(case.id, FIXED if fixed else AGREES)


def _values_to_fix(error: onnx_compat.ConversionError, case: Case) -> Dict[str, Any]:
    """Return {name: value} of the inputs that a refused file needs as known values.

    Returns {} if the file was refused for another reason, or if the case has more than one data set.
    """
    cause = error.__cause__
    if not isinstance(cause, NeedsKnownError) or case.sets != 1:
        return {}
    (data,) = case.data_sets()
    return {name: value for name, value in data.inputs.items() if name in cause.values}


def _run_file(path: Path, case: Case, shim: str) -> None:
    """Run a file on all data sets of a case. Raises Mismatch if an output is absent, or not as recorded.

    Of a model that draws random numbers, only dtypes and shapes are compared. Errors of the shim are not caught.
    """
    converted = onnx_compat.load_converted(path, shim=shim)
    for data in case.data_sets():
        outputs = converted.run(data.inputs).as_dict()
        for name, wanted in data.outputs.items():
            if name not in outputs:
                raise Mismatch("the file has no output '%s'" % name)
            if "random" in case.tags:
                compare_kind(name, outputs[name], np.asarray(wanted))
            else:
                compare(
                    name, outputs[name], wanted, max(case.rtol, COARSE) if name in data.coarse else case.rtol, case.atol
                )


def _first_line(error: Exception) -> str:
    return "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:300])


def general_reason(reason: str) -> str:
    """Return the first line of a reason, with `_` in place of names, numbers and lists.

    Equal causes then have equal texts.
    """
    return re.sub(r"'[^']*'|\b\d[\d.]*\b|\[[^\]]*\]", "_", (reason.splitlines() or [""])[0])

"""The outcomes of damaged inputs."""

from __future__ import annotations

import hashlib
import traceback
from pathlib import Path
from typing import Any, Callable

from matrix.fuzz.execution import DIED, HUNG, LONGEST, REFUSED, WRONG, Outcome

__all__ = ["BROKEN", "FAILURES", "RAN", "UNFORESEEN", "UNTYPED", "Broken", "judge", "store_failure"]

RAN, UNFORESEEN, UNTYPED, BROKEN = "ran", "unforeseen", "untyped", "broken"
FAILURES = (UNTYPED, BROKEN, WRONG, DIED, HUNG)
#: The reason of the interpreter for an exception of a meaning that the meaning did not foresee.
_RAW_MEANING = "its meaning could not be applied to these inputs"


class Broken(Exception):
    """A conversion that succeeded gave a file that does not run, or has other results: `kind` is BROKEN or WRONG."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def judge(call: Callable[[], Any]) -> Outcome:
    """Call a function, and return the outcome.

    - `ran`: no error; `refused`: a typed error that this library foresees
    - `unforeseen`: an UnexpectedError, or another typed error that was made from an exception that no code foresees
    - `untyped`: any other exception
    - `broken`, `wrong`: the function raised `Broken`
    """
    from onnx_compat.errors import OnnxCompatError, UnexpectedError

    try:
        call()
    except OnnxCompatError as error:
        if isinstance(error, UnexpectedError) or _RAW_MEANING in error.reason:
            return Outcome(UNFORESEEN, _describe(error.__cause__ or error))
        return Outcome(REFUSED, ("%s: %s" % (type(error).__name__, error.reason))[:LONGEST])
    except Broken as error:
        return Outcome(error.kind, str(error)[:LONGEST])
    except Exception as error:  # noqa: BLE001 - any exception is the outcome of the input
        return Outcome(UNTYPED, _describe(error))
    return Outcome(RAN)


def _describe(error: BaseException) -> str:
    """Return `<class>: <message> (<file>:<line>)` of the first cause of an error.

    The position is the last one in this library; it is left out if there is no position in it.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "onnx_compat" in frame.filename]
    where = " (%s:%s)" % (Path(own[-1].filename).name, own[-1].lineno) if own else ""
    return ("%s: %s" % (type(error).__name__, error))[:LONGEST] + where


def store_failure(folder: Path, outcome: str, detail: str, data: bytes, suffix: str) -> None:
    """Store a failing input as `<outcome>-<digest><suffix>` in a folder, and its error in a `.txt` file beside it."""
    file = folder / ("%s-%s%s" % (outcome, hashlib.sha256(data).hexdigest()[:10], suffix))
    file.write_bytes(data)
    file.with_name(file.name + ".txt").write_text(detail + "\n", encoding="utf-8", errors="replace")

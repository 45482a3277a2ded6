"""Child process in the environment of a peer: it reads a case per line of standard input, and writes its outcome per
line.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

import numpy as np

from matrix.harness.gaps import find_gap, load_gaps
from matrix.harness.run import FAIL, GAP, PASS, run_case
from matrix.suites.cache import Case, cache_dir

__all__ = ["Prepared", "judge_error", "main", "plain"]

_RECORDED_WRONG = Path(__file__).resolve().parents[2] / "tests" / "gaps" / "recorded.toml"
LONGEST = 400
_AT_THE_END = ("in user code:", "Graph execution error:")
"""Ends of the first line of TensorFlow's messages whose last line states the error."""


class Prepared(NamedTuple):
    """A prepared model of a peer: a runnable for `run_case`. `call`: the function that its `prepare` returned."""

    call: Callable[[Dict[str, Any]], Sequence[Any]]

    def run(self, inputs: Dict[str, Any]) -> List[Any]:
        """Return the outputs, converted to the types of the recorded outputs."""
        return [plain(value) for value in self.call(inputs)]


def plain(value: Any) -> Any:
    """Convert an output to the type of the recorded outputs: numpy scalars to arrays, arrays of strings to dtype
    object.

    Lists and dicts are converted by item, tuples to lists. Any other value stays.
    """
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def main(module: str, options: Dict[str, Any]) -> None:
    """Run the cases from standard input, a JSON document on each line, until it ends, and answer each with a line.

    The first answer describes the environment. Prints of frameworks go to standard error. `module`: the import name of
    a module in `matrix.peers.tools`. `options`: keyword arguments of its function `prepare`.
    """
    # Frameworks print to standard output; it is redirected to standard error, so that each line here is an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    tool = importlib.import_module(module)
    environment = {
        "python": "%d.%d" % sys.version_info[:2],
        "versions": {name: metadata.version(name) for name in tool.PACKAGES},
    }
    _answer(answers, {"leaks": tool.LEAKS, "about": environment})
    known_wrong = load_gaps(_RECORDED_WRONG)
    for line in sys.stdin:
        case = Case(**json.loads(line))
        start = time.perf_counter()
        error: Optional[BaseException] = None
        try:
            run_case(lambda model, shim: Prepared(tool.prepare(model, **options)), case, None)
        except (Exception, SystemExit) as raised:  # noqa: BLE001 - any exception is the outcome of the case
            error = raised
        seconds = round(time.perf_counter() - start, 3)
        outcome, detail = judge_error(error, tool.REFUSED)
        wrong = find_gap(known_wrong, [case.id])
        if outcome == FAIL and wrong is not None and type(error).__name__ == wrong.exception:
            outcome, detail = GAP, "%s: %s" % (wrong.kind, wrong.reason)  # as `judge` does for cells
        _answer(answers, {"outcome": outcome, "detail": detail, "seconds": seconds})


def judge_error(error: Optional[BaseException], refused: Sequence[str]) -> Sequence[str]:
    """Return (outcome, message) for the exception that a case raised, or None.

    The message has no folders of this machine.

    `refused`: patterns of errors by which the project declares that it does not support a model. Such an error is a
    gap.
    """
    if error is None:
        return PASS, ""
    text = "%s: %s" % (type(error).__name__, error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    message = lines[-1] if lines[0].endswith(_AT_THE_END) else lines[0]
    for folder in (str(cache_dir()), sys.prefix, tempfile.gettempdir()):
        message = message.replace(folder + os.sep, "")
    outcome = GAP if any(re.search(pattern, text) for pattern in refused) else FAIL
    return outcome, message if len(message) <= LONGEST else message[:LONGEST] + "..."


def _answer(answers: Any, content: Dict[str, Any]) -> None:
    """Write an answer as a line of JSON."""
    answers.write(json.dumps(content) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

"""What runs inside the environment of a peer: a case per line on standard input, its verdict per line on standard output."""

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

__all__ = ["Prepared", "judged", "main", "plain"]

_RECORDED_WRONG = Path(__file__).resolve().parents[2] / "tests" / "gaps" / "recorded.toml"
LONGEST = 400
_AT_THE_END = ("in user code:", "Graph execution error:")
"""What TensorFlow begins with where it says what is wrong in the last line."""


class Prepared(NamedTuple):
    """What `run_case` runs."""

    call: Callable[[Dict[str, Any]], Sequence[Any]]

    def run(self, inputs: Dict[str, Any]) -> List[Any]:
        return [plain(value) for value in self.call(inputs)]


def plain(value: Any) -> Any:
    """An output as the recorded ones are: no scalar of numpy, no string of a fixed length."""
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    if not isinstance(value, (np.ndarray, np.generic)):
        return value
    array = np.asarray(value)
    return array.astype(object) if array.dtype.kind in "US" else array


def main(module: str, options: Dict[str, Any]) -> None:
    # Whatever a framework prints goes to standard error, so that each line here is an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    tool = importlib.import_module(module)
    told = {
        "python": "%d.%d" % sys.version_info[:2],
        "versions": {name: metadata.version(name) for name in tool.PACKAGES},
    }
    _answer(answers, {"leaks": tool.LEAKS, "about": told})
    known_wrong = load_gaps(_RECORDED_WRONG)
    for line in sys.stdin:
        case = Case(**json.loads(line))
        start = time.perf_counter()
        error: Optional[BaseException] = None
        try:
            run_case(lambda model, shim: Prepared(tool.prepare(model, **options)), case, None)
        except (Exception, SystemExit) as raised:  # noqa: BLE001 - whatever it is, the case has an outcome
            error = raised
        seconds = round(time.perf_counter() - start, 3)
        outcome, detail = judged(error, tool.REFUSED)
        wrong = find_gap(known_wrong, [case.id], "")
        if outcome == FAIL and wrong is not None and type(error).__name__ == wrong.exception:
            outcome, detail = GAP, "%s: %s" % (wrong.kind, wrong.reason)  # as it is for ours
        _answer(answers, {"outcome": outcome, "detail": detail, "seconds": seconds})


def judged(error: Optional[BaseException], refused: Sequence[str]) -> Sequence[str]:
    """The outcome and what is told of it, without the folders of this machine."""
    if error is None:
        return PASS, ""
    text = "%s: %s" % (type(error).__name__, error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = lines[-1] if lines[0].endswith(_AT_THE_END) else lines[0]
    for folder in (str(cache_dir()), sys.prefix, tempfile.gettempdir()):
        told = told.replace(folder + os.sep, "")
    outcome = GAP if any(re.search(pattern, text) for pattern in refused) else FAIL
    return outcome, told if len(told) <= LONGEST else told[:LONGEST] + "..."


def _answer(answers: Any, content: Dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))

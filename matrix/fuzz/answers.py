"""Answers of a child process of the fuzzer: lines of JSON on the standard output."""

import json
import os
import sys
from typing import Any, Callable, Dict

__all__ = ["open_answers"]


def open_answers() -> Callable[[Dict[str, Any]], None]:
    """Return a function that writes a dict as a line of JSON to the standard output.

    From this call on, all other output of the process goes to the standard error: frameworks print to the standard
    output, where each line must be an answer.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def answer(content: Dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    return answer

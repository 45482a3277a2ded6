"""Answers of a child process of the fuzzer: lines of JSON on the standard output."""

import json
import os
import sys
from typing import Any, Callable, Dict

__all__ = ["open_answers", "use_one_processor"]


def open_answers() -> Callable[[Dict[str, Any]], None]:
    """Return a function that writes an answer. Redirect other output of the process to the standard error.

    Frameworks print to the standard output, and each line of it must be an answer.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr

    def answer(content: Dict[str, Any]) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    return answer


def use_one_processor() -> None:
    """Let this process run on a single processor, where the system can do that. Frameworks then start no other threads.

    The graphs are small: on a machine with other work, a kernel that is split among threads waits for each of them.
    """
    if hasattr(os, "sched_setaffinity"):
        processors = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {processors[os.getpid() % len(processors)]})

"""Child process of the measurement. It reads a task per line, and writes an answer per line.

A task is a JSON object: the name of a module of this package, and the arguments of its function `examine`. The answer
is the result of the function. A converter may end the process: then the parent counts a crash.
"""

from __future__ import annotations

import importlib
import json
import os
import sys


def main() -> None:
    """Read tasks from standard input, and write their answers to standard output, until the input ends.

    An exception of a task ends the process.
    """
    # Frameworks print to standard output; it is redirected to standard error, so that each line here is an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    for line in sys.stdin:
        task = json.loads(line)
        module = importlib.import_module("matrix.retarget." + task.pop("module"))
        answers.write(json.dumps(module.examine(**task)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

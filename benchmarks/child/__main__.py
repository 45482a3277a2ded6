"""Server in the environment that is measured: it reads a request per line of standard input, and writes an answer per
line.

It imports no package of this repository from the source tree: all measured packages come from the environment.
"""

import json
import os
import sys
import traceback
from typing import Any, Callable, Dict

import agreement  # type: ignore[import-not-found]  # a module beside this file
import anatomy  # type: ignore[import-not-found]  # a module beside this file
import conversion  # type: ignore[import-not-found]  # a module beside this file
import forest  # type: ignore[import-not-found]  # a module beside this file
import from_torch  # type: ignore[import-not-found]  # a module beside this file
import generated  # type: ignore[import-not-found]  # a module beside this file
import real  # type: ignore[import-not-found]  # a module beside this file
import runners  # type: ignore[import-not-found]  # a module beside this file

COMMANDS: Dict[str, Callable[..., Any]] = {
    "versions": runners.versions,
    "open": runners.open_runner,
    "run": runners.run,
    "import": conversion.import_modules,
    "convert": conversion.convert,
    "convert_torch": from_torch.convert_torch,
    "forest": forest.write,
    "anatomy": anatomy.anatomy,
    "errors": agreement.errors,
    "detector": generated.detector,
    "generator": generated.generator,
    "recurrent": generated.recurrent,
    "real": real.check,
}


def main() -> None:
    """Answer requests until standard input ends. An exception in a command is the answer `{"error": text}`."""
    # Frameworks print to standard output; it is redirected to standard error, so that each line here is an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"result": COMMANDS[request.pop("command")](**request)}
        except Exception as error:  # noqa: BLE001 - any exception of a package is sent as the answer
            traceback.print_exc()
            answer = {"error": "%s: %s" % (type(error).__name__, error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()

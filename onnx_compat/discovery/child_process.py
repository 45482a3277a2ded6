"""Call a function in a child process: a framework or a kernel may end the process that runs it.

The child process imports the function by its name and calls it. Arguments and result are sent as JSON, the result as
one line of standard output.
"""

import importlib
import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

__all__ = ["ChildResult", "call_in_child"]

#: A value that JSON can hold.
Json = Any

#: The prefix of the line that holds the result. A framework prints other lines.
_RESULT = "onnx-compat answers: "
_CODE = "import sys; sys.path[:] = %r; from onnx_compat.discovery.child_process import _serve; _serve(%r, %r, %r)"


class ChildResult(NamedTuple):
    """The outcome of a call in a child process.

    `status` is one of these:

    - 'returned': the function returned a value.
    - 'failed': the process ended without a result, also by a Python exception.
    - 'timeout': the process was killed at the time limit.
    - 'not started': no process was started.

    `stderr`: the standard error of the process, or why it was not started; "" after a timeout.
    """

    status: str
    #: The returned value, where the status is 'returned'.
    value: Any = None
    #: The exit code of the process; negative: the number of the signal that ended it.
    exit_code: int = 0
    stderr: str = ""

    @property
    def last_line(self) -> str:
        """The last line of standard error that is not blank, without surrounding blanks; "" if there is no line."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return lines[-1] if lines else ""


def call_in_child(module: str, function: str, *arguments: Json, seconds: float) -> ChildResult:
    """Call `module.function(*arguments)` in a child process of this Python, with this `sys.path`; return the outcome.

    The arguments and the result are sent as JSON. Raises TypeError for an argument that JSON cannot hold. A value in
    the result that JSON cannot hold becomes `str(value)`.

    A failure of the child process is not raised: see `ChildResult.status`. After `seconds`, the child process is
    killed.
    """
    if not sys.executable or getattr(sys, "frozen", False):
        return ChildResult("not started", stderr="this Python cannot be started again")
    code = _CODE % (sys.path, module, function, json.dumps(arguments))
    try:
        done = subprocess.run(  # noqa: S603 (this Python, and code of this package)
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ChildResult("timeout")
    except OSError as error:
        return ChildResult("not started", stderr=str(error))
    for line in reversed(done.stdout.splitlines()):
        if line.startswith(_RESULT):
            return ChildResult("returned", json.loads(line[len(_RESULT) :]), done.returncode, done.stderr)
    return ChildResult("failed", None, done.returncode, done.stderr)


def _serve(module: str, function: str, arguments: str) -> None:
    """Run in the child process: call `module.function` with `arguments`, a JSON list, and print the result on one line.

    The line begins with `_RESULT`; the result follows as JSON. Then exit at once with code 0, because a framework may
    crash while the interpreter shuts down. An exception of the function is raised, and no line is printed.
    """
    value = getattr(importlib.import_module(module), function)(*json.loads(arguments))
    sys.stdout.write("\n%s%s\n" % (_RESULT, json.dumps(value, default=str)))
    sys.stdout.flush()
    os._exit(0)

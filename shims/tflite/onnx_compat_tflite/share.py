"""How many operators of a file the default delegate (XNNPACK) takes here, and whether the runtime takes the file at all.

The file may be anybody's, and kernels look at its sizes less closely than they could: a process of its own tries it.
"""

import json
import os
import subprocess
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Set

from onnx_compat_tflite import features
from onnx_compat_tflite.allocation import allocate

__all__ = ["Share", "answer", "share"]

_SECONDS = 120
_ANSWER = "onnx-compat answers: "


class Share(NamedTuple):
    """What was found; `taken` holds the places of the operators that run in the delegate, None where that is not told."""

    runtime: str
    refusal: str = ""
    taken: Optional[List[int]] = None
    parts: int = 0


def share(path: str, operators: int) -> Share:
    """Of the first subgraph, which has so many operators."""
    runtime, reason = features.find()
    if runtime is None:
        return Share("", reason)
    name = ("%s %s" % (runtime.name, runtime.version)).strip()
    if not sys.executable or getattr(sys, "frozen", False):
        return Share(name, "it cannot be tried in a process of its own here")
    code = "import sys; sys.path[:] = %r; from onnx_compat_tflite.share import answer; answer(%r, %d)" % (
        sys.path,
        os.path.abspath(path),
        operators,
    )
    try:
        done = subprocess.run(  # noqa: S603 (this Python, and code of ours)
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Share(name, "it has not allocated the tensors within %d seconds" % _SECONDS)
    except OSError as error:
        return Share(name, "it cannot be tried: %s" % error)
    for line in done.stdout.decode("utf-8", "replace").splitlines():
        if line.startswith(_ANSWER):
            return Share(name, **json.loads(line[len(_ANSWER) :]))
    return Share(name, "the file ends its process (exit code %d)" % done.returncode)


def answer(path: str, operators: int) -> None:
    """The other side of `share`: one line, and an end before anything can go wrong at the end."""
    sys.stdout.write("\n%s%s\n" % (_ANSWER, json.dumps(_tried(path, operators))))
    sys.stdout.flush()
    os._exit(0)


def _tried(path: str, operators: int) -> Dict[str, Any]:
    runtime = features.find()[0]
    assert runtime is not None
    try:
        interpreter = runtime.interpreter(model_path=path)
        allocate(interpreter)
    except (RuntimeError, ValueError) as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return {"refusal": lines[-1] if lines else type(error).__name__}
    if not hasattr(interpreter, "_get_ops_details"):
        return {}
    plan = interpreter._get_ops_details()
    delegates = [one for one in plan[operators:] if one["op_name"] == "DELEGATE"]
    return {"taken": sorted(_taken(plan[:operators], delegates)), "parts": len(delegates)}


def _taken(operators: List[Any], delegates: List[Any]) -> Set[int]:
    """What lies between the inputs and the outputs of the delegates: the plan still lists the operators that it replaced."""
    writer = {int(index): one for one in operators for index in one["outputs"]}
    found: Set[int] = set()
    for delegate in delegates:
        given = {int(index) for index in delegate["inputs"]}
        waiting = [int(index) for index in delegate["outputs"]]
        while waiting:
            one = writer.get(waiting.pop())
            if one is not None and int(one["index"]) not in found:
                found.add(int(one["index"]))
                waiting += [int(index) for index in one["inputs"] if int(index) not in given]
    return found

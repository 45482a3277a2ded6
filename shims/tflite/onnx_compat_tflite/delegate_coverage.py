"""How many operators of a file the default delegate (XNNPACK) takes here, and whether the runtime takes the file at all.

The file may be anybody's, and kernels look at its sizes less closely than they could: a process of its own tries it.
"""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Set

from onnx_compat.shim import call_in_child
from onnx_compat_tflite import features
from onnx_compat_tflite.allocation import allocate

__all__ = ["Share", "allocate_in_child", "share"]

_SECONDS = 120


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
    result = call_in_child(__name__, "allocate_in_child", os.path.abspath(path), operators, seconds=_SECONDS)
    if result.status == "returned":
        return Share(name, **result.value)
    refusals = {
        "timeout": "it has not allocated the tensors within %d seconds" % _SECONDS,
        "not started": "it cannot be tried in a process of its own here: %s" % result.stderr,
        "failed": "the file ends its process (exit code %d)" % result.exit_code,
    }
    return Share(name, refusals[result.status])


def allocate_in_child(path: str, operators: int) -> Dict[str, Any]:
    """Allocate the tensors of a file, in the child process of `share`; return the refusal, or the delegated operators."""
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

"""Find the operators of a .tflite file that run in the default delegate (XNNPACK), or why the runtime refuses the file.

The file may be malformed, and kernels check sizes incompletely. So a child process allocates the tensors: a crash ends
only that process.
"""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

from onnx_compat.shim import call_in_child
from onnx_compat_tflite import features
from onnx_compat_tflite.allocation import allocate

__all__ = ["Coverage", "allocate_in_child", "delegate_coverage"]

_SECONDS = 120

#: An operator of the execution plan, as the interpreter describes it: "index", "op_name", "inputs", "outputs".
_PlannedOp = Dict[str, Any]


class Coverage(NamedTuple):
    """The result of `delegate_coverage`: the operators in the delegate, or why the runtime refuses the file."""

    #: Name and version of the runtime; empty if no runtime is installed.
    runtime: str
    #: Why the runtime refuses the file; empty if it allocates the tensors.
    refusal: str = ""
    #: Indices of the operators of the first subgraph that run in the delegate; None if the runtime does not report them.
    delegated: Optional[List[int]] = None
    #: The number of partitions of the delegate.
    parts: int = 0


def delegate_coverage(path: str, operator_count: int) -> Coverage:
    """Return which operators of a file's first subgraph run in XNNPACK, or why the runtime refuses the file.

    `operator_count` is the number of operators of that subgraph. A child process allocates the tensors.

    The returned `Coverage` has a `refusal` in these cases, which raise no error:

    - no runtime is installed
    - the runtime refuses the file
    - the child process cannot start, crashes, or takes over 120 seconds
    """
    runtime, reason = features.find_runtime()
    if runtime is None:
        return Coverage("", reason)
    name = ("%s %s" % (runtime.name, runtime.version)).strip()
    result = call_in_child(__name__, "allocate_in_child", os.path.abspath(path), operator_count, seconds=_SECONDS)
    if result.status == "returned":
        return Coverage(name, **result.value)
    refusals = {
        "timeout": "it has not allocated the tensors within %d seconds" % _SECONDS,
        "not started": "no child process can try it here: %s" % result.stderr,
        "failed": "the file ends its process (exit code %d)" % result.exit_code,
    }
    return Coverage(name, refusals[result.status])


def allocate_in_child(path: str, operator_count: int) -> Dict[str, Any]:
    """Allocate the tensors of a .tflite file, and return fields of `Coverage` as a dict.

    `delegate_coverage` runs this function in a child process. A runtime must be installed. `operator_count` is the
    number of operators of the first subgraph. The dict is

    - {"refusal": reason} if the runtime refuses the file
    - {} if the runtime does not report its execution plan
    - {"delegated": indices of the delegated operators, "parts": number of partitions} otherwise
    """
    runtime = features.find_runtime()[0]
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
    delegates = [op for op in plan[operator_count:] if op["op_name"] == "DELEGATE"]
    return {"delegated": sorted(_delegated_ops(plan[:operator_count], delegates)), "parts": len(delegates)}


def _delegated_ops(operators: Sequence[_PlannedOp], delegates: Sequence[_PlannedOp]) -> Set[int]:
    """Return the indices of those `operators` that run in one of `delegates`, the ops DELEGATE of the same plan.

    `operators` are the operators of the file; the plan still lists the operators that a DELEGATE replaces. They are the
    producers of the outputs of the DELEGATE, their producers, and so on, back to the inputs of the DELEGATE.
    """
    producers = {int(index): op for op in operators for index in op["outputs"]}
    delegated: Set[int] = set()
    for delegate in delegates:
        delegate_inputs = {int(index) for index in delegate["inputs"]}
        pending = [int(index) for index in delegate["outputs"]]
        while pending:
            op = producers.get(pending.pop())
            if op is not None and int(op["index"]) not in delegated:
                delegated.add(int(op["index"]))
                pending += [int(index) for index in op["inputs"] if int(index) not in delegate_inputs]
    return delegated

"""Coverage of a file by the default delegate (XNNPACK): which operators run in it, or why the runtime refuses the file.

The file may come from any source, and kernels check sizes incompletely. A child process allocates its tensors.
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
    """The answer of the runtime to a file."""

    runtime: str
    #: Why the runtime refuses the file; empty if it allocates the tensors.
    refusal: str = ""
    #: Indices of the operators of the first subgraph that run in the delegate; None if the runtime does not report them.
    delegated: Optional[List[int]] = None
    #: The number of partitions of the delegate.
    parts: int = 0


def delegate_coverage(path: str, operator_count: int) -> Coverage:
    """Return the coverage of the first subgraph of a file, which has `operator_count` operators."""
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
    """Allocate the tensors of a file, in the child process of `delegate_coverage`.

    Returns fields of Coverage: the refusal, or the delegated operators where the runtime reports its execution plan.
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
    """Return the indices of the operators between the inputs and the outputs of the delegates.

    The plan still lists the operators that a delegate replaced, so they are collected from its outputs back to its inputs.
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

"""Run a model in a forked process, from a process of its own: tests call it by `call_in_child`.

A process of tests holds objects with threads that other tests made, such as sessions of onnxruntime that this library
does not know. If a forked process collects such an object as garbage, it waits for these threads forever.
"""

import gc
import multiprocessing
from typing import Any, Dict, List

import numpy as np
import pytest
from limited import X, install, mish
from old_runtime import REFUSALS, age

import onnx_compat

__all__ = ["SECONDS", "run_in_fork"]

#: The time in which a forked process must answer.
SECONDS = 60
_INHERITED: Dict[str, Any] = {}


def run_in_fork(lacking: str) -> Dict[str, Any]:
    """Run the model `mish` here and in a forked process, on an onnxruntime that lacks something: a key of `REFUSALS`.

    `lacking` "nothing": the installed onnxruntime. Sessions of earlier models are garbage at the fork. Return the
    results and the runtimes of both processes, by "parent" and "child". Raises queue.Empty if the child gives no answer.
    """
    patches = pytest.MonkeyPatch()
    if lacking != "nothing":
        age(patches, REFUSALS[lacking])
    install(patches)
    gc.disable()
    for _ in range(3):
        _INHERITED["runnable"] = runnable = onnx_compat.prepare(mish(), shim="limited")
        result = _answer(runnable)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_put_answer, args=(queue,))
    process.start()
    try:
        return {"parent": result, "child": queue.get(timeout=SECONDS)}
    finally:
        process.kill()
        process.join()


def _put_answer(queue: Any) -> None:
    gc.collect()  # sessions of the parent process must not end threads that this process lacks
    queue.put(_answer(_INHERITED["runnable"]))


def _answer(runnable: Any) -> List[Any]:
    return [np.asarray(runnable.run([X])[0]).tolist(), runnable.fallback_runtimes]

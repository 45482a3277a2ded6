"""Try a .tflite file in a child process, unless the graph verifier accepts the file.

The verifier knows the dtypes and sizes that kernels rely on, but a file of another program may break its rules and run well.
So a file that breaks them runs once in a child process, with inputs of zeros: a crash ends only that process.
"""

import os

import numpy as np

from onnx_compat.shim import InvalidModelError, VerificationError, call_in_child
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.allocation import allocate
from onnx_compat_tflite.graph_verifier import verify_graph

__all__ = ["run_once", "try_file"]

_SECONDS = 120


def try_file(model: fb.ModelSpec, path: str) -> None:
    """Try a file in a child process if the verifier rejects it; raise InvalidModelError if the process crashes.

    `model` is the content of the file at `path`. Nothing is raised in these cases:

    - The verifier accepts the model. The file is then not run.
    - No child process can be started, or no runtime is installed. The file is then not run.
    - The runtime reports an error.
    - The run takes over 120 seconds.
    """
    try:
        verify_graph(model)
    except VerificationError as error:
        result = call_in_child(__name__, "run_once", os.path.abspath(path), seconds=_SECONDS)
        if result.status == "failed" and result.exit_code not in (0, 1):
            defect = error.reason.partition(": ")[2]
            raise InvalidModelError(
                "the file '%s' ends the process that runs it (exit code %d): %s" % (path, result.exit_code, defect),
                hint="it is damaged, or another program wrote it wrongly: convert the model again",
            ) from error


def run_once(path: str) -> None:
    """Run the file at `path` once, with inputs of zeros, in this process, which `try_file` has started.

    Open sizes get trial values (see `allocate`). String inputs are not set. An error of the runtime is ignored. Without
    a runtime, nothing is run.
    """
    runtime, _ = features.find_runtime()
    if runtime is None:
        return
    try:
        interpreter = runtime.interpreter(False, model_path=path)
        allocate(interpreter)
        for detail in interpreter.get_input_details():
            if detail["dtype"] not in (np.bytes_, np.str_, np.object_):
                interpreter.set_tensor(detail["index"], np.zeros(detail["shape"], detail["dtype"]))
        interpreter.invoke()
        for detail in interpreter.get_output_details():
            interpreter.get_tensor(detail["index"])
    except (RuntimeError, ValueError):
        return

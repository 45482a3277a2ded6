"""Try a .tflite file in a child process, unless it is known to be sound. A crash ends only that process.

The verifier knows the dtypes and sizes that kernels rely on, but a file of another program may break its rules and run well.
So a file that breaks them runs once in a child process, with inputs of zeros. So does a file with tensors of small integers,
which are usually quantised: kernels and XNNPACK rely on scales and zero points in ways that the verifier does not know, and
some end the process without a scale. Files that this process wrote, and files that it has tried, are not tried again.

Beside the run of the file, a trial takes 0.44 s of processor time: the start of Python, the imports and the runtime (LiteRT 2.3).
"""

import os
from typing import Set, Tuple

import numpy as np

from onnx_compat.shim import InvalidModelError, VerificationError, call_in_child
from onnx_compat_tflite import features
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.allocation import allocate
from onnx_compat_tflite.graph_verifier import verify_graph

__all__ = ["is_file_to_run", "note_file_to_run", "note_sound_file", "run_once", "try_file"]

_SECONDS = 120
_SMALL_INTEGERS = frozenset(["int2", "int4", "uint4", "int8", "uint8", "int16", "uint16"])

#: (device, inode, size, time of the last change) of the files that this process wrote or tried.
_sound: Set[Tuple[int, int, int, int]] = set()
#: (device, inode, size, time of the last change) of the files that this process wrote, and that only a run can check.
_to_run: Set[Tuple[int, int, int, int]] = set()


def note_sound_file(path: str) -> None:
    """Remember that the content of the file at `path` is sound, also under another name, until the file changes."""
    _sound.add(_identity(path))


def note_file_to_run(path: str) -> None:
    """Remember that only a run can check the content of the file at `path`.

    This holds also under another name of the file, until the file changes.
    """
    _to_run.add(_identity(path))


def is_file_to_run(path: str) -> bool:
    """Whether `note_file_to_run` was called for the file at `path`, and the file has not changed since then."""
    return _identity(path) in _to_run


def _identity(path: str) -> Tuple[int, int, int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def try_file(model: fb.ModelSpec, path: str) -> None:
    """Try a file in a child process if it may not be sound; raise InvalidModelError if the process crashes.

    `model` is the content of the file at `path`. The file may not be sound in two cases:

    - The verifier rejects it.
    - It has tensors of integers of 16 bits or less, and this process has neither written nor tried it.

    A file that is tried without an error counts as tried from then on. Nothing is raised in these cases:

    - The file is sound. It is then not run.
    - No child process can be started, or no runtime is installed. The file is then not run.
    - The runtime reports an error.
    - The run takes over 120 seconds.
    """
    defect = "its operators do not take its integers"
    try:
        verify_graph(model)
    except VerificationError as error:
        defect = error.reason.partition(": ")[2]
    else:
        if not _has_small_integers(model) or _identity(path) in _sound:
            return
    result = call_in_child(__name__, "run_once", os.path.abspath(path), seconds=_SECONDS)
    if result.status == "failed" and result.exit_code not in (0, 1):
        raise InvalidModelError(
            "the file '%s' ends the process that runs it (exit code %d): %s" % (path, result.exit_code, defect),
            hint="it is damaged, or another program wrote it wrongly: convert the model again",
        )
    note_sound_file(path)


def _has_small_integers(model: fb.ModelSpec) -> bool:
    """Whether a tensor has integers of 16 bits or less, with scales or without."""
    return any(tensor.dtype in _SMALL_INTEGERS for graph in model.subgraphs for tensor in graph.tensors)


def run_once(path: str) -> None:
    """Run the file at `path` once, with inputs of zeros. `try_file` calls this function in a child process.

    Open sizes are replaced by the first trial sizes that all kernels accept (`allocate`). String inputs are not set. An
    error of the runtime is ignored. Without a runtime, nothing is run.
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

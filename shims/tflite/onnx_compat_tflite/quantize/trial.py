"""Run a quantised .tflite file once, in a child process: a kernel that reads an unsupported tensor may end the process."""

import os
from typing import Sequence

import numpy as np

from onnx_compat.shim import ConversionError, call_in_child

__all__ = ["run_in_child", "run_once"]

_SECONDS = 600


def run_once(path: str, arrays: Sequence[np.ndarray]) -> None:
    """Load a .tflite file in a child process. If `arrays` is not empty, also run the file on these inputs.

    The inputs are in the order of the ports. They are written to a temporary file beside `path`. Raises ConversionError
    if

    - the runtime refuses the file, or ends the process,
    - the run fails,
    - loading and running take more than `_SECONDS`,
    - a floating-point result has a NaN.
    """
    input_path = path + ".npz"
    try:
        np.savez(input_path, *arrays)
        result = call_in_child(__name__, "run_in_child", path, input_path, seconds=_SECONDS)
    finally:
        if os.path.exists(input_path):
            os.remove(input_path)
    if result.status == "timeout":
        raise ConversionError("its first run takes more than %d s" % _SECONDS)
    if result.status != "returned":
        ended = "a kernel of the TFLite runtime ends the process" if result.exit_code < 0 else "its first run fails"
        line = result.last_line.rpartition("Error: ")[2].strip()
        raise ConversionError("%s: %s" % (ended, line or "exit code %d" % result.exit_code))


def run_in_child(path: str, input_path: str) -> None:
    """Load the file `path` and, if the .npz file `input_path` has arrays, run the file on them; `run_once` starts this.

    The arrays have the names arr_0, arr_1, ... in the order of the ports. Raises ConversionError if the runtime refuses
    the file, or a floating-point result has a NaN. Raises UnsupportedError if the run fails.
    """
    from onnx_compat_tflite import SHIM

    SHIM.check_loads(path)
    compiled, _, _ = SHIM.load_converted(path, "tflite")
    with np.load(input_path, allow_pickle=False) as archive:
        arrays = [archive["arr_%d" % index] for index in range(len(archive.files))]
    if arrays and any(np.isnan(result).any() for result in compiled.run(arrays) if result.dtype.kind == "f"):
        raise ConversionError("it returns NaN for the first sample")

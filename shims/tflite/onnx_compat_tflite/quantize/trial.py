"""A first run in a process of its own: a kernel that meets what it was not made for may end the process."""

import os
import subprocess
import sys
from typing import Sequence

import numpy as np

from onnx_compat.errors import ConversionError

__all__ = ["answer", "survive"]

_SECONDS = 600


def survive(path: str, arrays: Sequence[np.ndarray]) -> None:
    """Allocate what is in the file and, if there are arrays for its inputs, run it; an error says why that fails."""
    fed = path + ".npz"
    code = "import sys; sys.path[:] = %r; from onnx_compat_tflite.quantize.trial import answer; answer(%r, %r)"
    try:
        np.savez(fed, *arrays)
        done = subprocess.run(  # noqa: S603 (this Python, and code of ours)
            [sys.executable, "-c", code % (sys.path, path, fed)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ConversionError("its first run takes more than %d s" % _SECONDS) from error
    finally:
        if os.path.exists(fed):
            os.remove(fed)
    if done.returncode:
        lines = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()]
        ended = "a kernel of the TFLite runtime ends the process" if done.returncode < 0 else "its first run fails"
        raise ConversionError(
            "%s: %s"
            % (ended, lines[-1].rpartition("Error: ")[2].strip() if lines else "exit code %d" % done.returncode)
        )


def answer(path: str, fed: str) -> None:
    """What runs in that process."""
    from onnx_compat_tflite import SHIM

    SHIM._accepted(path)
    compiled, _, _ = SHIM.load_converted(path, "tflite")
    with np.load(fed, allow_pickle=False) as archive:
        arrays = [archive["arr_%d" % place] for place in range(len(archive.files))]
    if arrays and any(np.isnan(result).any() for result in compiled.run(arrays) if result.dtype.kind == "f"):
        raise ConversionError("it gives values that are no numbers for the first sample")

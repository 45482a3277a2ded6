"""Convert ONNX to .tflite with each tool, and measure the conversion."""

import importlib
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict

from memory import largest_resident, peak_above_baseline  # type: ignore[import-not-found]  # a module beside this file


def import_modules(modules: Any) -> Dict[str, float]:
    """Import modules, so that later conversions are measured without these imports. Return {"seconds": duration}."""
    start = time.perf_counter()
    for name in modules:
        importlib.import_module(name)
    return {"seconds": time.perf_counter() - start}


def convert(tool: str, model: str, path: str) -> Dict[str, Any]:
    """Convert a model once with a tool, and move the file to `path`. Return the measurement as a dict.

    - `seconds`, `cpu`: the duration, and the processor time of this process
    - `peak`: the peak memory above that before the conversion, or None
    - `highest`: the peak memory of this process since its start
    - `largest_subprocess`: the peak memory of the largest process that this process has started
    - `bytes`: the size of the file
    """
    with tempfile.TemporaryDirectory() as folder:
        # onnx2tf writes into the model that it reads.
        copy = shutil.copy(model, os.path.join(folder, "model.onnx"))
        cpu, start = time.process_time(), time.perf_counter()
        converted, peak = peak_above_baseline(lambda: _TOOLS[tool](copy, folder))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        shutil.move(converted, path)
    return {
        "seconds": seconds,
        "cpu": cpu,
        "peak": peak,
        "highest": largest_resident(),
        "largest_subprocess": largest_resident(children=True),
        "bytes": os.path.getsize(path),
    }


def _ours(model: str, folder: str) -> str:
    """Convert a model with this project, and return the path of the file in `folder`."""
    import onnx_compat

    return str(onnx_compat.convert(model, os.path.join(folder, "model.tflite")))


def _channels_last(model: str, folder: str) -> str:
    """Convert a model with all inputs and outputs of rank 4 channels-last, as onnx2tf stores them. Return the path."""
    import onnx_compat
    from onnx_compat.model import TensorType

    loaded = onnx_compat.load(model)
    ends = (*loaded.inputs, *loaded.outputs)
    images = [port.name for port in ends if isinstance(port.type, TensorType) and port.type.rank == 4]
    return str(onnx_compat.convert(model, os.path.join(folder, "model.tflite"), channels_last=images))


def _onnx2tf(model: str, folder: str) -> str:
    """Convert a model with onnx2tf's function, and return the path of the file.

    onnx2tf finds its optimiser only if the folder of this environment is on PATH.
    """
    import sys

    from onnx2tf.onnx2tf import convert as onnx2tf  # type: ignore[import-not-found]  # in the environment of the peer only

    here = os.path.dirname(sys.executable)
    if here not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = here + os.pathsep + os.environ["PATH"]
    out = os.path.join(folder, "out")
    onnx2tf(input_onnx_file_path=model, output_folder_path=out, non_verbose=True)
    (converted,) = Path(out).glob("*_float32.tflite")
    return str(converted)


_TOOLS: Dict[str, Callable[[str, str], str]] = {
    "onnx-compat": _ours,
    "onnx-compat, channels last": _channels_last,
    "onnx2tf": _onnx2tf,
}

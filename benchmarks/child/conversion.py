"""ONNX to .tflite by ours and by others, in a process that has imported them before."""

import importlib
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict

from memory import peak_above_baseline  # type: ignore[import-not-found]


def imported(modules: Any) -> Dict[str, float]:
    """Import modules beforehand, so that what follows is measured without them."""
    start = time.perf_counter()
    for name in modules:
        importlib.import_module(name)
    return {"seconds": time.perf_counter() - start}


def convert(tool: str, model: str, path: str) -> Dict[str, Any]:
    """Convert once and leave the result at `path`."""
    with tempfile.TemporaryDirectory() as folder:
        # A copy each: onnx2tf writes into the model that it is given.
        copy = shutil.copy(model, os.path.join(folder, "model.onnx"))
        cpu, start = time.process_time(), time.perf_counter()
        made, peak = peak_above_baseline(lambda: _TOOLS[tool](copy, folder))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        shutil.move(made, path)
    others = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {"seconds": seconds, "cpu": cpu, "peak": peak, "largest_subprocess": others, "bytes": os.path.getsize(path)}


def _ours(model: str, folder: str) -> str:
    import onnx_compat

    return str(onnx_compat.convert(model, os.path.join(folder, "model.tflite")))


def _channels_last(model: str, folder: str) -> str:
    """With all images as onnx2tf's files have them."""
    import onnx_compat
    from onnx_compat.model import TensorType

    loaded = onnx_compat.load(model)
    ends = (*loaded.inputs, *loaded.outputs)
    images = [one.name for one in ends if isinstance(one.type, TensorType) and one.type.rank == 4]
    return str(onnx_compat.convert(model, os.path.join(folder, "model.tflite"), channels_last=images))


def _onnx2tf(model: str, folder: str) -> str:
    """As its users call it; without the folder of this environment on PATH it does not find its own optimiser."""
    import sys

    from onnx2tf.onnx2tf import convert as onnx2tf  # type: ignore[import-not-found]

    here = os.path.dirname(sys.executable)
    if here not in os.environ["PATH"].split(os.pathsep):
        os.environ["PATH"] = here + os.pathsep + os.environ["PATH"]
    out = os.path.join(folder, "out")
    onnx2tf(input_onnx_file_path=model, output_folder_path=out, non_verbose=True)
    (found,) = Path(out).glob("*_float32.tflite")
    return str(found)


_TOOLS: Dict[str, Callable[[str, str], str]] = {
    "onnx-compat": _ours,
    "onnx-compat, channels last": _channels_last,
    "onnx2tf": _onnx2tf,
}

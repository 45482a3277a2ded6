"""Detection of a GPU: query the driver before anything is installed, and the framework after its installation.

A machine without a GPU is an outcome of its own, neither pass nor fail. A GPU that the framework does not see is a
failure.

    python -m matrix.devices driver | tensorflow | jax | torch     print the state as JSON

Each query runs in a child process, because a driver may hang, and a framework keeps the memory of a GPU.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from matrix.data import ROOT, Cell
from matrix.frameworks import FRAMEWORKS

__all__ = [
    "BROKEN",
    "GPU_VARIABLES",
    "NO_GPU",
    "READY",
    "Answer",
    "assign_workers",
    "framework_of",
    "load_driver",
    "query_driver",
    "query_framework",
    "write_unready",
]

READY, NO_GPU, BROKEN = "ready", "no-gpu", "broken"
SECONDS = 300
#: The variables of the tests on a GPU. Several workers share a GPU, so no framework may reserve all of its memory. TF32 rounds
#: the factors of products to 10 bits, which is beyond the tolerances of the cases.
GPU_VARIABLES = {
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "NVIDIA_TF32_OVERRIDE": "0",
    "JAX_DEFAULT_MATMUL_PRECISION": "highest",
}
WORKERS_PER_GPU = 2
_NO_DEVICE, _STUB = 100, 34
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


class Answer(NamedTuple):
    """The state of the GPUs of this machine: READY, NO_GPU or BROKEN, with the reason unless it is READY.

    `names`: the names of the GPUs.
    """

    state: str
    reason: str = ""
    names: Tuple[str, ...] = ()
    cuda: Tuple[int, int] = (0, 0)
    """The newest CUDA version that the driver supports."""


def query_driver() -> Answer:
    """Query the CUDA driver for GPUs, and return the answer: READY, NO_GPU or BROKEN.

    - READY: the driver sees GPUs.
    - NO_GPU: there is no GPU or no driver, or CUDA_VISIBLE_DEVICES hides the GPUs that nvidia-smi lists.
    - BROKEN: the driver fails, or does not see a GPU that nvidia-smi lists.
    """
    gpu_names, (answer, trouble) = _list_gpus(), _query("driver")
    if answer is None:
        return Answer(BROKEN, "the driver of the GPU %s" % trouble)
    if answer["names"]:
        return Answer(READY, names=tuple(answer["names"]), cuda=(answer["cuda"] // 1000, answer["cuda"] % 1000 // 10))
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if gpu_names and hidden is not None:
        return Answer(NO_GPU, "CUDA_VISIBLE_DEVICES=%s hides %s" % (hidden, ", ".join(gpu_names)))
    if gpu_names:
        return Answer(BROKEN, "nvidia-smi lists %s, but %s" % (", ".join(gpu_names), answer["error"]))
    if answer["code"] not in (None, 0, _NO_DEVICE, _STUB):
        return Answer(BROKEN, answer["error"])
    return Answer(NO_GPU, "no GPU found: %s" % answer["error"])


def query_framework(framework: str, gpu: Answer) -> Answer:
    """Query the installed framework for GPUs, and return the answer: READY with their names, or BROKEN.

    `gpu` is the READY answer of `query_driver`.

    Call it in the environment of the cell.
    """
    answer, trouble = _query(framework)
    if answer is None:
        return Answer(BROKEN, "%s %s" % (framework, trouble))
    if answer["devices"]:
        return gpu._replace(names=tuple(answer["devices"]))
    name = "%s %s" % (framework, answer["version"])
    if not answer["cuda"]:
        return Answer(BROKEN, "%s is a build without CUDA, but there is %s" % (name, ", ".join(gpu.names)))
    major = answer["cuda"].partition(".")[0]
    if major.isdigit() and int(major) > gpu.cuda[0]:  # CUDA is compatible within a major version
        text = "the driver is too old: it knows CUDA %d.%d, %s is built for %s"
        return Answer(BROKEN, text % (*gpu.cuda, name, answer["cuda"]))
    reason = answer["error"] or trouble or "it gives no reason"
    return Answer(BROKEN, "%s does not see %s: %s" % (name, ", ".join(gpu.names), reason))


def assign_workers(gpu: Answer) -> Dict[str, str]:
    """Return the variables that start two workers for each GPU: pytest-xdist reads their number, tests/conftest.py the
    GPUs.

    `gpu`: the READY answer of `query_driver`. The GPUs are those that CUDA_VISIBLE_DEVICES names, else all.
    """
    named = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    gpus = named or [str(number) for number in range(len(gpu.names))]
    return {"ONNX_COMPAT_GPUS": ",".join(gpus), "PYTEST_XDIST_AUTO_NUM_WORKERS": str(WORKERS_PER_GPU * len(gpus))}


def framework_of(cell: Cell) -> str:
    """Return the framework of a cell that uses the GPU: the back end for keras, else tensorflow."""
    return cell.env["KERAS_BACKEND"] if cell.shim == "keras" else "tensorflow"


def write_unready(cell: Cell, answer: Answer) -> str:
    """Write the state and the reason as the results file of a cell that cannot run, and return the reason."""
    about = {"cell": cell.id, "shim": cell.shim, "python": cell.python, "state": answer.state, "reason": answer.reason}
    path = ROOT / "results" / ("%s.json" % cell.id)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return answer.reason


def load_driver() -> Optional[Any]:
    """Load the CUDA driver library with ctypes. None: this machine has none."""
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError:
        return None


def ask_driver() -> Dict[str, Any]:
    """Initialise the CUDA driver, as frameworks do, and return its answer as a dict.

    - `names`: the names of its devices
    - `cuda`: the newest CUDA version that it supports, such as 12040 for 12.4
    - `code`: the error code of the initialisation; None without a driver
    - `error`: the reason if there are no devices, else ""

    The initialisation matters: a device that is listed may still be unusable.
    """
    cuda = load_driver()
    if cuda is None:
        return {"names": [], "cuda": 0, "code": None, "error": "there is no driver (%s)" % _LIBRARY}
    code = cuda.cuInit(0)
    if code:
        return {"names": [], "cuda": 0, "code": code, "error": "the driver says %s" % _error_name(cuda, code)}
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    names = []
    for k in range(count.value):
        name = ctypes.create_string_buffer(256)
        cuda.cuDeviceGetName(name, len(name), k)
        names.append(name.value.decode("utf-8", "replace"))
    return {"names": names, "cuda": version.value, "code": 0, "error": "" if names else "the driver sees no device"}


def _error_name(cuda: Any, code: int) -> str:
    """Return the name and the number of an error of the driver: `CUDA_ERROR_NO_DEVICE (100)`."""
    text = ctypes.c_char_p()
    cuda.cuGetErrorName(code, ctypes.byref(text))
    return "%s (%d)" % (text.value.decode("ascii") if text.value else "an error", code)


def _list_gpus() -> List[str]:
    """Return the names of the GPUs that nvidia-smi lists. Empty: nvidia-smi is missing, fails or hangs."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        process = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return []
    return [line.strip() for line in process.stdout.splitlines() if line.strip()] if process.returncode == 0 else []


def _query(queried: str) -> Tuple[Optional[Dict[str, Any]], str]:
    """Run `python -m matrix.devices <queried>` in a child process. `queried`: "driver" or a framework.

    Return (its JSON document, the last line about GPUs on its standard error, or ""). If the child process fails or
    hangs, return (None, how it failed).
    """
    command = [sys.executable, "-m", "matrix.devices", queried]
    try:
        process = subprocess.run(
            command,
            cwd=str(ROOT),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, "did not answer in %d seconds" % SECONDS
    lines = process.stderr.strip().splitlines()
    if process.returncode:
        return None, "ended with exit code %d: %s" % (process.returncode, lines[-1] if lines else "without a message")
    gpu_lines = [line for line in lines if any(word in line.lower() for word in ("cuda", "gpu", "nvidia"))]
    return json.loads(process.stdout.strip().splitlines()[-1]), gpu_lines[-1] if gpu_lines else ""


if __name__ == "__main__":
    print(json.dumps(ask_driver() if sys.argv[1] == "driver" else FRAMEWORKS[sys.argv[1]]()))

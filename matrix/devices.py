"""Is there a GPU for a cell that needs one: asked of the driver before anything is installed, and of the framework after.

No GPU is an outcome of its own, neither pass nor fail. A GPU that is there and that the framework does not see is a failure.

python -m matrix.devices driver | tensorflow | jax | torch     what that one says, as JSON: in a process of its own, because
                                                               a driver may hang, and a framework keeps the memory of a GPU
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

__all__ = ["BROKEN", "NO_GPU", "READY", "Answer", "driver", "framework_of", "installed", "present", "unready"]

READY, NO_GPU, BROKEN = "ready", "no-gpu", "broken"
SECONDS = 300
_NO_DEVICE, _STUB = 100, 34
_LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"


class Answer(NamedTuple):
    """READY, or what is in the way."""

    state: str
    reason: str = ""
    names: Tuple[str, ...] = ()
    cuda: Tuple[int, int] = (0, 0)
    """The newest CUDA that the driver knows."""


def present() -> Answer:
    """What the driver says; where it sees nothing, nvidia-smi tells a machine without a GPU from one in disorder."""
    listed, (said, trouble) = _listed(), _asked("driver")
    if said is None:
        return Answer(BROKEN, "the driver of the GPU %s" % trouble)
    if said["names"]:
        return Answer(READY, names=tuple(said["names"]), cuda=(said["cuda"] // 1000, said["cuda"] % 1000 // 10))
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    if listed and hidden is not None:
        return Answer(NO_GPU, "CUDA_VISIBLE_DEVICES=%s hides %s" % (hidden, ", ".join(listed)))
    if listed:
        return Answer(BROKEN, "nvidia-smi lists %s, but %s" % (", ".join(listed), said["error"]))
    if said["code"] not in (None, 0, _NO_DEVICE, _STUB):
        return Answer(BROKEN, said["error"])
    return Answer(NO_GPU, "no GPU found: %s" % said["error"])


def installed(framework: str, here: Answer) -> Answer:
    """What the framework makes of the GPUs that are `present`: in the environment of the cell."""
    said, trouble = _asked(framework)
    if said is None:
        return Answer(BROKEN, "%s %s" % (framework, trouble))
    if said["devices"]:
        return here._replace(names=tuple(said["devices"]))
    name = "%s %s" % (framework, said["version"])
    if not said["cuda"]:
        return Answer(BROKEN, "%s is a build without CUDA; there is %s" % (name, ", ".join(here.names)))
    major = said["cuda"].partition(".")[0]
    if major.isdigit() and int(major) > here.cuda[0]:  # within a major version, any driver will do
        text = "the driver is too old: it knows CUDA %d.%d, %s is built for %s"
        return Answer(BROKEN, text % (*here.cuda, name, said["cuda"]))
    told = said["error"] or trouble or "and does not say why"
    return Answer(BROKEN, "%s does not see %s: %s" % (name, ", ".join(here.names), told))


def framework_of(cell: Cell) -> str:
    return cell.env["KERAS_BACKEND"] if cell.shim == "keras" else "tensorflow"


def unready(cell: Cell, answer: Answer) -> str:
    """Write what is in the way as the results of the cell; gives it."""
    about = {"cell": cell.id, "shim": cell.shim, "python": cell.python, "state": answer.state, "reason": answer.reason}
    path = ROOT / "results" / ("%s.json" % cell.id)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    return answer.reason


def driver() -> Optional[Any]:
    """CUDA's own library, not asked anything yet."""
    try:
        return ctypes.CDLL(_LIBRARY)
    except OSError:
        return None


def ask_driver() -> Dict[str, Any]:
    """As the frameworks do: that hardware is listed somewhere does not say that it can be used."""
    cuda = driver()
    if cuda is None:
        return {"names": [], "cuda": 0, "code": None, "error": "there is no driver (%s)" % _LIBRARY}
    code = cuda.cuInit(0)
    if code:
        return {"names": [], "cuda": 0, "code": code, "error": "the driver says %s" % _error(cuda, code)}
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGetCount(ctypes.byref(count))
    names = []
    for k in range(count.value):
        name = ctypes.create_string_buffer(256)
        cuda.cuDeviceGetName(name, len(name), k)
        names.append(name.value.decode("utf-8", "replace"))
    return {"names": names, "cuda": version.value, "code": 0, "error": "" if names else "the driver sees no device"}


def _error(cuda: Any, code: int) -> str:
    text = ctypes.c_char_p()
    cuda.cuGetErrorName(code, ctypes.byref(text))
    return "%s (%d)" % (text.value.decode("ascii") if text.value else "an error", code)


def _listed() -> List[str]:
    """The names of nvidia-smi; none where it is not there, or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    command = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []


def _asked(what: str) -> Tuple[Optional[Dict[str, Any]], str]:
    """Its answer, and what it said beside of GPUs; without an answer, what became of it."""
    command = [sys.executable, "-m", "matrix.devices", what]
    try:
        done = subprocess.run(
            command,
            cwd=str(ROOT),
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return None, "did not answer in %d seconds" % SECONDS
    lines = done.stderr.strip().splitlines()
    if done.returncode:
        return None, "ended with %d: %s" % (done.returncode, lines[-1] if lines else "it said nothing")
    telling = [line for line in lines if any(word in line.lower() for word in ("cuda", "gpu", "nvidia"))]
    return json.loads(done.stdout.strip().splitlines()[-1]), telling[-1] if telling else ""


if __name__ == "__main__":
    print(json.dumps(ask_driver() if sys.argv[1] == "driver" else FRAMEWORKS[sys.argv[1]]()))

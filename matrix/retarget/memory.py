"""Measure the memory of a conversion to .onnx on Linux, in a process of its own: see `measure`."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Dict

import numpy as np
import onnx
from onnx import helper

from matrix.data import ROOT

__all__ = ["KINDS", "STORAGES", "generate", "measure"]

KINDS = ("path", "bytes", "proto")
"""What the model is converted from."""
STORAGES = ("initializer", "constant", "external")
"""How the model has its weights."""
SIDE = 1024


def generate(storage: str, megabytes: int, path: Path) -> None:
    """Write a model to `path`: MatMuls with `megabytes` of weights, and a ReduceMean in its form of opset 18.

    `storage`: how the weights are stored, one of `STORAGES`.
    """
    nodes, weights = [], []
    random = np.random.default_rng(0).standard_normal((SIDE, SIDE)).astype(np.float32) / 32
    for number in range(max(1, megabytes * 1000000 // random.nbytes)):
        name = "w%d" % number
        data = np.roll(random, number, 0).tobytes()
        tensor = onnx.TensorProto(name=name, data_type=1, dims=[SIDE, SIDE], raw_data=data)
        if storage == "constant":
            nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        else:
            weights.append(tensor)
        nodes.append(helper.make_node("MatMul", ["h%d" % number, name], ["h%d" % (number + 1)]))
    weights.append(onnx.numpy_helper.from_array(np.asarray([1]), "axes"))
    nodes.append(helper.make_node("ReduceMean", [nodes[-1].output[0], "axes"], ["y"], keepdims=0))
    ports = [helper.make_tensor_value_info("h0", 1, ["n", SIDE])], [helper.make_tensor_value_info("y", 1, ["n"])]
    graph = helper.make_graph(nodes, "chain", *ports, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, str(path), save_as_external_data=storage == "external", location=path.name + ".data")


def measure(kind: str, storage: str, megabytes: int, **options: Any) -> Dict[str, float]:
    """Convert a generated model in a process of its own. Return peaks of memory, divided by the size of the model.

    - kind: what is converted, one of `KINDS`.
    - storage: how the model stores its weights, one of `STORAGES`.
    - megabytes: the size of the weights.
    - options: keyword arguments of `onnx_compat.convert`.

    The keys of the result:

    - "own": the peak of the process above its memory before the conversion. A source in memory is loaded before that.
    - "child": the peak of a child process that runs a model, above the peak of a child that runs a small model.
    - "total": the peak of the process and its children together, above the two baselines.

    Raise CalledProcessError if a process fails, and TimeoutExpired after 600 seconds.
    """
    with tempfile.TemporaryDirectory() as folder:
        _run("generate", storage, str(megabytes), folder)
        figures: Dict[str, float] = json.loads(_run("convert", kind, folder, json.dumps(options)).splitlines()[-1])
    return figures


def _run(*arguments: str) -> str:
    """Run this module in a new process with these arguments, and return its standard output.

    Raise CalledProcessError if the process fails, and TimeoutExpired after 600 seconds.
    """
    command = [sys.executable, "-m", "matrix.retarget.memory", *arguments]
    return subprocess.run(command, cwd=str(ROOT), capture_output=True, text=True, timeout=600, check=True).stdout


def _read(pid: str, field: str) -> int:
    """Return a field of /proc/PID/status in bytes; 0 for a process that has ended."""
    try:
        lines = Path("/proc", pid, "status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


class _Watch:
    """Watches the memory of this process and of its children in a thread, from its construction until `stop`.

    - child: the largest peak of a single child process, in bytes.
    - total: the largest sum over this process and its children at one moment, in bytes.
    """

    def __init__(self) -> None:
        self.child = self.total = 0
        self._is_done = False
        self._own = Path("/proc/self/cmdline").read_bytes()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def stop(self) -> None:
        self._is_done = True
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_done:
            pids = [pid for path in Path("/proc/self/task").glob("*/children") for pid in _text(path).split()]
            running = [pid for pid in pids if _text(Path("/proc", pid, "cmdline")) not in ("", self._own.decode())]
            self.child = max([self.child, *(_read(pid, "VmHWM") for pid in running)])
            self.total = max(self.total, sum(_read(pid, "VmRSS") for pid in ["self", *running]))
            time.sleep(0.002)


def _text(path: Path) -> str:
    """Return the text of a file; "" if it cannot be read, as for a process that has ended."""
    try:
        return path.read_text()
    except OSError:
        return ""


def convert(kind: str, folder: Path, options: Dict[str, Any]) -> Dict[str, float]:
    """Convert large.onnx of `folder` in this process. Return peaks of memory, divided by the size of the model.

    The peaks are those of this process ("own"), of a child process ("child") and of both together ("total"), above
    their baselines. `kind`: what is converted, one of `KINDS`. `options`: keyword arguments of `onnx_compat.convert`.
    """
    import onnx_compat
    from onnx_compat.execution.onnxruntime_child import run_in_child

    small, large, target = (folder / name for name in ("small.onnx", "large.onnx", "target.onnx"))
    onnx_compat.convert(small, target, **options)  # its imports do not count
    idle = _Watch()
    run_in_child(str(small), {"h0": np.zeros((2, SIDE), np.float32)})
    idle.stop()
    size = sum(file.stat().st_size for file in folder.glob("large.onnx*"))
    source: Any = str(large)
    if kind != "path":
        source = large.read_bytes() if kind == "bytes" else onnx.load(str(large))
    before = _read("self", "VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM begins again
    watch = _Watch()
    try:
        onnx_compat.convert(source, target, **options)
    finally:
        watch.stop()
    own = _read("self", "VmHWM") - before
    child = max(watch.child - idle.child, 0)
    total = max(watch.total - before - (idle.child if watch.child else 0), own)
    return {"own": own / size, "child": child / size, "total": total / size}


def main() -> None:
    """Run the command `generate` or `convert` of the command line; `convert` prints the peaks of memory as JSON."""
    command, *arguments = sys.argv[1:]
    if command == "generate":
        storage, megabytes, folder = arguments
        generate("initializer", 1, Path(folder) / "small.onnx")
        generate(storage, int(megabytes), Path(folder) / "large.onnx")
        return
    kind, folder, options = arguments
    sys.stdout.write("\n" + json.dumps(convert(kind, Path(folder), json.loads(options))) + "\n")


if __name__ == "__main__":
    main()

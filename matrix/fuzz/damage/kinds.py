"""The kinds of damaged inputs: where the undamaged files come from, how they are changed, and what reads them."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import json
import os
import random
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Sequence
from unittest import mock

import numpy as np

from matrix.fuzz.damage.corruption import corrupt, corrupt_archive
from matrix.fuzz.damage.model_changes import change_case, join_case, split_case
from matrix.fuzz.damage.open_values import has_open_values
from matrix.fuzz.damage.outcomes import BROKEN, RAN, Broken, judge
from matrix.fuzz.damage.tflite_changes import change_file
from matrix.fuzz.execution import FORMS, WRONG
from matrix.harness.compare import Mismatch, compare
from matrix.suites.place import cache_dir

__all__ = ["KINDS", "MOST_ELEMENTS", "Kind"]

#: No model of a campaign needs larger tensors; a fuzzer must not fill the memory of the machine.
MOST_ELEMENTS = 1 << 22

#: Shim -> the format of its files.
_FORM = {"tflite": "tflite", "keras": "keras", "tf2": "saved_model", "tf1": "graphdef"}
_LARGEST_MODEL, _LARGEST_INPUT = 20000, 40000
_QUANTIZED = frozenset("QLinearConv QLinearMatMul ConvInteger MatMulInteger DequantizeLinear QuantizeLinear".split())
#: Operators whose results differ from run to run, or by the framework.
_RANDOM = ("Random", "Bernoulli", "Multinomial", "Dropout")


class Kind(NamedTuple):
    """A kind of damaged inputs.

    - suffix: the suffix of the file that `run` reads.
    - corpus: a function of (name of the shim, number n) that yields the undamaged files of every n-th case, as bytes.
    - change: a function of (source of chance, bytes of a file, bytes of the other files) that returns a damaged file.
    - run: a function of (path of a damaged file, its bytes, name of the shim). Its errors become outcomes (`judge`).
    - grows: whether an input that reaches new lines joins the corpus.
    - shims: the shims that read such files; empty for all shims.
    """

    suffix: str
    corpus: Callable[[str, int], Iterable[bytes]]
    change: Callable[[random.Random, bytes, Sequence[bytes]], bytes]
    run: Callable[[Path, bytes, str], Any]
    grows: bool = True
    shims: Sequence[str] = ()

    def is_read_by(self, shim: str) -> bool:
        """Whether a shim reads files of this kind."""
        return not self.shims or shim in self.shims


def _cases(step: int = 1, operators: frozenset[str] = frozenset(), every: int = 1) -> Iterator[bytes]:
    """Yield recorded node cases, each as the archive of `join_case`: a model with its inputs.

    These are all cases with one of `operators`, and every `step`-th of the others. Of these, only every `every`-th is
    read. Cases with a large model or large inputs, and cases that cannot be read, are left out.
    """
    root = cache_dir()
    index = root / "node" / "index.json"
    rows = {row["hash"]: row for row in json.loads(index.read_text(encoding="utf-8"))}
    chosen = [row for k, row in enumerate(rows.values()) if k % step == 0 or operators & set(row["operators"])]
    for row in chosen[::every]:
        model = root / row["folder"] / "model.onnx"
        files = [model, *(model.parent / "test_data_set_0" / ("input_%d.pb" % k) for k in range(20))]
        contents = [path.read_bytes() for path in files if path.exists()]
        if len(contents[0]) <= _LARGEST_MODEL and sum(map(len, contents[1:])) <= _LARGEST_INPUT:
            case = join_case(contents[0], list(contents[1:]))
            if _is_readable(case):
                yield case


def _is_readable(case: bytes) -> bool:
    """Whether all inputs of a case are tensors that the installed onnx reads."""
    try:
        split_case(case)
    except Exception:  # noqa: BLE001 - a sequence, an optional, or a dtype that this onnx lacks
        return False
    return True


def _models(_: str, every: int) -> Iterator[bytes]:
    for case in _cases(3, every=every):
        yield split_case(case)[0]


def _convert_cases(shim: str, every: int) -> Iterator[bytes]:
    """Yield the .tflite files that the shim writes for recorded cases. Every fourth case is also quantised to int8.

    A case that cannot be converted gives no file.
    """
    for number, case in enumerate(_cases(40, _QUANTIZED, every)):
        model, feeds = split_case(case)
        yield from _convert(model, ".tflite", shim)
        if number % 4 == 0:
            yield from _convert(model, ".tflite", shim, quantize="int8", calibrate=[[feeds[k] for k in sorted(feeds)]])


def _bundles(shim: str, every: int) -> Iterator[bytes]:
    for case in _cases(150, every=every):
        yield from _convert(split_case(case)[0], ".tflite.zip", shim, allow_fallback=True)


def _convert(model: bytes, suffix: str, shim: str, **options: Any) -> Iterator[bytes]:
    """Yield the bytes of the file that the shim writes for a model; nothing if the conversion fails."""
    import onnx_compat

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("model" + suffix)
        if judge(lambda: onnx_compat.convert(model, path, shim=shim, **options)).kind == RAN:
            yield path.read_bytes()


def _arrays(_: str, __: int) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.npz"
        for save in (np.savez, np.savez_compressed):
            save(str(path), x=np.arange(6, dtype=np.float32).reshape(2, 3), y=np.array(["a", "bc"]), n=np.array(3))
            yield path.read_bytes()


def _load(_: Path, data: bytes, __: str) -> None:
    import onnx_compat

    onnx_compat.load(data)


def _read_arrays(path: Path, _: bytes, __: str) -> None:
    from onnx_compat.verification.npz import load_npz

    load_npz(path)


def _call_in_fork(module: str, function: str, *arguments: Any, **_: Any) -> Any:
    """Call a function as `onnx_compat.discovery.child_process.call_in_child` does, in a fork, which starts at once.

    Returns a `ChildResult` without the function's result. A call that takes longer than 8 seconds gives "timeout".
    """
    import signal

    from onnx_compat.discovery.child_process import ChildResult

    pid = os.fork()
    if pid == 0:
        signal.alarm(8)
        code = 1
        try:
            getattr(importlib.import_module(module), function)(*arguments)
            code = 0
        finally:
            os._exit(code)
    status = os.waitpid(pid, 0)[1]
    code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    if code == -signal.SIGALRM:
        return ChildResult("timeout")
    return ChildResult("failed" if code else "returned", exit_code=code)


def _run_file(path: Path, _: bytes, __: str) -> None:
    """Run a converted file with zeros (see `_load_and_run`).

    Where the platform has `fork` and the shim tflite is imported, the trial of the file runs in a fork.
    """
    can_fork = hasattr(os, "fork") and "onnx_compat_tflite" in sys.modules
    trial = "onnx_compat_tflite.file_trial.call_in_child"
    with mock.patch(trial, _call_in_fork) if can_fork else contextlib.nullcontext():
        _load_and_run(path)


def _load_and_run(path: Path) -> None:
    """Run a converted file with zeros; an open size is 2.

    A file with an input of more than `MOST_ELEMENTS` elements is only loaded.
    """
    import onnx_compat

    converted = onnx_compat.load_converted(path)
    feeds = []
    for port in converted.inputs:
        kind: Any = port.type
        sizes = [size if isinstance(size, int) else 2 for size in kind.shape]
        if np.prod([float(size) for size in sizes]) > MOST_ELEMENTS:
            return
        feeds.append(np.zeros(sizes, kind.dtype.numpy))
    converted.run(feeds)


def _describe(path: Path, _: bytes, __: str) -> None:
    from onnx_compat.inspection.describe import describe

    describe(path)


def _named_feeds(model: Any, feeds: Dict[int, Any]) -> Dict[str, Any]:
    """Return name -> array of the inputs of a model. `feeds`: index of the input -> array."""
    ports = model.inputs
    return {ports[index].name: array for index, array in feeds.items() if index < len(ports)}


def _run_model(_: Path, data: bytes, shim: str) -> None:
    import onnx_compat

    content, feeds = split_case(data)
    model = onnx_compat.load(content)
    onnx_compat.prepare(model, shim=shim, fallback=not _has_onnxruntime()).run(_named_feeds(model, feeds))


@functools.lru_cache(maxsize=1)
def _has_onnxruntime() -> bool:
    """Whether onnxruntime is installed. As the fallback, it would run every model in a child process, for seconds."""
    return importlib.util.find_spec("onnxruntime") is not None


def _convert_and_run(_: Path, data: bytes, shim: str) -> None:
    """Convert a model, run the file, and compare its outputs with those of the reference.

    Raises `Broken` if the reference runs the model, and the file does not run or has other outputs.
    """
    with tempfile.TemporaryDirectory() as folder:
        _convert_and_compare(Path(folder) / ("converted" + FORMS[_FORM[shim]]), data, shim)


def _convert_and_compare(file: Path, data: bytes, shim: str) -> None:
    """Convert the model of a case to `file`, run the file, and compare its outputs with those of the reference.

    Raises Broken if the reference runs the model, and the file does not run or has other outputs. Feeds that contradict
    the ports, and runs with open values (see `has_open_values`), raise nothing. Outputs of a model that draws random
    numbers are not compared. Errors of the conversion are not caught.
    """
    import onnx_compat

    content, feeds = split_case(data)
    model = onnx_compat.load(content)
    onnx_compat.convert(model, file, to=_FORM[shim], shim=shim)
    named = _named_feeds(model, feeds)
    if not all(_has_declared_dtype(port, named[port.name]) for port in model.inputs if port.name in named):
        return  # a run converts the feed, and a file takes the wider dtype as it is
    expected: Dict[str, Any] = {}
    if judge(lambda: expected.update(onnx_compat.run(model, named, shim="reference").as_dict())).kind != RAN:
        return
    converted: Any = onnx_compat.load_converted(file)
    try:
        outputs = converted.run(_in_file_dtypes(named, converted.input_ports)).as_dict()
        outputs = _in_file_dtypes(outputs, converted.output_ports)
    except onnx_compat.InputError:  # a declaration that the feed contradicts: a hint for a run, a fact in a file
        return
    except onnx_compat.OnnxCompatError as error:
        if has_open_values(lambda: onnx_compat.run(model, named, shim="reference")):
            return
        raise Broken(BROKEN, "the file does not run: %s" % error.reason) from error
    if any(word.encode() in content for word in _RANDOM):
        return
    for name, value in _in_file_dtypes(expected, converted.output_ports).items():
        try:
            compare(name, outputs[name], value, 1e-2, 1e-2)
        except Mismatch as mismatch:
            if has_open_values(lambda: onnx_compat.run(model, named, shim="reference")):
                return
            raise Broken(WRONG, str(mismatch)) from mismatch


def _has_declared_dtype(port: Any, array: Any) -> bool:
    """Whether an array has the dtype of its port. True for a port of strings or of no tensor."""
    declared = getattr(getattr(port.type, "dtype", None), "name", "string")
    return declared == "string" or str(array.dtype).replace("_", "") == declared


def _in_file_dtypes(values: Dict[str, Any], ports: Any) -> Dict[str, Any]:
    """Return a copy of `values` in which arrays of a dtype that numpy lacks have the dtype of their port.

    An array without a port stays as it is.
    """
    wide = {port.name: port.dtype.numpy for port in ports}
    return {
        name: value.astype(wide[name])
        if name in wide and isinstance(value, np.ndarray) and value.dtype.type.__module__ != "numpy"
        else value
        for name, value in values.items()
    }


KINDS: Dict[str, Kind] = {
    "load": Kind(".onnx", _models, corrupt, _load),
    "arrays": Kind(".npz", _arrays, corrupt_archive, _read_arrays),
    "file": Kind(".tflite", _convert_cases, change_file, _run_file, shims=["tflite"]),
    "describe": Kind(".tflite", _convert_cases, change_file, _describe, shims=["tflite"]),
    "bundle": Kind(".tflite.zip", _bundles, corrupt_archive, _run_file, shims=["tflite"]),
    "run": Kind(".zip", lambda _, every: _cases(every=every), change_case, _run_model, False),
    "convert": Kind(".zip", lambda _, every: _cases(every=every), change_case, _convert_and_run, False, list(_FORM)),
}
"""Name of a kind -> the kind. A case of the kinds `run` and `convert` is an archive: see `model_changes`."""

"""Run a model once in onnxruntime in a child process, because a model that is not sound can end the process.

The model and the values go through files in a temporary folder: raw bytes for numbers, JSON for everything else. The
results are untrusted, because the child process ran an unknown model: nothing is unpickled.
"""

import json
import os
import signal
import tempfile
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from onnx_compat.discovery.child_process import ChildResult, call_in_child
from onnx_compat.errors import UnsupportedError

__all__ = ["ChildRun", "LoadRefused", "answer_run", "run_in_child", "session_options"]

#: The time limit of a run in a child process. A part of a large model takes seconds, and a bad model may never end.
SECONDS = 600

#: A value of JSON.
Json = Any


class LoadRefused(UnsupportedError):
    """onnxruntime does not load the model: the model is not valid, or has an operator that onnxruntime lacks."""


class ChildRun(NamedTuple):
    """The outcome of a run in a child process: the values of the outputs, in order."""

    outputs: List[Any]


def session_options(runtime: Any, optimised: bool = True) -> Any:
    """Return new SessionOptions of onnxruntime that log fatal errors only, because a failure is an exception too.

    `runtime`: the module. `optimised`: False for ORT_DISABLE_ALL, with which the kernel of each operator runs as it is.
    """
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    if not optimised:
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def run_in_child(
    source: Union[bytes, str],
    inputs: Dict[str, Any],
    outputs: Optional[Sequence[str]] = None,
    optimised: bool = True,
) -> Optional[ChildRun]:
    """Run a model in onnxruntime on the CPU, in a child process. Return a `ChildRun`.

    Return None if no child process can be started.

    - source: the bytes of the model, or its path.
    - inputs: value name -> array, list, dict or None. Names that the model lacks are ignored.
    - outputs: the names of the outputs; None: all.
    - optimised: as for `session_options`.

    Raises LoadRefused if onnxruntime does not load the model. Raises UnsupportedError in these cases:

    - The run raises an error.
    - The child process ends without a result.
    - The child process exceeds the time limit, and is killed.
    """
    with tempfile.TemporaryDirectory(prefix="onnx-compat-") as folder:
        path = source if isinstance(source, str) else os.path.join(folder, "model.onnx")
        if not isinstance(source, str):
            with open(path, "wb") as file:
                file.write(source)
        feeds = {name: _store(value, folder, "in%d" % number) for number, (name, value) in enumerate(inputs.items())}
        with open(os.path.join(folder, "inputs.json"), "w", encoding="ascii") as file:
            names = None if outputs is None else list(outputs)
            json.dump({"inputs": feeds, "outputs": names, "optimised": optimised}, file)
        result = call_in_child(__name__, "answer_run", os.path.abspath(path), folder, seconds=SECONDS)
        if result.status == "not started":
            return None
        if result.status != "returned":
            raise UnsupportedError("onnxruntime %s" % _describe_end(result))
        if "error" in result.value:
            error = UnsupportedError if result.value["loaded"] else LoadRefused
            raise error("onnxruntime could not run it: %s" % result.value["error"])
        return ChildRun([_restore(value, folder) for value in result.value["outputs"]])


def answer_run(path: str, folder: str) -> Dict[str, Json]:
    """Run the model at `path` in this process, which is the child process that `run_in_child` has started.

    The file `inputs.json` in `folder` has the inputs, the names of the outputs, and whether to optimise. Return one of
    these dicts:

    - {"outputs": list with the description of each output by `_store`}
    - {"error": first line of the message, "loaded": whether onnxruntime had loaded the model before the error}
    """
    import onnxruntime

    with open(os.path.join(folder, "inputs.json"), encoding="ascii") as file:
        request = json.load(file)
    options = session_options(onnxruntime, request["optimised"])
    session = None
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        known = {port.name for port in session.get_inputs()}
        feeds = {name: _restore(value, folder) for name, value in request["inputs"].items() if name in known}
        results = session.run(request["outputs"], feeds)
        return {"outputs": [_store(value, folder, "out%d" % number) for number, value in enumerate(results)]}
    except Exception as error:  # noqa: BLE001 (the errors of onnxruntime have no base class but Exception)
        message = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return {"error": message, "loaded": session is not None}


def _describe_end(result: ChildResult) -> str:
    """Return how a child process ended without a result, as a text that follows "onnxruntime"."""
    if result.status == "timeout":
        return "has not come back for %d seconds" % SECONDS
    try:
        ending = signal.Signals(-result.exit_code).name
    except ValueError:
        ending = "exit code %d" % result.exit_code
    return "ends its process (%s): the model is not valid, or onnxruntime has a defect" % ending


def _store(value: Any, folder: str, name: str) -> Json:
    """Store a value for the other process, and return its description, from which `_restore` returns the value.

    The bytes of a numeric array are written to the file `name` in `folder`. None, texts and a dict are in the
    description. For a list, each item is stored, with the index appended to the name: "in0.2".
    """
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return {"list": [_store(item, folder, "%s.%d" % (name, index)) for index, item in enumerate(value)]}
    if isinstance(value, dict):
        return {"keys": [_to_json(key) for key in value], "values": [_to_json(item) for item in value.values()]}
    array = np.asarray(value)
    if array.dtype.kind in "OSU":
        texts = [item.decode("utf-8", "replace") if isinstance(item, bytes) else str(item) for item in array.ravel()]
        return {"texts": texts, "shape": list(array.shape)}
    with open(os.path.join(folder, name), "wb") as file:
        file.write(np.ascontiguousarray(array).tobytes())
    return {"file": name, "dtype": array.dtype.name, "shape": list(array.shape)}


def _to_json(item: Any) -> Json:
    """Return a key or a value of a map as a number or text of JSON. numpy's scalars lose their dtype, but no digit."""
    item = item.item() if isinstance(item, np.generic) else item
    return item.decode("utf-8", "replace") if isinstance(item, bytes) else item


def _restore(description: Json, folder: str) -> Any:
    """Return the value of a description. The inverse of `_store`, which wrote the files of arrays into `folder`."""
    if description is None:
        return None
    if "list" in description:
        return [_restore(item, folder) for item in description["list"]]
    if "keys" in description:
        return dict(zip(description["keys"], description["values"]))
    if "texts" in description:
        texts = np.empty(len(description["texts"]), object)
        texts[:] = description["texts"]
        return texts.reshape(description["shape"])
    with open(os.path.join(folder, os.path.basename(description["file"])), "rb") as file:
        return np.frombuffer(bytearray(file.read()), _dtype(description["dtype"])).reshape(description["shape"])


def _dtype(name: str) -> "np.dtype[Any]":
    """Return the dtype of a name: numpy's, or that of ml_dtypes for bfloat16 and others."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
        return dtype

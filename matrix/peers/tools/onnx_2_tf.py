"""onnx2tf as a peer: convert to .tflite with the default options, and run the file in the interpreter of ai-edge-litert.

By default onnx2tf permutes inputs to channels-last. The inputs are passed unpermuted, because a user who replaces the
model by the file passes them so. The peer `onnx2tf-keep-shapes` keeps the shape of every input.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Union

import numpy as np
import onnx
from ai_edge_litert.interpreter import Interpreter  # noqa: TID253 - in the environment of the peer only
from onnx2tf import convert  # type: ignore[import-not-found]  # in the environment of the peer only

__all__ = ["LEAKS", "PACKAGES", "REFUSED", "prepare"]

LEAKS = False
PACKAGES = ("onnx2tf", "ai-edge-litert", "onnx", "numpy")
REFUSED = ("^NotImplementedError",)

# onnx2tf starts tools of its own environment by name.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])


def prepare(model: Union[str, bytes], keep_shapes: bool = False) -> Callable[[Dict[str, Any]], Sequence[Any]]:
    """Convert a model and return a function that runs the file. `keep_shapes`: keep the shape of every input."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")  # a copy: onnx2tf writes into the model that it reads
        if isinstance(model, str):
            shutil.copy(model, str(path))
        else:
            path.write_bytes(model)
        graph = onnx.load(str(path)).graph
        initializers = {tensor.name for tensor in graph.initializer}
        inputs = [value.name for value in graph.input if value.name not in initializers]
        options = {"keep_shape_absolutely_input_names": inputs} if keep_shapes and inputs else {}
        out = Path(folder, "out")
        convert(input_onnx_file_path=str(path), output_folder_path=str(out), non_verbose=True, **options)
        (converted,) = out.glob("*_float32.tflite")
        content = converted.read_bytes()
    return _Runner(content, [value.name for value in graph.output])


class _Runner:
    """A converted file, open in the interpreter. A call runs it: inputs by name -> outputs in the order `outputs`."""

    def __init__(self, content: bytes, outputs: List[str]) -> None:
        self._interpreter = Interpreter(model_content=content)
        self._interpreter.allocate_tensors()
        self._outputs = outputs

    def __call__(self, inputs: Dict[str, Any]) -> Sequence[Any]:
        input_details = _match_tensors(self._interpreter.get_input_details(), list(inputs))
        for name, value in inputs.items():
            if -1 in input_details[name]["shape_signature"]:
                self._interpreter.resize_tensor_input(input_details[name]["index"], np.shape(value))
        self._interpreter.allocate_tensors()
        for name, value in inputs.items():
            self._interpreter.set_tensor(input_details[name]["index"], value)
        self._interpreter.invoke()
        output_details = _match_tensors(self._interpreter.get_output_details(), self._outputs)
        return [self._interpreter.get_tensor(output_details[name]["index"]) for name in self._outputs]


def _match_tensors(details: Sequence[Dict[str, Any]], names: Sequence[str]) -> Dict[str, Dict[str, Any]]:
    """Return name in the model -> tensor of the file: by name if the file has all these names, else by position.

    Raise a ValueError if the counts differ.
    """
    if len(details) != len(names):
        raise ValueError("the file has %d of the %d tensors %s" % (len(details), len(names), ", ".join(names)))
    named = {str(detail["name"]): detail for detail in details}
    return named if set(named) == set(names) else dict(zip(names, details))

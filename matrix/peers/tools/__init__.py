"""The projects that are measured, each by a module here with

PACKAGES    the packages whose versions the results tell, its own first
REFUSED     patterns of the errors by which it says by name that it does not do something: a gap, not a failure
LEAKS       whether a model may fail because of those before it: what fails is then run again in a fresh process
prepare     a model, as a path or as bytes, and the options of the row -> what takes the inputs and gives the outputs
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

__all__ = ["PROJECTS", "Tool"]

PROJECTS = {
    "onnxruntime": "matrix.peers.tools.onnx_runtime",
    "onnx-reference": "matrix.peers.tools.onnx_reference",
    "onnx-tf": "matrix.peers.tools.onnx_tf_backend",
    "onnx2tf": "matrix.peers.tools.onnx_2_tf",
}


class Tool(NamedTuple):
    """A module, imported in a child process only, and what its `prepare` is told."""

    module: str
    options: Dict[str, Any] = {}

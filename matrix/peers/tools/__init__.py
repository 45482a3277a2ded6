"""Projects that are measured, each in a module with these names:

- PACKAGES: the packages whose versions the results name, the project's own package first
- REFUSED: patterns of errors by which the project declares that it does not support a model: a gap, not a failure
- LEAKS: whether a model may fail because of earlier models; a failed case is then run again in a fresh process
- prepare: a model (a path or bytes) and the options of the row -> a function from inputs to outputs
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
    """A module, which only a child process imports, with the options of its `prepare`."""

    module: str
    options: Dict[str, Any] = {}

"""The modules of the peers, one for each project. Each module has these names:

- PACKAGES: the packages whose versions the results name, the project's own package first
- REFUSED: patterns of errors by which the project declares that it does not support a model: a gap, not a failure
- LEAKS: whether a model may fail because of an earlier model; a failed case then runs again in a new process
- prepare: a function (model as path or bytes, **options) -> function from inputs by name to outputs
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
    """The import name of a peer's module, which only a child process imports, and the options of its `prepare`."""

    module: str
    options: Dict[str, Any] = {}

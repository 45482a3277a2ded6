"""The intermediate representation of a model: a trace records it, passes rewrite it and a shim emits it.

`printer` writes a program as text, `verifier` checks it, `rewriter` replaces nodes.
"""

import os

from onnx_compat.ir.program import (
    Arg,
    Const,
    Extents,
    Node,
    Origin,
    Ref,
    Region,
    Spec,
    Target,
    TensorArg,
    input_dependencies,
    refs,
)

__all__ = [
    "Arg",
    "Const",
    "Extents",
    "Node",
    "Origin",
    "Ref",
    "Region",
    "Spec",
    "Target",
    "TensorArg",
    "input_dependencies",
    "is_verifying",
    "refs",
]


def is_verifying() -> bool:
    """Whether programs and target graphs are verified: ONNX_COMPAT_VERIFY is set, and neither empty nor "0"."""
    return os.environ.get("ONNX_COMPAT_VERIFY", "0") not in ("", "0")

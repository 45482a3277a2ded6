"""The intermediate representation: what a trace records, a rewrite changes and a shim emits.

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
    "input_dependencies",
    "is_verifying",
    "refs",
]


def is_verifying() -> bool:
    """Whether programs and target graphs are verified: the environment variable ONNX_COMPAT_VERIFY is 1."""
    return os.environ.get("ONNX_COMPAT_VERIFY", "0") not in ("", "0")

"""Compose a node: record its meaning over primitives, and write the primitives with the operators of the target."""

from typing import Optional

from onnx_compat.retarget.rewriting import Composer

__all__ = ["composer_for"]


def composer_for(opset: Optional[int]) -> Optional[Composer]:
    """Return the composer for an opset; None: nothing is composed."""
    return None

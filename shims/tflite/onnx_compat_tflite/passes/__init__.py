"""Improving a finished list of operators, without changing what it computes."""

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.sweep import sweep

__all__ = ["improve"]


def improve(model: fb.ModelSpec) -> None:
    """Every subgraph, in place."""
    for graph in model.subgraphs:
        sweep(graph)

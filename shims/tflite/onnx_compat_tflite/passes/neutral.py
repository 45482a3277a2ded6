"""Arithmetic that leaves everything as it is: what comes of scales of one, and of bounds that bound nothing."""

from typing import Optional

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["drop_neutral"]

#: The number that leaves the other operand as it is. (Zero is not added: that would make -0 positive.)
_NEUTRAL = {"DIV": 1, "MAXIMUM": -np.inf, "MINIMUM": np.inf, "MUL": 1, "SUB": 0}


def drop_neutral(graph: fb.SubGraph) -> None:
    """Others read the operand; what is then not read is swept away."""
    view = View(graph)
    for operator in list(graph.operators):
        source = _operand(view, operator) if operator.builtin in _NEUTRAL else None
        if source is not None:
            view.skip(operator, source)


def _operand(view: View, operator: fb.OperatorSpec) -> Optional[int]:
    """What is beside the neutral number, if that does not give it more axes, or other scales."""
    if operator.options.get("fused_activation_function", "NONE") != "NONE":
        return None
    after = view.graph.tensors[operator.outputs[0]]
    pairs = [operator.inputs, list(operator.inputs)[::-1]]
    for source, other in pairs[: 1 if operator.builtin in ("DIV", "SUB") else 2]:
        number, neutral = view.number(other), _NEUTRAL[operator.builtin]
        if operator.builtin == "MAXIMUM" and _counts(view, source):
            neutral = 0
        if source is None or number != neutral or (number == 0 and np.signbit(number)):
            continue
        before = view.graph.tensors[source]
        alike = before.quantization == after.quantization and len(before.shape) == len(after.shape)
        if alike and view.constant(source) is None:
            return source
    return None


def _counts(view: View, index: Optional[int]) -> bool:
    """Whether a tensor is a length."""
    cut = view.writer(index, "STRIDED_SLICE")
    return cut is not None and view.writer(cut.inputs[0], "SHAPE") is not None

"""Constant factors in a row as one, and a layer that flattens its input by itself."""

from typing import Any, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["drop_flattening", "join_factors"]

_FEW = 4096  # elements that a constant may grow to


def join_factors(graph: fb.SubGraph) -> None:
    """x * a * b is x * (a * b), also where one of them divides: what comes of two normalisations in a row, or of a mean
    that counts along each axis.
    """
    view = View(graph)
    for operator in graph.operators:
        outer = _factor(view, operator)
        inner = None if outer is None else view.writer(outer[0], "MUL", "DIV")
        first = None if inner is None else _factor(view, inner)
        if outer is None or inner is None or first is None or not view.only_read_by(outer[0], operator):
            continue
        if inner.options.get("fused_activation_function", "NONE") == "NONE":
            _join(view, operator, (first, inner.builtin), (outer, operator.builtin))


def _factor(view: View, operator: fb.OperatorSpec) -> Optional[Tuple[int, Any]]:
    """The tensor and the constant that it is multiplied with or divided by."""
    if operator.builtin not in ("MUL", "DIV"):
        return None
    pairs = [operator.inputs, list(operator.inputs)[::-1]]
    for x, constant in pairs[:1] if operator.builtin == "DIV" else pairs:
        array = view.constant(constant)
        if array is not None and x is not None and view.constant(x) is None and np.asarray(array).dtype == np.float32:
            return x, np.asarray(array)
    return None


def _join(view: View, operator: fb.OperatorSpec, first: Any, second: Any) -> None:
    ((source, a), inner), ((_, b), outer) = first, second
    with np.errstate(all="ignore"):
        joined = a * b if inner == outer else (a / b if outer == "DIV" else b / a)
    builtin = inner if inner == outer else "MUL"
    small = joined.size <= max(a.size, b.size, _FEW)
    if not small or not np.isfinite(joined).all() or (np.abs(joined) < np.finfo(np.float32).tiny).any():
        return
    name = view.graph.tensors[operator.outputs[0]].name + "/factor"
    place = view.graph.add(fb.TensorSpec(name, "float32", joined.shape, joined.astype(np.float32)))
    view.turn_into(operator, builtin, [source, place], **operator.options)


def drop_flattening(graph: fb.SubGraph) -> None:
    """A FULLY_CONNECTED takes what lies before it as rows of its own length."""
    view = View(graph)
    for operator in graph.operators:
        if operator.builtin != "FULLY_CONNECTED" or operator.options.get("keep_num_dims"):
            continue
        reshape = view.writer(operator.inputs[0], "RESHAPE")
        if reshape is None or operator.inputs[1] is None or reshape.inputs[0] is None:
            continue
        rows, length = view.sizes(reshape.outputs[0]), view.sizes(operator.inputs[1])[1]
        if len(rows) == 2 and rows[1] == length > 0 and len(view.sizes(reshape.inputs[0])) > 1:
            view.read_instead(operator, 0, reshape.inputs[0])

"""Piecewise linear activations under the names that TFLite has for them."""

from typing import Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["name_activations"]

_Bounded = Tuple[int, float, float]


def name_activations(graph: fb.SubGraph) -> None:
    """clip(x, -1, 1) is RELU_N1_TO_1; x / 6 + 1/2 held to [0, 1] is RELU6(x + 3) / 6; x times that is HARD_SWISH."""
    view = View(graph)
    for operator in list(graph.operators):
        if operator.builtin == "MINIMUM":
            _bounded(view, operator)
    view = View(graph)
    for operator in graph.operators:
        unfused = operator.options.get("fused_activation_function", "NONE") == "NONE"
        if operator.builtin in ("MUL", "DIV") and unfused:
            _hard_swish(view, operator)


def _bounded(view: View, operator: fb.OperatorSpec) -> None:
    found = _bounds(view, operator)
    if found is None or view.graph.tensors[found[0]].dtype != "float32":
        return
    source, low, high = found
    operator = _with_nan(view, operator, source)
    if (low, high) == (-1, 1):
        view.turn_into(operator, "RELU_N1_TO_1", [source])
        return
    start = _sixth(view, source) if (low, high) == (0, 1) else None
    if start is not None:
        _hard_sigmoid(view, operator, start)


def _bounds(view: View, operator: fb.OperatorSpec) -> Optional[_Bounded]:
    """What a MINIMUM of a MAXIMUM (or of a RELU) holds to which bounds."""
    high = view.number(operator.inputs[0])
    lower = view.writer(operator.inputs[1], "MAXIMUM", "RELU")
    if high is None or lower is None:
        return None
    if lower.builtin == "RELU":
        return lower.inputs[0] or 0, 0, high
    low, source = view.number(lower.inputs[0]), lower.inputs[1]
    return None if low is None or source is None else (source, low, high)


def _with_nan(view: View, operator: fb.OperatorSpec, source: int) -> fb.OperatorSpec:
    """What puts NaN of the source back into the result of an operator, or that operator itself."""
    for reader in view.readers(operator.outputs[0]):
        if reader.builtin == "SELECT_V2" and reader.inputs[1] == source:
            unlike = view.writer(reader.inputs[0], "NOT_EQUAL")
            if unlike is not None and list(unlike.inputs) == [source, source]:
                return reader
    return operator


def _sixth(view: View, index: int) -> Optional[int]:
    """x, where the tensor is x / 6 + 1/2."""
    total = view.writer(index, "ADD")
    scaled = None if total is None else view.writer(_other(view, total, 0.5), "MUL")
    return None if scaled is None else _other(view, scaled, 1 / 6)


def _other(view: View, operator: fb.OperatorSpec, number: float) -> Optional[int]:
    """The operand beside a number."""
    if operator.options.get("fused_activation_function", "NONE") != "NONE":
        return None
    for one, other in (operator.inputs, list(operator.inputs)[::-1]):
        value = view.number(one)
        if value is not None and np.isclose(value, number, rtol=1e-5, atol=0):
            return other
    return None


def _hard_sigmoid(view: View, operator: fb.OperatorSpec, source: int) -> None:
    """ADD with RELU6, then MUL: two operators for four."""
    graph = view.graph
    shape, signature = graph.tensors[source].shape, graph.tensors[source].shape_signature
    name = graph.tensors[operator.outputs[0]].name
    three = graph.add(fb.TensorSpec(name + "/three", "float32", (), np.asarray(3, np.float32)))
    sixth = graph.add(fb.TensorSpec(name + "/sixth", "float32", (), np.asarray(1 / 6, np.float32)))
    held = graph.add(fb.TensorSpec(name + "/held", "float32", shape, shape_signature=signature))
    adding = fb.OperatorSpec("ADD", [source, three], [held], {"fused_activation_function": "RELU6"})
    graph.operators.insert(graph.operators.index(operator), adding)
    view.turn_into(operator, "MUL", [held, sixth])


def _hard_swish(view: View, operator: fb.OperatorSpec) -> None:
    """x * (RELU6(x + 3) / 6), or (x * RELU6(x + 3)) / 6."""
    if operator.builtin == "MUL":
        for x, factor in (operator.inputs, list(operator.inputs)[::-1]):
            held = _over_six(view, view.writer(factor, "MUL", "DIV"))
            if held is not None and _swished(view, operator, x, held):
                return
    product = view.writer(_over_six(view, operator), "MUL")
    if product is not None and product.options.get("fused_activation_function", "NONE") == "NONE":
        for x, held in (product.inputs, list(product.inputs)[::-1]):
            if held is not None and _swished(view, operator, x, held):
                return


def _swished(view: View, operator: fb.OperatorSpec, x: Optional[int], held: int) -> bool:
    """Whether the operator is x times this tensor over six, and became HARD_SWISH."""
    if x is None or _plus_three(view, held) != x or len(view.sizes(x)) != len(view.sizes(operator.outputs[0])):
        return False
    view.turn_into(operator, "HARD_SWISH", [x])
    return True


def _over_six(view: View, operator: Optional[fb.OperatorSpec]) -> Optional[int]:
    """x, where the operator gives x / 6."""
    if operator is None or operator.builtin == "MUL":
        return None if operator is None else _other(view, operator, 1 / 6)
    plain = operator.options.get("fused_activation_function", "NONE") == "NONE"
    return operator.inputs[0] if plain and view.number(operator.inputs[1]) == 6 else None


def _plus_three(view: View, index: int) -> Optional[int]:
    """x, where the tensor is RELU6(x + 3), in one operator or two."""
    six = view.writer(index, "RELU6")
    total = view.writer(six.inputs[0] if six is not None else index, "ADD")
    if total is None:
        return None
    bound = total.options.get("fused_activation_function", "NONE")
    if bound != ("NONE" if six is not None else "RELU6"):
        return None
    return next((b for a, b in (total.inputs, list(total.inputs)[::-1]) if view.number(a) == 3), None)

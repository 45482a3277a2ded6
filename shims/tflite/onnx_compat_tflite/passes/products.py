"""Constant factors in a row as one, and a layer that flattens its input by itself."""

from typing import Any, Optional, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["drop_flattening", "join_factors"]

_FEW = 4096  # elements that a constant may grow to


def join_factors(graph: fb.SubGraph) -> None:
    """x * a * b is x * (a * b), also where one of them divides: what comes of two normalisations in a row, or of a mean
    that counts along each axis. And (x * a + b) * c + d is x * (a * c) + (b * c + d).
    """
    view = View(graph)
    for operator in graph.operators:
        outer = _constant(view, operator, "MUL", "DIV")
        if outer is None:
            continue
        inner = _before(view, operator, outer[0], "MUL", "DIV")
        first = None if inner is None else _constant(view, inner, "MUL", "DIV")
        if inner is not None and first is not None:
            a, b, alike = first[1], outer[1], inner.builtin == operator.builtin
            with np.errstate(all="ignore"):
                joined = a * b if alike else (a / b if operator.builtin == "DIV" else b / a)
            place = _held(view, operator, joined, max(a.size, b.size))
            if place is not None:
                builtin = inner.builtin if alike else "MUL"
                view.turn_into(operator, builtin, [first[0], place], **operator.options)
    for operator in graph.operators:
        _distribute(view, operator)


def _distribute(view: View, operator: fb.OperatorSpec) -> None:
    """(x * a + b) * c, whose last product this is: the sum becomes the product, the product the sum, and a sum behind it that
    of both.
    """
    outer = _constant(view, operator, "MUL")
    sum_ = None if outer is None else _before(view, operator, outer[0], "ADD")
    added = None if sum_ is None else _constant(view, sum_, "ADD")
    product = None if sum_ is None or added is None else _before(view, sum_, added[0], "MUL")
    scaled = None if product is None else _constant(view, product, "MUL")
    if outer is None or sum_ is None or added is None or scaled is None or product is None:
        return
    shapes = {tuple(view.sizes(one.outputs[0])) for one in (product, sum_, operator)}
    if len(shapes) > 1:  # a constant that adds axes, or repeats along one, does it where it stands
        return
    (x, a), (_, b), (_, c) = scaled, added, outer
    most = max(a.size, b.size, c.size)
    with np.errstate(all="ignore"):
        factor, summand = _held(view, operator, a * c, most), _held(view, operator, b * c, most, zeros=True)
    if factor is None or summand is None:
        return
    view.turn_into(sum_, "MUL", [x, factor], fused_activation_function="NONE")
    view.graph.tensors[sum_.outputs[0]].name += "/scaled"  # it is no value of the model any more
    view.turn_into(operator, "ADD", [sum_.outputs[0], summand], **operator.options)
    for reader in view.readers(operator.outputs[0]):
        last = _constant(view, reader, "ADD")
        if last is not None and _before(view, reader, last[0], "ADD") is operator:
            both = _held(view, reader, b * c + last[1], max(most, last[1].size), zeros=True)
            if both is not None:
                view.turn_into(reader, "ADD", [sum_.outputs[0], both], **reader.options)


def _constant(view: View, operator: fb.OperatorSpec, *builtins: str) -> Optional[Tuple[int, Any]]:
    """The tensor, and the constant that it is multiplied with, divided by or added to."""
    if operator.builtin not in builtins:
        return None
    pairs = [operator.inputs, list(operator.inputs)[::-1]]
    for x, constant in pairs[:1] if operator.builtin == "DIV" else pairs:
        array = view.constant(constant)
        if array is not None and x is not None and view.constant(x) is None and np.asarray(array).dtype == np.float32:
            return x, np.asarray(array)
    return None


def _before(view: View, operator: fb.OperatorSpec, source: int, *builtins: str) -> Optional[fb.OperatorSpec]:
    """What writes a tensor for this operator alone, and does not bound it."""
    found = view.writer(source, *builtins)
    if found is None or not view.only_read_by(source, operator):
        return None
    return found if found.options.get("fused_activation_function", "NONE") == "NONE" else None


def _held(view: View, operator: fb.OperatorSpec, array: Any, most: int, zeros: bool = False) -> Optional[int]:
    """A tensor for a constant that is not large and holds what it stands for; else None."""
    array = np.asarray(array, np.float32)
    lost = (np.abs(array) < np.finfo(np.float32).tiny) & ~((array == 0) & zeros)
    if array.size > max(most, _FEW) or not np.isfinite(array).all() or lost.any():
        return None
    name = view.graph.tensors[operator.outputs[0]].name + "/factor"
    return view.graph.add(fb.TensorSpec(name, "float32", array.shape, array))


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

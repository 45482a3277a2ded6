"""Reshapes and casts that undo or repeat each other."""

from typing import Optional

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["drop_moves"]

_RESHAPES = ("RESHAPE", "EXPAND_DIMS", "SQUEEZE")
#: What holds every value of a type.
_HOLDS = {
    "bool": ("uint8", "int8", "int16", "int32", "int64", "float32"),
    "int8": ("int16", "int32", "int64", "float32"),
    "uint8": ("int16", "int32", "int64", "float32"),
    "int16": ("int32", "int64", "float32"),
    "int32": ("int64",),
    "uint32": ("int64",),
    "float16": ("float32",),
}


def drop_moves(graph: fb.SubGraph) -> None:
    """Each operator reads the oldest tensor that serves; what is then not read is swept away."""
    view = View(graph)
    for operator in list(graph.operators):
        if operator.builtin == "RESHAPE":
            _pass_by(view, operator)
    for operator in graph.operators:
        if operator.builtin == "RESHAPE":
            inner = view.writer(operator.inputs[0], *_RESHAPES)
            if inner is not None and inner.inputs[0] is not None:
                view.read_instead(operator, 0, inner.inputs[0])
        elif operator.builtin == "CAST":
            source = _before_cast(view, operator)
            if source is not None:
                view.read_instead(operator, 0, source)
                operator.options = dict(operator.options, in_data_type=graph.tensors[source].dtype)
    for operator in list(graph.operators):
        same = _unchanged(view, operator)
        if same is not None:
            view.skip(operator, same)


def _pass_by(view: View, operator: fb.OperatorSpec) -> None:
    """A number that is cast as a vector of one, and is a number again: a size that a model counts to."""
    cast = view.writer(operator.inputs[0], "CAST")
    pack = None if cast is None else view.writer(cast.inputs[0], "PACK")
    if (
        cast is None
        or pack is None
        or len(pack.inputs) > 1
        or pack.inputs[0] is None
        or view.sizes(operator.outputs[0])
    ):
        return
    if view.only_read_by(cast.outputs[0], operator) and not view.sizes(pack.inputs[0]):
        view.read_instead(cast, 0, pack.inputs[0])
        view.take_over(cast, operator)


def _before_cast(view: View, operator: fb.OperatorSpec) -> Optional[int]:
    """What was cast to a type that holds all of it before it was cast again."""
    inner = view.writer(operator.inputs[0], "CAST")
    if inner is None or inner.inputs[0] is None:
        return None
    first, held = (view.graph.tensors[index].dtype for index in (inner.inputs[0], inner.outputs[0]))
    return inner.inputs[0] if held in _HOLDS.get(first, ()) else None


def _unchanged(view: View, operator: fb.OperatorSpec) -> Optional[int]:
    """The tensor that an operator copies."""
    source = operator.inputs[0] if operator.builtin in ("RESHAPE", "CAST") else None
    if source is None:
        return None
    if operator.builtin == "CAST":
        before, after = view.graph.tensors[source], view.graph.tensors[operator.outputs[0]]
        return source if before.dtype == after.dtype else None
    sizes = tuple(view.sizes(source))
    told = min(sizes, default=1) >= 0 or (sizes.count(-1) == 1 and 0 not in sizes)
    return source if told and sizes == tuple(view.sizes(operator.outputs[0])) else None

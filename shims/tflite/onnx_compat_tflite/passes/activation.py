"""Activations as a part of the operator whose result they bound."""

from dataclasses import replace
from typing import Optional

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["BOUNDS", "fuse_activations"]

BOUNDS = ("RELU", "RELU6", "RELU_N1_TO_1")
_TAKES = (
    "ADD",
    "AVERAGE_POOL_2D",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "DIV",
    "FULLY_CONNECTED",
    "MAX_POOL_2D",
    "MUL",
    "SUB",
)


def fuse_activations(graph: fb.SubGraph) -> None:
    """Where nobody else reads the value in between; the producer then writes the activation's own result. One behind a
    CONCATENATION becomes that of the parts, if each of them can have it.
    """
    view = View(graph)
    gone = set()
    for activation in graph.operators:
        if activation.builtin not in BOUNDS:
            continue
        producer = _unbounded(view, activation, 0, "CONCATENATION", *_TAKES)
        if producer is None:
            continue
        if producer.builtin != "CONCATENATION":
            producer.options["fused_activation_function"] = activation.builtin
        elif not _bounded_parts(view, producer, activation.builtin):
            continue
        producer.outputs = list(activation.outputs)
        gone.add(id(activation))
    graph.operators = [operator for operator in graph.operators if id(operator) not in gone]


def _unbounded(view: View, reader: fb.OperatorSpec, place: int, *builtins: str) -> Optional[fb.OperatorSpec]:
    """What writes an input of an operator for it alone, and has no activation yet."""
    source = reader.inputs[place]
    found = view.writer(source, *builtins)
    if found is None or source is None or not view.only_read_by(source, reader):
        return None
    return found if found.options.get("fused_activation_function", "NONE") == "NONE" else None


def _bounded_parts(view: View, joined: fb.OperatorSpec, builtin: str) -> bool:
    """Let all that is joined have an activation; the values have no name in the model any more."""
    parts = [_unbounded(view, joined, place, *_TAKES) for place in range(len(joined.inputs))]
    if (
        None in parts
        or len(set(joined.inputs)) < len(parts)
        or view.graph.tensors[joined.outputs[0]].dtype != "float32"
    ):
        return False
    for place, part in enumerate(parts):
        if part is not None:
            part.options["fused_activation_function"] = builtin
            old = view.graph.tensors[part.outputs[0]]
            part.outputs = [view.graph.add(replace(old, name=old.name + "/bounded"))]
            view.read_instead(joined, place, part.outputs[0])
    return True

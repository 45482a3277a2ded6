"""Activations as a part of the operator whose result they bound."""

from typing import List, Optional, Tuple

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.passes.view import View

__all__ = ["BOUNDS", "fuse_activations"]

BOUNDS = ("RELU", "RELU6", "RELU_N1_TO_1")
_TAKES = (
    "ADD",
    "AVERAGE_POOL_2D",
    "CONV_2D",
    "CONV_3D",
    "DEPTHWISE_CONV_2D",
    "DIV",
    "FULLY_CONNECTED",
    "MAX_POOL_2D",
    "MUL",
    "SUB",
)
#: What hands on numbers as they are: bounded before or after it, they are the same.
_MOVES = (
    "CONCATENATION",
    "DEPTH_TO_SPACE",
    "EXPAND_DIMS",
    "RESHAPE",
    "SLICE",
    "SPACE_TO_DEPTH",
    "SQUEEZE",
    "STRIDED_SLICE",
    "TRANSPOSE",
)


def fuse_activations(graph: fb.SubGraph, kernels: Kernels) -> None:
    """Where nobody else reads the values in between. The producer then writes the activation's own result, or has its
    numbers moved to it.
    """
    view = View(graph)
    takes = (*_TAKES, "TRANSPOSE_CONV") if kernels.has("TRANSPOSE_CONV", 4) else _TAKES
    gone = set()
    for activation in graph.operators:
        if activation.builtin not in BOUNDS:
            continue
        behind = _behind(view, activation, [0], takes)
        if behind is None:
            continue
        *inner, last = behind
        for operator in inner:
            view.write_anew(operator, "/bounded")
        for operator in behind:
            if operator.builtin in takes:
                operator.options["fused_activation_function"] = activation.builtin
        last.outputs = list(activation.outputs)
        gone.add(id(activation))
    graph.operators = [operator for operator in graph.operators if id(operator) not in gone]


def _behind(
    view: View, reader: fb.OperatorSpec, places: List[int], takes: Tuple[str, ...]
) -> Optional[List[fb.OperatorSpec]]:
    """What makes these inputs of an operator for it alone, moves and layers, if each number comes from a layer that has
    no activation yet; the inputs' own writers come last.
    """
    found: List[fb.OperatorSpec] = []
    for place in places:
        source = reader.inputs[place]
        writer = view.writer(source, *takes, *_MOVES)
        if writer is None or source is None or reader.inputs.count(source) > 1 or not view.only_read_by(source, reader):
            return None
        if writer.options.get("fused_activation_function", "NONE") != "NONE":
            return None
        if writer.builtin in _MOVES:
            joined = range(len(writer.inputs)) if writer.builtin == "CONCATENATION" else [0]
            before = (
                _behind(view, writer, list(joined), takes) if view.graph.tensors[source].dtype == "float32" else None
            )
            if before is None:
                return None
            found += before
        found.append(writer)
    return found

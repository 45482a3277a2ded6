"""Activations as a part of the operator whose result they bound."""

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
    """Where nobody else reads the value in between; the producer then writes the activation's own result."""
    view = View(graph)
    gone = set()
    for activation in graph.operators:
        if activation.builtin not in BOUNDS:
            continue
        source = activation.inputs[0]
        producer = view.writer(source, *_TAKES)
        if producer is None or source is None or not view.only_read_by(source, activation):
            continue
        if producer.options.get("fused_activation_function", "NONE") == "NONE":
            producer.options["fused_activation_function"] = activation.builtin
            producer.outputs = list(activation.outputs)
            gone.add(id(activation))
    graph.operators = [operator for operator in graph.operators if id(operator) not in gone]

"""Operators and tensors that nothing needs."""

from typing import Dict, List

from onnx_compat_tflite import flatbuffer as fb

__all__ = ["sweep"]


def sweep(graph: fb.SubGraph) -> None:
    """Drop operators whose results are not read, then tensors that no operator names. What is left keeps its order."""
    needed = set(graph.outputs)
    kept: List[fb.OperatorSpec] = []
    for operator in reversed(graph.operators):
        if any(index in needed for index in operator.outputs):
            needed.update(index for index in operator.inputs if index is not None)
            needed.update(operator.outputs)
            kept.append(operator)
    graph.operators = kept[::-1]
    needed.update(graph.inputs)
    places: Dict[int, int] = {}
    for index in range(len(graph.tensors)):
        if index in needed:
            places[index] = len(places)
    graph.tensors = [graph.tensors[index] for index in places]
    graph.inputs = [places[index] for index in graph.inputs]
    graph.outputs = [places[index] for index in graph.outputs]
    for operator in graph.operators:
        operator.inputs = [None if index is None else places[index] for index in operator.inputs]
        operator.outputs = [places[index] for index in operator.outputs]

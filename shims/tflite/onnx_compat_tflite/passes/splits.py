"""Slices that together are the whole of a tensor, as one operator."""

from typing import Dict, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["join_slices"]

_TYPES = ("float32", "int32")
_MOST = 4  # parts that XNNPACK cuts; of slices it takes any number


class _Part(NamedTuple):
    start: int
    length: int
    operator: fb.OperatorSpec


def join_slices(graph: fb.SubGraph) -> None:
    """Equal parts, as the gates of an LSTM are cut: SPLIT gives all of them."""
    view = View(graph)
    groups: Dict[Tuple[int, int], List[_Part]] = {}
    for operator in graph.operators:
        along = _axis(view, operator)
        if along is not None:
            groups.setdefault(along[:2], []).append(_Part(*along[2:], operator))
    gone: Set[int] = set()
    for (source, axis), parts in groups.items():
        ordered = sorted(parts, key=lambda part: part.start)
        length = ordered[0].length
        starts = [part.start for part in ordered]
        alike = all(part.length == length for part in ordered)
        if not 2 <= len(parts) <= _MOST or not alike or starts != [length * k for k in range(len(parts))]:
            continue
        if length * len(parts) == view.sizes(source)[axis]:
            first = parts[0].operator
            _split(graph, first, source, axis, [part.operator.outputs[0] for part in ordered])
            gone.update(id(part.operator) for part in parts[1:])
    graph.operators = [operator for operator in graph.operators if id(operator) not in gone]


def _axis(view: View, operator: fb.OperatorSpec) -> Optional[Tuple[int, int, int, int]]:
    """What is cut along which axis, from where, how much, if it is along one."""
    source = operator.inputs[0] if operator.builtin == "SLICE" else None
    if source is None or view.graph.tensors[source].dtype not in _TYPES or view.constant(source) is not None:
        return None
    begin, size = (view.constant(index) for index in operator.inputs[1:])
    whole, left = view.sizes(source), view.sizes(operator.outputs[0])
    if begin is None or size is None:
        return None
    cut = [k for k, (first, many, full) in enumerate(zip(begin, size, whole)) if first or many not in (-1, full)]
    if len(cut) != 1 or whole[cut[0]] < 0 or left[cut[0]] < 1:
        return None
    return source, cut[0], int(begin[cut[0]]), int(left[cut[0]])


def _split(graph: fb.SubGraph, operator: fb.OperatorSpec, source: int, axis: int, outputs: List[int]) -> None:
    name = graph.tensors[outputs[0]].name + "/axis"
    along = graph.add(fb.TensorSpec(name, "int32", (), np.asarray(axis, np.int32)))
    operator.builtin, operator.inputs, operator.outputs = "SPLIT", [along, source], outputs
    operator.options = {"num_splits": len(outputs)}

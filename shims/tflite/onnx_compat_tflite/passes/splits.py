"""Slices that together are the whole of a tensor, as one SPLIT; and a SPLIT before the reshape that it stood behind.

Attention and recurrent cells compute several things (queries, keys and values, or gates) as one product, and cut it then.
"""

from typing import Dict, List, NamedTuple, Optional, Set, Tuple

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.view import View

__all__ = ["join_slices", "split_before_reshapes"]

_TYPES = ("float32", "int32")
_MOST = 4  # parts that XNNPACK cuts; of slices it takes any number


class _Part(NamedTuple):
    start: int
    length: int
    operator: fb.OperatorSpec


def join_slices(graph: fb.SubGraph) -> None:
    """Several SLICEs of equal length, side by side along one axis and with nothing left over, become one SPLIT."""
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
        if len(parts) > _MOST or not alike or starts != [length * k for k in range(len(parts))]:
            continue
        if length * len(parts) == view.sizes(source)[axis]:
            first = parts[0].operator
            _split(graph, first, source, axis, [part.operator.outputs[0] for part in ordered])
            gone.update(id(part.operator) for part in parts[1:])
    graph.operators = [operator for operator in graph.operators if id(operator) not in gone]


def _axis(view: View, operator: fb.OperatorSpec) -> Optional[Tuple[int, int, int, int]]:
    """What is cut along which axis, from where, how much, if it is along one."""
    source = operator.inputs[0] if operator.builtin == "SLICE" else None
    if source is None or view.graph.tensors[source].dtype not in _TYPES:
        return None
    begin, size = (view.constant(index) for index in operator.inputs[1:])
    whole, left = view.sizes(source), view.sizes(operator.outputs[0])
    if begin is None or size is None:
        return None
    cut = [k for k, (first, many, full) in enumerate(zip(begin, size, whole)) if first or many not in (-1, full)]
    if len(cut) != 1:
        return None
    return source, cut[0], int(begin[cut[0]]), int(left[cut[0]])


def _split(graph: fb.SubGraph, operator: fb.OperatorSpec, source: int, axis: int, outputs: List[int]) -> None:
    name = graph.tensors[outputs[0]].name + "/axis"
    along = graph.add(fb.TensorSpec(name, "int32", (), np.asarray(axis, np.int32)))
    operator.builtin, operator.inputs, operator.outputs = "SPLIT", [along, source], outputs
    operator.options = {"num_splits": len(outputs)}


def split_before_reshapes(graph: fb.SubGraph) -> None:
    """What is reshaped, split and reshaped again, as the heads of an attention are, is split as it was before."""
    view = View(graph)
    for split in list(graph.operators):
        reshape = view.writer(split.inputs[1], "RESHAPE") if split.builtin == "SPLIT" else None
        source, axis = (None, None) if reshape is None else (reshape.inputs[0], view.number(split.inputs[0]))
        if reshape is None or source is None or axis is None or not view.only_read_by(reshape.outputs[0], split):
            continue
        whole, cut = view.sizes(source), view.sizes(reshape.outputs[0])
        rest = cut[int(axis) % len(cut) :]
        reshaped = all(_only_reshaped(view, part) for part in split.outputs)
        if min(rest) < 1 or whole[-1] != int(np.prod(rest)) or not reshaped:
            continue
        parts = [_shorter(graph, source, part, len(split.outputs)) for part in split.outputs]
        for old, new in zip(split.outputs, parts):
            view.read_all(old, new)
        _split(graph, split, source, len(whole) - 1, parts)


def _only_reshaped(view: View, index: int) -> bool:
    readers = view.readers(index)
    return index not in view.graph.outputs and all(reader.builtin == "RESHAPE" for reader in readers)


def _shorter(graph: fb.SubGraph, source: int, part: int, many: int) -> int:
    """A tensor like the source, of a share of its last axis."""
    whole, name = graph.tensors[source], graph.tensors[part].name + "/flat"
    shape, signature = (
        [*sizes[:-1], sizes[-1] // many] if sizes else None for sizes in (whole.shape, whole.shape_signature)
    )
    return graph.add(fb.TensorSpec(name, whole.dtype, shape or (), shape_signature=signature))

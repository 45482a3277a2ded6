"""Several models in one file, each under its signature; and one of them by itself again."""

from dataclasses import replace
from functools import partial
from operator import add
from typing import Any, Callable, Dict, Iterator, List, Mapping

from onnx_compat.shim import InputError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.file_ports import DESCRIPTION
from onnx_compat_tflite.graph_verifier import check_graph

__all__ = ["alone", "joined"]


def joined(parts: Mapping[str, fb.ModelSpec]) -> fb.ModelSpec:
    """The subgraphs of all, one after the other. Constants that are equal are stored once when this is written."""
    whole = fb.ModelSpec(description=DESCRIPTION)
    for key, part in parts.items():
        shift = len(whole.subgraphs)
        whole.subgraphs += [_moved(graph, partial(add, shift)) for graph in part.subgraphs]
        whole.signatures.append(replace(_main(part), key=key, subgraph=shift))
    return check_graph(whole, "joining")


def alone(model: fb.ModelSpec, key: str) -> fb.ModelSpec:
    """A signature's graph as the first, with the graphs that it calls."""
    found = next((one for one in model.signatures if one.key == key), None)
    if found is None:
        keys = ", ".join("'%s'" % one.key for one in model.signatures)
        raise InputError("the file has no signature '%s'" % key, hint="it has %s" % (keys or "none: leave that out"))
    places = [found.subgraph]
    for place in places:  # it grows meanwhile
        for called in _called(model.subgraphs[place]):
            if called not in places:
                places.append(called)
    graphs = [_moved(model.subgraphs[place], places.index) for place in places]
    return fb.ModelSpec(graphs, [replace(found, subgraph=0)], dict(model.metadata), model.description)


def _main(model: fb.ModelSpec) -> fb.Signature:
    """What goes into the first graph and comes out; by the names of its tensors, where no signature says."""
    main = model.subgraphs[0]
    told = next((one for one in model.signatures if one.subgraph == 0), None)
    if told is not None:
        return told
    names = [tensor.name for tensor in main.tensors]
    return fb.Signature({names[one]: one for one in main.inputs}, {names[one]: one for one in main.outputs})


def _called(graph: fb.SubGraph) -> Iterator[int]:
    for operator in graph.operators:
        for name in operator.options:
            if _refers(name):
                value = operator.options[name]
                yield from value if isinstance(value, (list, tuple)) else [value]


def _moved(graph: fb.SubGraph, place: Callable[[int], int]) -> fb.SubGraph:
    """With the graphs that it calls at other places; a copy, as far as that changes."""
    operators: List[fb.OperatorSpec] = []
    for operator in graph.operators:
        changed: Dict[str, Any] = {}
        for name, value in operator.options.items():
            if _refers(name):
                several = isinstance(value, (list, tuple))
                changed[name] = [place(one) for one in value] if several else place(value)
        operators.append(replace(operator, options=dict(operator.options, **changed)) if changed else operator)
    return replace(graph, operators=operators)


def _refers(option: str) -> bool:
    """Whether an option of an operator says which graph it calls: `subgraph`, `then_subgraph_index`, ..."""
    return "subgraph" in option

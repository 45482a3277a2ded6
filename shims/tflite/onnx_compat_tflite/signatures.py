"""Join several models into one .tflite model with a signature for each, or extract the model of a signature."""

from dataclasses import replace
from functools import partial
from operator import add
from typing import Any, Callable, Dict, Iterator, List, Mapping

from onnx_compat.shim import InputError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.file_ports import DESCRIPTION
from onnx_compat_tflite.graph_verifier import check_graph

__all__ = ["extract_signature", "join_models"]


def join_models(parts: Mapping[str, fb.ModelSpec]) -> fb.ModelSpec:
    """Return a model with the subgraphs of all parts, and a signature for each part.

    The keys of `parts` become the keys of the signatures. A signature computes the first subgraph of its part. Its
    inputs and outputs have their names in the part's signature of this subgraph, or else the names of their tensors.

    Other signatures and the metadata of the parts are left out. Operators that call subgraphs are copied and
    renumbered. Tensors are shared with the parts. With ONNX_COMPAT_VERIFY=1, raises VerificationError for a defect.
    """
    joined = fb.ModelSpec(description=DESCRIPTION)
    for key, part in parts.items():
        offset = len(joined.subgraphs)
        joined.subgraphs += [_renumber_calls(graph, partial(add, offset)) for graph in part.subgraphs]
        joined.signatures.append(replace(_main_signature(part), key=key, subgraph=offset))
    return check_graph(joined, "joining")


def extract_signature(model: fb.ModelSpec, key: str) -> fb.ModelSpec:
    """Return a model that computes only the signature `key`, with the metadata and the description of `model`.

    The first subgraph is the subgraph of the signature. The subgraphs that it calls, directly or not, follow. The only
    signature is `key`. Raises InputError if `model` has no signature `key`.
    """
    signature = next((entry for entry in model.signatures if entry.key == key), None)
    if signature is None:
        keys = ", ".join("'%s'" % entry.key for entry in model.signatures)
        hint = "it has %s" % keys if keys else "it has none: leave the signature out"
        raise InputError("the file has no signature '%s'" % key, hint=hint)
    numbers = [signature.subgraph]
    for number in numbers:  # the list grows in the loop
        for callee in _called_subgraphs(model.subgraphs[number]):
            if callee not in numbers:
                numbers.append(callee)
    graphs = [_renumber_calls(model.subgraphs[number], numbers.index) for number in numbers]
    return fb.ModelSpec(graphs, [replace(signature, subgraph=0)], dict(model.metadata), model.description)


def _main_signature(model: fb.ModelSpec) -> fb.Signature:
    """Return the signature of the first subgraph.

    If the subgraph has no signature, returns a new signature. Its inputs and outputs have the names of their tensors.
    """
    main = model.subgraphs[0]
    signature = next((entry for entry in model.signatures if entry.subgraph == 0), None)
    if signature is not None:
        return signature
    names = [tensor.name for tensor in main.tensors]
    return fb.Signature({names[index]: index for index in main.inputs}, {names[index]: index for index in main.outputs})


def _called_subgraphs(graph: fb.SubGraph) -> Iterator[int]:
    for operator in graph.operators:
        for name in operator.options:
            if _is_subgraph_option(name):
                value = operator.options[name]
                yield from value if isinstance(value, (list, tuple)) else [value]


def _renumber_calls(graph: fb.SubGraph, new_number: Callable[[int], int]) -> fb.SubGraph:
    """Return a copy of a subgraph whose operators (IF, WHILE) call subgraph `new_number(n)` in place of subgraph n.

    Tensors, and operators without calls, are shared with the subgraph.
    """
    operators: List[fb.OperatorSpec] = []
    for operator in graph.operators:
        changes: Dict[str, Any] = {}
        for name, value in operator.options.items():
            if _is_subgraph_option(name):
                is_list = isinstance(value, (list, tuple))
                changes[name] = [new_number(number) for number in value] if is_list else new_number(value)
        operators.append(replace(operator, options=dict(operator.options, **changes)) if changes else operator)
    return replace(graph, operators=operators)


def _is_subgraph_option(option: str) -> bool:
    """Whether an option holds the number of a called subgraph: `subgraph`, `then_subgraph_index`, ..."""
    return "subgraph" in option

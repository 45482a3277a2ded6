"""What a .tflite file is, ours or another's, in plain values; nothing of it is trusted."""

import os
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np

from onnx_compat.shim import Description
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.delegate_coverage import Share, share

__all__ = ["described"]

_LARGEST = 10  # tensors that are listed

Row = Dict[str, Any]


def described(path: str) -> Description:
    model = fb.read(path)
    main = model.subgraphs[0]
    found = share(path, len(main.operators))
    uses = [_use(one, graph) for graph in model.subgraphs for one in graph.operators]
    custom = sorted({one.custom_code or "?" for g in model.subgraphs for one in g.operators if one.builtin == "CUSTOM"})
    constants = _constants(model)
    facts: Dict[str, Any] = {
        "format": "TensorFlow Lite flatbuffer",
        "description": model.description,
        "bytes": os.path.getsize(path),
        "constant_bytes": sum(size for size, _ in constants.values()),
        "operators": len(uses),
        "tensors": sum(len(graph.tensors) for graph in model.subgraphs),
        "quantization": _quantization(model),
        "lowest_runtime": fb.minimum_runtime(uses),
        "custom_operators": custom,
        "runtime_here": found.runtime or None,
        "refusal": found.refusal or None,
        "delegate": _delegate(main, found),
    }
    tables = {
        "signatures": list(_signatures(model)),
        "subgraphs": [_subgraph(number, graph, model) for number, graph in enumerate(model.subgraphs)],
        "operator_counts": _operators(model, found),
        "constants": _by_type(constants),
        "largest_tensors": _largest(model),
        "metadata": [_metadata(name, content) for name, content in model.metadata.items()],
    }
    return Description(facts, tables)


def _use(operator: fb.OperatorSpec, graph: fb.SubGraph) -> Tuple[str, int]:
    """The version that the operator is of, or should be: some writers say 1 whatever the types are."""
    try:
        needed = fb.required_version(operator, graph)
    except (LookupError, TypeError, ValueError):  # not of the form that the operator has
        needed = 1
    return operator.builtin, max(operator.version or 1, needed)


def _signatures(model: fb.ModelSpec) -> Iterator[Row]:
    """What goes in and out, by the names of each signature; by the tensors' own where there is none."""
    signatures = list(model.signatures)
    if not any(one.subgraph == 0 for one in signatures):
        main = model.subgraphs[0]
        named = [{main.tensors[index].name: index for index in ports} for ports in (main.inputs, main.outputs)]
        signatures.insert(0, fb.Signature(named[0], named[1], ""))
    for signature in signatures:
        graph = model.subgraphs[signature.subgraph]
        for kind, ports in (("input", signature.inputs), ("output", signature.outputs)):
            for name, index in ports.items():
                tensor = graph.tensors[index]
                yield {
                    "signature": signature.key,
                    "port": kind,
                    "name": name,
                    "type": tensor.dtype,
                    "shape": list(tensor.shape),
                    "shape_signature": list(tensor.shape_signature or tensor.shape),
                    "quantization": _parameters(tensor) if _scheme(tensor) else None,
                    "tensor": tensor.name,
                }


def _subgraph(number: int, graph: fb.SubGraph, model: fb.ModelSpec) -> Row:
    return {
        "subgraph": number,
        "name": graph.name,
        "inputs": len(graph.inputs),
        "outputs": len(graph.outputs),
        "operators": len(graph.operators),
        "tensors": len(graph.tensors),
        "signature": ", ".join(one.key for one in model.signatures if one.subgraph == number),
    }


def _operators(model: fb.ModelSpec, found: Share) -> List[Row]:
    """Each operator, of a version, the most frequent first. Only the first subgraph is offered to the delegate."""
    counts: Counter[Tuple[str, int]] = Counter(_code(one) for graph in model.subgraphs for one in graph.operators)
    main = model.subgraphs[0].operators
    taken = Counter(_code(main[place]) for place in found.taken or ())
    return [
        {
            "operator": code[0],
            "version": code[1],
            "count": count,
            "delegated": None if found.taken is None else taken[code],
        }
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _code(operator: fb.OperatorSpec) -> Tuple[str, int]:
    name = "CUSTOM %s" % operator.custom_code if operator.builtin == "CUSTOM" else operator.builtin
    return name, operator.version or 1


def _delegate(main: fb.SubGraph, found: Share) -> Optional[Row]:
    if found.taken is None:
        return None
    inside = set(found.taken)
    left = Counter(_code(one)[0] for place, one in enumerate(main.operators) if place not in inside)
    ordered = sorted(left.items(), key=lambda item: (-item[1], item[0]))
    return {
        "name": "XNNPACK",
        "taken": len(inside),
        "of": len(main.operators),
        "parts": found.parts,
        "left": dict(ordered),
    }


# -- constants ---------------------------------------------------------------------------------------------------------
def _constants(model: fb.ModelSpec) -> Dict[Any, Tuple[int, str]]:
    """The bytes and the type of each buffer that a tensor has, once however many share it."""
    found: Dict[Any, Tuple[int, str]] = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.buffer is not None:
                found.setdefault(_place(tensor.buffer), (_bytes(tensor.buffer), tensor.dtype))
    return found


def _place(array: Any) -> Any:
    return id(array) if array.dtype == object else (array.__array_interface__["data"][0], array.nbytes)


def _bytes(array: Any) -> int:
    if array.dtype == object:  # text: the count and the ends, then the bytes
        return sum(len(item) for item in array.reshape(-1)) + 4 * (int(array.size) + 2)
    return int(array.nbytes)


def _by_type(constants: Dict[Any, Tuple[int, str]]) -> List[Row]:
    rows: Dict[str, Row] = {}
    for size, dtype in constants.values():
        row = rows.setdefault(dtype, {"type": dtype, "buffers": 0, "bytes": 0})
        row["buffers"] += 1
        row["bytes"] += size
    return sorted(rows.values(), key=lambda row: (-row["bytes"], row["type"]))


def _largest(model: fb.ModelSpec) -> List[Row]:
    """The tensors with most bytes; of those that are computed, with every open size taken for one."""
    rows: List[Row] = []
    for number, graph in enumerate(model.subgraphs):
        readers = _readers(graph)
        for place, tensor in enumerate(graph.tensors):
            size = fb.storage(tensor.dtype, tensor.shape)[1] if tensor.buffer is None else _bytes(tensor.buffer)
            kind = "computed" if tensor.buffer is None else "constant"
            rows.append(
                {
                    "tensor": tensor.name,
                    "kind": kind,
                    "type": tensor.dtype,
                    "shape": list(tensor.shape_signature or tensor.shape),
                    "quantization": _scheme(tensor),
                    "bytes": size,
                    "subgraph": number,
                    "first_read_for": readers.get(place, ""),
                }
            )
    constants = sorted((row for row in rows if row["kind"] == "constant"), key=lambda row: -row["bytes"])
    computed = sorted((row for row in rows if row["kind"] == "computed"), key=lambda row: -row["bytes"])
    return constants[:_LARGEST] + computed[: _LARGEST // 2]


def _readers(graph: fb.SubGraph) -> Dict[Optional[int], str]:
    """By the place of a tensor: the operator that reads it first, and what that one computes."""
    found: Dict[Optional[int], str] = {}
    for operator in graph.operators:
        result = graph.tensors[operator.outputs[0]].name if operator.outputs else ""
        for index in operator.inputs:
            found.setdefault(index, "%s %s" % (_code(operator)[0], result))
    return found


# -- quantisation ------------------------------------------------------------------------------------------------------
def _quantization(model: fb.ModelSpec) -> Row:
    """How many tensors are held in which way; float32 and what counts or selects is not mentioned."""
    found: Counter[str] = Counter()
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            scheme = _scheme(tensor)
            if scheme:
                found[
                    "%s %s, %s" % (tensor.dtype, scheme, "constant" if tensor.buffer is not None else "computed")
                ] += 1
            elif tensor.dtype in ("float16", "bfloat16") and tensor.buffer is not None:
                found["%s, constant" % tensor.dtype] += 1
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _scheme(tensor: fb.TensorSpec) -> str:
    held = tensor.quantization
    if held is not None and held.details is not None:
        size = held.details[1].get("block_size")
        return "in blocks of %d" % size if size else held.details[0]
    if held is None or not held.scale:
        return ""
    return "per tensor" if len(held.scale) == 1 else "per channel (axis %d)" % held.axis


def _parameters(tensor: fb.TensorSpec) -> Row:
    held = tensor.quantization
    assert held is not None
    finite = [float(value) for value in held.scale if np.isfinite(value)]
    return {"scale": finite[:1] if len(held.scale) == 1 else [min(finite), max(finite)] if finite else [],
            "zero_point": sorted(set(held.zero_point))[:2], "channels": len(held.scale)}  # fmt: skip


def _metadata(name: str, content: bytes) -> Row:
    text = content.rstrip(b"\0")
    shown = text[:80].decode("ascii", "replace") if all(32 <= byte < 127 for byte in text[:80]) else ""
    return {"name": name, "bytes": len(content), "text": shown}

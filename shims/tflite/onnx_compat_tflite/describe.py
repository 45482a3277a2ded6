"""Describe a .tflite file of any origin in plain JSON values. A malformed file must not end the process."""

import os
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

import numpy as np

from onnx_compat.shim import Description
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.delegate_coverage import Coverage, delegate_coverage
from onnx_compat_tflite.node_ops import op_name

__all__ = ["describe_file"]

_LISTED_TENSORS = 10

Row = Dict[str, Any]
#: Identity of a buffer: its address and size, or the id of an array of strings.
BufferKey = Union[int, Tuple[int, int]]


def describe_file(path: str) -> Description:
    """Return a description of a .tflite file: facts such as its size, and tables such as its signatures and operators.

    The fact "refusal" says why the runtime refuses the file, or why no runtime could try it. It is None if the runtime
    allocates the tensors of the file.

    Raises InvalidModelError if the file cannot be read, or is not a valid TFLite model.
    """
    model = fb.read(path)
    main = model.subgraphs[0]
    coverage = delegate_coverage(path, len(main.operators))
    uses = [_versioned_operator(op, graph) for graph in model.subgraphs for op in graph.operators]
    custom = sorted({op.custom_code or "?" for g in model.subgraphs for op in g.operators if op.builtin == "CUSTOM"})
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
        "runtime_here": coverage.runtime or None,
        "refusal": coverage.refusal or None,
        "delegate": _delegate(main, coverage),
    }
    tables = {
        "signatures": list(_signature_rows(model)),
        "subgraphs": [_subgraph(number, graph, model) for number, graph in enumerate(model.subgraphs)],
        "operator_counts": _operators(model, coverage),
        "constants": _by_type(constants),
        "largest_tensors": _largest(model),
        "metadata": [_metadata(name, content) for name, content in model.metadata.items()],
    }
    return Description(facts, tables)


def _versioned_operator(operator: fb.OperatorSpec, graph: fb.SubGraph) -> Tuple[str, int]:
    """Return (op, version): the higher of the version in the file and the version that dtypes and options require.

    The required version counts because some writers store version 1 for all dtypes. If the inputs or options are
    invalid, the result has the version in the file.
    """
    try:
        required = fb.required_version(operator, graph)
    except (LookupError, TypeError, ValueError):  # the inputs or options are invalid for this operator
        required = 1
    return operator.builtin, max(operator.version or 1, required)


def _signature_rows(model: fb.ModelSpec) -> Iterator[Row]:
    """Yield, for each signature, a row for each input, then a row for each output.

    If no signature names the first subgraph, the rows of this subgraph's inputs and outputs come first. Their signature
    key is "", and each port has the name of its tensor.
    """
    if not any(signature.subgraph == 0 for signature in model.signatures):
        main = model.subgraphs[0]
        for kind, indices in (("input", main.inputs), ("output", main.outputs)):
            for index in indices:  # tensors without a name, or with equal names, are ports of their own
                yield _port_row("", kind, main.tensors[index].name, main.tensors[index])
    for signature in model.signatures:
        graph = model.subgraphs[signature.subgraph]
        for kind, ports in (("input", signature.inputs), ("output", signature.outputs)):
            for name, index in ports.items():
                yield _port_row(signature.key, kind, name, graph.tensors[index])


def _port_row(signature: str, kind: str, name: str, tensor: fb.TensorSpec) -> Row:
    return {
        "signature": signature,
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
        "signature": ", ".join(entry.key for entry in model.signatures if entry.subgraph == number),
    }


def _operators(model: fb.ModelSpec, coverage: Coverage) -> List[Row]:
    """Return a row for each pair of op and stored version, with the number of its operators; most frequent first.

    - "operator": the op. A custom op is named "CUSTOM <code>".
    - "count": the number of operators in all subgraphs.
    - "delegated": the number of operators that run in the delegate. It gets only operators of the first subgraph.
      None if the runtime does not report the delegated operators, refuses the file, or is not installed.
    """
    counts: Counter[Tuple[str, int]] = Counter(_code(op) for graph in model.subgraphs for op in graph.operators)
    main = model.subgraphs[0].operators
    delegated = Counter(_code(main[index]) for index in coverage.delegated or ())
    return [
        {
            "operator": code[0],
            "version": code[1],
            "count": count,
            "delegated": None if coverage.delegated is None else delegated[code],
        }
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def _code(operator: fb.OperatorSpec) -> Tuple[str, int]:
    """Return (op, version) of an operator, as the file has them. A missing version is 1."""
    return op_name(operator), operator.version or 1


def _delegate(main: fb.SubGraph, coverage: Coverage) -> Optional[Row]:
    """Count the operators of `main`, the first subgraph, that run in XNNPACK, and the partitions of XNNPACK.

    The entry "left" has the number of operators that do not run in XNNPACK, by op. Returns None if the delegated
    operators are unknown.
    """
    if coverage.delegated is None:
        return None
    delegated = set(coverage.delegated)
    undelegated = Counter(_code(op)[0] for index, op in enumerate(main.operators) if index not in delegated)
    ordered = sorted(undelegated.items(), key=lambda item: (-item[1], item[0]))
    return {
        "name": "XNNPACK",
        "taken": len(delegated),
        "of": len(main.operators),
        "parts": coverage.parts,
        "left": dict(ordered),
    }


# -- constants ---------------------------------------------------------------------------------------------------------
def _constants(model: fb.ModelSpec) -> Dict[BufferKey, Tuple[int, str]]:
    """Return {identity of a buffer: (size in bytes, dtype)} of the constants of all subgraphs.

    Tensors that share a buffer have one entry, with the dtype of the first tensor. Each string tensor has its own
    entry.
    """
    constants: Dict[BufferKey, Tuple[int, str]] = {}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            if tensor.buffer is not None:
                constants.setdefault(_buffer_key(tensor.buffer), (_byte_count(tensor.buffer), tensor.dtype))
    return constants


def _buffer_key(array: np.ndarray) -> BufferKey:
    """Return the identity of a buffer: (address, bytes), equal for arrays of the same memory; for strings, the id."""
    return id(array) if array.dtype == object else (array.__array_interface__["data"][0], array.nbytes)


def _byte_count(array: np.ndarray) -> int:
    if array.dtype == object:  # a string tensor stores the count and the offsets, then the bytes
        return sum(len(item) for item in array.reshape(-1)) + 4 * (int(array.size) + 2)
    return int(array.nbytes)


def _by_type(constants: Dict[BufferKey, Tuple[int, str]]) -> List[Row]:
    """Return a row for each dtype of `constants`, the result of `_constants`: the number of buffers, and their bytes.

    The dtype with the most bytes comes first.
    """
    rows: Dict[str, Row] = {}
    for size, dtype in constants.values():
        row = rows.setdefault(dtype, {"type": dtype, "buffers": 0, "bytes": 0})
        row["buffers"] += 1
        row["bytes"] += size
    return sorted(rows.values(), key=lambda row: (-row["bytes"], row["type"]))


def _largest(model: fb.ModelSpec) -> List[Row]:
    """Return rows of the ten largest constants, then of the five largest other tensors, by bytes, in all subgraphs.

    The other tensors have the kind "computed"; inputs and variables are among them. Their bytes follow from the stored
    shape, in which an open size is usually 1.
    """
    rows: List[Row] = []
    for number, graph in enumerate(model.subgraphs):
        readers = _first_readers(graph)
        for index, tensor in enumerate(graph.tensors):
            size = fb.storage(tensor.dtype, tensor.shape)[1] if tensor.buffer is None else _byte_count(tensor.buffer)
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
                    "first_read_for": readers.get(index, ""),
                }
            )
    constants = sorted((row for row in rows if row["kind"] == "constant"), key=lambda row: -row["bytes"])
    computed = sorted((row for row in rows if row["kind"] == "computed"), key=lambda row: -row["bytes"])
    return constants[:_LISTED_TENSORS] + computed[: _LISTED_TENSORS // 2]


def _first_readers(graph: fb.SubGraph) -> Dict[Optional[int], str]:
    """Return {tensor index: "OP result"} of the first operator that reads each tensor.

    "OP" is the name of this operator's op, "result" the name of its first result. A tensor that no operator reads is
    missing. The dict may have the key None, for omitted inputs.
    """
    readers: Dict[Optional[int], str] = {}
    for operator in graph.operators:
        result = graph.tensors[operator.outputs[0]].name if operator.outputs else ""
        for index in operator.inputs:
            readers.setdefault(index, "%s %s" % (_code(operator)[0], result))
    return readers


# -- quantisation ------------------------------------------------------------------------------------------------------
def _quantization(model: fb.ModelSpec) -> Row:
    """Return the numbers of quantised tensors by dtype, scheme and kind: {"int8 per tensor, computed": 12}.

    The highest number is first.

    The kind is "constant" or "computed". Constants of float16 and bfloat16 without quantisation are counted as
    "float16, constant" and "bfloat16, constant". No other tensor without quantisation is counted: a float32 model gives
    {}.
    """
    counts: Counter[str] = Counter()
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            scheme = _scheme(tensor)
            if scheme:
                kind = "constant" if tensor.buffer is not None else "computed"
                counts["%s %s, %s" % (tensor.dtype, scheme, kind)] += 1
            elif tensor.dtype in ("float16", "bfloat16") and tensor.buffer is not None:
                counts["%s, constant" % tensor.dtype] += 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _scheme(tensor: fb.TensorSpec) -> str:
    """Return how a tensor is quantised: "per tensor", "per channel (axis 0)", "in blocks of 32"; "" if it is not.

    Without a block size, quantisation details are named by their type in the file.
    """
    quantization = tensor.quantization
    if quantization is not None and quantization.details is not None:
        size = quantization.details[1].get("block_size")
        return "in blocks of %d" % size if size else quantization.details[0]
    if quantization is None or not quantization.scale:
        return ""
    return "per tensor" if len(quantization.scale) == 1 else "per channel (axis %d)" % quantization.axis


def _parameters(tensor: fb.TensorSpec) -> Row:
    """Return a summary of the scales and zero points of a quantised tensor.

    - "scale": a list with the only scale, or with the least and the greatest scale. It has no infinity and no NaN.
    - "zero_point": the distinct zero points, the two least at most.
    - "channels": the number of scales.
    """
    quantization = tensor.quantization
    assert quantization is not None
    scales = quantization.scale
    finite = [float(value) for value in scales if np.isfinite(value)]
    return {"scale": finite[:1] if len(scales) == 1 else [min(finite), max(finite)] if finite else [],
            "zero_point": sorted(set(quantization.zero_point))[:2], "channels": len(scales)}  # fmt: skip


def _metadata(name: str, content: bytes) -> Row:
    """Return a row of a metadata entry: name, bytes, and the first 80 characters, "" unless all are printable ASCII."""
    text = content.rstrip(b"\0")
    preview = text[:80].decode("ascii", "replace") if all(32 <= byte < 127 for byte in text[:80]) else ""
    return {"name": name, "bytes": len(content), "text": preview}

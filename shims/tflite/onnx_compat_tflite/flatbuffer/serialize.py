"""Convert a ModelSpec to the fields of the tables of a .tflite file; check indices, and set operator codes and versions."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from onnx_compat.shim import ConversionError
from onnx_compat_tflite.flatbuffer.constants import Constants
from onnx_compat_tflite.flatbuffer.encode import Later
from onnx_compat_tflite.flatbuffer.model import ModelSpec, OperatorSpec, Quantization, Signature, SubGraph, TensorSpec
from onnx_compat_tflite.flatbuffer.names import OPERATORS, PLACEHOLDER
from onnx_compat_tflite.flatbuffer.runtimes import minimum_runtime
from onnx_compat_tflite.flatbuffer.schema import UNION_MEMBERS, options_table
from onnx_compat_tflite.flatbuffer.versions import required_version

__all__ = ["lower"]

Code = Tuple[str, Optional[str], int]
LARGEST_SIZE = 2**31 - 1


def lower(model: ModelSpec, constants: Constants, outside: bool) -> Dict[str, Any]:
    """Return a dict {field name: value} of the root table "Model", as `encode` accepts it.

    `constants`: the numbered buffers of the model. The dict has a placeholder `Later(n)` for buffer n:

    - Without `outside`, `Later(n)` is the data of the buffer.
    - With `outside`, the data is stored after the flatbuffer. `Later(n)` is its position, and the dict has its size.

    The buffers of the metadata follow those of the constants; the dict has their bytes. If the model's metadata lacks
    min_runtime_version, the entry is added.

    Raises ConversionError in these cases:

    - the model has no subgraphs, or the index of a tensor or of a signature's subgraph is out of range
    - a size exceeds 2^31 - 1
    - an op is unknown, or has options although the op takes none

    The names of other options are not checked here: `encode` checks them.
    """
    if not model.subgraphs:
        raise ConversionError("a model without a graph cannot be written")
    codes: Dict[Code, int] = {}
    graphs = [_graph(graph, constants, codes) for graph in model.subgraphs]
    metadata = dict(model.metadata)
    runtime = minimum_runtime((name, version) for name, _, version in codes)
    metadata.setdefault("min_runtime_version", runtime.encode().ljust(16, b"\0"))
    buffers: List[Dict[str, Any]] = [{}]
    for number, size in enumerate(constants.sizes(), 1):
        buffers.append({"offset": Later(number), "size": size} if outside else {"data": Later(number)})
    entries = []
    for name, content in metadata.items():
        entries.append({"name": name, "buffer": len(buffers)})
        buffers.append({"data": content})
    return {
        "version": 3,
        "operator_codes": [_code(*code) for code in codes],
        "subgraphs": graphs,
        "description": model.description,
        "buffers": buffers,
        "metadata": entries,
        "signature_defs": [_signature(signature, model) for signature in model.signatures] or None,
    }


def _code(name: str, custom: Optional[str], version: int) -> Dict[str, Any]:
    number = OPERATORS.number(name)
    return {
        "deprecated_builtin_code": min(number, PLACEHOLDER),
        "builtin_code": number,
        "custom_code": custom,
        "version": version,
    }


def _graph(graph: SubGraph, constants: Constants, codes: Dict[Code, int]) -> Dict[str, Any]:
    where = "graph '%s'" % graph.name
    return {
        "tensors": [_tensor(tensor, constants) for tensor in graph.tensors],
        "inputs": _indices(graph.inputs, graph, where),
        "outputs": _indices(graph.outputs, graph, where),
        "operators": [_operator(operator, graph, codes) for operator in graph.operators],
        "name": graph.name or None,
    }


def _indices(indices: Sequence[Optional[int]], graph: SubGraph, where: str) -> List[int]:
    for index in indices:
        if index is not None and not 0 <= index < len(graph.tensors):
            raise ConversionError("%s refers to tensor %d of %d" % (where, index, len(graph.tensors)))
    return [-1 if index is None else int(index) for index in indices]


def _operator(operator: OperatorSpec, graph: SubGraph, codes: Dict[Code, int]) -> Dict[str, Any]:
    inputs = _indices(operator.inputs, graph, operator.builtin)
    outputs = _indices(operator.outputs, graph, operator.builtin)
    version = operator.version or required_version(operator, graph)
    entry: Dict[str, Any] = {
        "opcode_index": codes.setdefault((operator.builtin, operator.custom_code, version), len(codes)),
        "inputs": inputs,
        "outputs": outputs,
        "custom_options": operator.custom_options,
        "mutating_variable_inputs": list(operator.mutating) or None,
        "intermediates": _indices(operator.intermediates, graph, operator.builtin) or None,
    }
    table = options_table(operator.builtin)
    if table is not None:
        is_second = table in UNION_MEMBERS["BuiltinOptions2"]
        entry["builtin_options2" if is_second else "builtin_options"] = table, operator.options
    elif operator.options:
        raise ConversionError("%s has no options, but '%s' was given" % (operator.builtin, min(operator.options)))
    return entry


def _tensor(tensor: TensorSpec, constants: Constants) -> Dict[str, Any]:
    if any(size > LARGEST_SIZE for size in tensor.shape):
        raise ConversionError(
            "the tensor '%s' has the shape %s, and a size in a .tflite file is at most %d"
            % (tensor.name, list(tensor.shape), LARGEST_SIZE),
            hint="give smaller sizes: `shapes` (--shape)",
        )
    return {
        "name": tensor.name,
        "type": tensor.dtype,
        "shape": list(tensor.shape),
        "shape_signature": None if tensor.shape_signature is None else list(tensor.shape_signature),
        "has_rank": tensor.has_rank,
        "buffer": constants.buffer_of(tensor),
        "is_variable": tensor.is_variable,
        "quantization": None if tensor.quantization is None else _quantization(tensor.quantization),
        "sparsity": tensor.sparsity,
        "variant_tensors": tensor.variant_tensors,
    }


def _quantization(quantization: Quantization) -> Dict[str, Any]:
    return {
        "scale": quantization.scale,
        "zero_point": quantization.zero_point,
        "quantized_dimension": quantization.axis,
        "min": quantization.min,
        "max": quantization.max,
        "details": quantization.details,
    }


def _signature(signature: Signature, model: ModelSpec) -> Dict[str, Any]:
    where = "signature '%s'" % signature.key
    if not 0 <= signature.subgraph < len(model.subgraphs):
        raise ConversionError("%s refers to graph %d of %d" % (where, signature.subgraph, len(model.subgraphs)))
    graph = model.subgraphs[signature.subgraph]

    def write_ports(tensors: Dict[str, int]) -> List[Dict[str, Any]]:
        indices = _indices(list(tensors.values()), graph, where)
        return [{"name": name, "tensor_index": index} for name, index in zip(tensors, indices)]

    return {
        "inputs": write_ports(signature.inputs),
        "outputs": write_ports(signature.outputs),
        "signature_key": signature.key,
        "subgraph_index": signature.subgraph,
    }

"""Read a .tflite file of any origin to a ModelSpec. The constants are views of the file, not copies."""

import mmap
import os
from typing import Any, Dict, List, Optional, Union

import numpy as np

from onnx_compat.shim import InvalidModelError
from onnx_compat_tflite.flatbuffer import strings
from onnx_compat_tflite.flatbuffer.decode import AGAIN, decode
from onnx_compat_tflite.flatbuffer.model import (
    ModelSpec,
    OperatorSpec,
    Quantization,
    Signature,
    SubGraph,
    TensorSpec,
    storage,
)
from onnx_compat_tflite.flatbuffer.names import OPERATORS, PLACEHOLDER

__all__ = ["read"]

ByteArray = Any  # An array of uint8. The types of numpy 1.2x omit that arrays support the buffer protocol.


def read(source: "Union[str, os.PathLike[str], bytes, bytearray, memoryview]") -> ModelSpec:
    """Return the model in a .tflite file (`source` is its path) or in the bytes of such a file.

    A file is memory-mapped, not loaded. Constants other than strings are views of the file or of the given bytes.
    Raises InvalidModelError if the file cannot be read or is not a valid model.
    """
    if not isinstance(source, (str, os.PathLike)):
        return _parse(memoryview(source))
    try:
        return _parse(_map(os.fspath(source)))
    except InvalidModelError as error:
        if repr(source) not in error.reason:
            error.reason = "%s (in '%s')" % (error.reason, source)
        raise error.at(hint=AGAIN) from error.__cause__


def _parse(data: memoryview) -> ModelSpec:
    return _Reader(decode("Model", data, b"TFL3"), data).model()


def _map(path: str) -> memoryview:
    try:
        with open(path, "rb") as file:
            if not os.fstat(file.fileno()).st_size:
                raise InvalidModelError("'%s' is empty" % path, hint="convert the model again, or copy the file again")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError) as error:
        raise InvalidModelError("'%s' cannot be read: %s" % (path, error)) from error


class _Reader:
    def __init__(self, root: Dict[str, Any], data: memoryview) -> None:
        self._root = root
        self._data = data

    def model(self) -> ModelSpec:
        graphs = [self._graph(graph) for graph in self._root["subgraphs"] or ()]
        if not graphs:
            raise InvalidModelError("the TFLite model has no graph")
        metadata = {}
        for entry in self._root["metadata"] or ():
            content = self._buffer(entry["buffer"])
            metadata[entry["name"] or ""] = b"" if content is None else content.tobytes()
        signatures = [_signature(entry, graphs) for entry in self._root["signature_defs"] or ()]
        return ModelSpec(graphs, signatures, metadata, self._root["description"] or "")

    def _buffer(self, number: int) -> "Optional[np.ndarray[Any, np.dtype[Any]]]":
        buffer = _at(self._root["buffers"], number, "buffer")
        start, size = buffer["offset"], buffer["size"]
        if start > 1:
            if start + size > len(self._data):
                raise InvalidModelError("buffer %d ends at byte %d of %d" % (number, start + size, len(self._data)))
            return np.frombuffer(self._data, np.uint8, size, start) if size else None
        data: Optional[np.ndarray[Any, np.dtype[Any]]] = buffer["data"]
        return data if data is not None and data.size else None

    def _graph(self, graph: Dict[str, Any]) -> SubGraph:
        tensors = [self._tensor(tensor) for tensor in graph["tensors"] or ()]
        name = graph["name"] or ""
        result = SubGraph(tensors, [], _indices(graph["inputs"], tensors), _indices(graph["outputs"], tensors), name)
        result.operators = [self._operator(operator, tensors) for operator in graph["operators"] or ()]
        _restore_empty_constants(result)
        return result

    def _tensor(self, tensor: Dict[str, Any]) -> TensorSpec:
        dtype, shape = tensor["type"], tensor["shape"] or []
        name = tensor["name"] or ""
        if not isinstance(dtype, str):
            raise InvalidModelError("tensor '%s' has type %d, which is newer than known" % (name, dtype))
        if any(size < 0 for size in shape):
            raise InvalidModelError("tensor '%s' has a negative size: %s" % (name, shape))
        quantization = tensor["quantization"]
        return TensorSpec(
            name=name,
            dtype=dtype,
            shape=shape,
            buffer=_constant(self._buffer(tensor["buffer"]), dtype, shape),
            shape_signature=tensor["shape_signature"],
            quantization=None if quantization is None else _quantization(quantization),
            is_variable=tensor["is_variable"],
            has_rank=tensor["has_rank"],
            sparsity=tensor["sparsity"],
            variant_tensors=tensor["variant_tensors"],
        )

    def _operator(self, operator: Dict[str, Any], tensors: List[TensorSpec]) -> OperatorSpec:
        code = _at(self._root["operator_codes"], operator["opcode_index"], "operator code")
        number = max(code["builtin_code"], code["deprecated_builtin_code"])
        if number == PLACEHOLDER or not isinstance(OPERATORS.name(number), str):
            raise InvalidModelError("builtin operator %d is newer than known" % number)
        options = operator["builtin_options"] or operator["builtin_options2"]
        custom = operator["custom_options"]
        return OperatorSpec(
            builtin=str(OPERATORS.name(number)),
            inputs=_indices(operator["inputs"], tensors, optional=True),
            outputs=_indices(operator["outputs"], tensors),
            options=options[1] if options else {},
            version=code["version"],
            intermediates=_indices(operator["intermediates"], tensors),
            mutating=operator["mutating_variable_inputs"] or (),
            custom_code=code["custom_code"],
            custom_options=None if custom is None else custom.tobytes(),
        )


def _restore_empty_constants(graph: SubGraph) -> None:
    """Set the buffer of each tensor that is an empty constant, in place. A file stores no bytes for it.

    The sizes of an empty constant are all known, and one of them is 0. It is no variable, no input of the subgraph and
    no result of an operator.
    """
    computed = set(graph.inputs).union(*(operator.outputs for operator in graph.operators))
    for index, tensor in enumerate(graph.tensors):
        is_open = -1 in (tensor.shape_signature or ())
        if tensor.buffer is None and 0 in tensor.shape and not (is_open or tensor.is_variable or index in computed):
            stored, _ = storage(tensor.dtype, tensor.shape)
            tensor.buffer = np.zeros(tensor.shape, object if tensor.dtype == "string" else stored or np.uint8)


def _at(items: Optional[List[Dict[str, Any]]], index: int, kind: str) -> Dict[str, Any]:
    if items is None or not 0 <= index < len(items):
        raise InvalidModelError("the file refers to %s %d of %d" % (kind, index, len(items or ())))
    return items[index]


def _indices(indices: Optional[List[int]], tensors: List[TensorSpec], optional: bool = False) -> List[Any]:
    for index in indices or ():
        if not (0 <= index < len(tensors) or (optional and index == -1)):
            raise InvalidModelError("the file refers to tensor %d of %d" % (index, len(tensors)))
    return [None if index == -1 else index for index in indices or ()]


def _constant(data: Optional[ByteArray], dtype: str, shape: List[int]) -> Optional[ByteArray]:
    """Return the bytes of a constant as an array of its shape, in the numpy dtype of `storage`.

    Returns None if `data` is None. The elements of strings are `bytes` objects. These constants are a vector, not an
    array of `shape`:

    - strings whose number does not fit the shape
    - data whose size does not match dtype and shape, such as sparse data: as uint8
    - data of the dtypes "resource" and "variant": as uint8
    - packed types such as int4, if several elements share a byte: as uint8

    Raises InvalidModelError for malformed strings.
    """
    if data is None:
        return None
    stored, size = storage(dtype, shape)
    if dtype == "string":
        items: Any = np.array([*strings.unpack(memoryview(data)), None], dtype=object)[:-1]
        return items.reshape(shape) if items.size == _count(shape) else items
    if stored is None or data.size != size:
        return data
    array = data.view(stored)
    return array.reshape(shape) if array.size == _count(shape) else array


def _count(shape: List[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _quantization(fields: Dict[str, Any]) -> Quantization:
    return Quantization(
        scale=fields["scale"] or [],
        zero_point=fields["zero_point"] or [],
        axis=fields["quantized_dimension"],
        min=fields["min"],
        max=fields["max"],
        details=fields["details"],
    )


def _signature(entry: Dict[str, Any], graphs: List[SubGraph]) -> Signature:
    number = entry["subgraph_index"]
    if not 0 <= number < len(graphs):
        raise InvalidModelError(
            "signature '%s' refers to graph %d of %d" % (entry["signature_key"], number, len(graphs))
        )

    def read_ports(pairs: Optional[List[Dict[str, Any]]]) -> Dict[str, int]:
        _indices([pair["tensor_index"] for pair in pairs or ()], graphs[number].tensors)
        return {pair["name"] or "": pair["tensor_index"] for pair in pairs or ()}

    inputs, outputs = read_ports(entry["inputs"]), read_ports(entry["outputs"])
    return Signature(inputs, outputs, entry["signature_key"] or "", number)

"""CAST from int8 and to it, for runtimes whose kernel does not know that type: just as exactly, by kernels that do."""

from typing import Any, List

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels

__all__ = ["spell_bytes"]


def spell_bytes(graph: fb.SubGraph, kernels: Kernels) -> None:
    """Every such CAST becomes several operators, where it has to."""
    if kernels.accepts("CAST", "float32", "to int8"):
        return
    kept: List[fb.OperatorSpec] = []
    for operator in graph.operators:
        if operator.builtin != "CAST":
            kept.append(operator)
            continue
        source, result = operator.inputs[0] or 0, operator.outputs[0]
        before, after = graph.tensors[source].dtype, graph.tensors[result].dtype
        if "int8" not in (before, after):
            kept.append(operator)
        elif before == "int8":
            _Spelling(graph, kept).from_bytes(source, result)
        else:
            _Spelling(graph, kept).to_bytes(source, result)
    graph.operators = kept


class _Spelling:
    """What is written in the place of one CAST."""

    def __init__(self, graph: fb.SubGraph, kept: List[fb.OperatorSpec]) -> None:
        self._graph, self._kept = graph, kept

    def from_bytes(self, source: int, result: int) -> None:
        """With a scale of one they are dequantized to what they are; from int32 they wrap as they should."""
        scaled = self._tensor(result, "int8")
        self._graph.tensors[scaled].quantization = fb.Quantization([1.0], [0])
        self._put("RESHAPE", [source, self._shape(source)], scaled)
        path = [self._step(result, dtype) for dtype in ("float32", "int32")]
        path = path[: path.index(result) + 1] if result in path else [*path, result]
        self._put("DEQUANTIZE", [scaled], path[0])
        for one, other in zip(path, path[1:]):
            self._cast(one, other)

    def to_bytes(self, source: int, result: int) -> None:
        """By their places in a list of all bytes. Old kernels broadcast nothing of rank 5: it is made flat."""
        whole = self._step(source, "int32")
        flat, moved, place = (self._tensor(result, "int32") for _ in range(3))
        found = self._tensor(result, "int8")
        for index in (flat, moved, place, found):
            spec = self._graph.tensors[index]
            known = spec.shape_signature is None
            spec.shape = (int(np.prod(spec.shape, dtype=np.int64)),)
            spec.shape_signature = None if known else (-1,)
        if whole != source:
            self._cast(source, whole)
        self._put("RESHAPE", [whole, self._constant([-1], np.int32)], flat)
        self._put("ADD", [flat, self._constant([128], np.int32)], moved)
        self._put("FLOOR_MOD", [moved, self._constant([256], np.int32)], place)
        self._put("GATHER", [self._constant(range(-128, 128), np.int8), place], found, axis=0)
        self._put("RESHAPE", [found, self._shape(source)], result)

    def _step(self, index: int, dtype: str) -> int:
        """The tensor itself if it is of this type, else one like it on the way."""
        return index if self._graph.tensors[index].dtype == dtype else self._tensor(index, dtype)

    def _cast(self, source: int, result: int) -> None:
        before, after = (self._graph.tensors[index].dtype for index in (source, result))
        self._put("CAST", [source], result, in_data_type=before, out_data_type=after)

    def _shape(self, source: int) -> int:
        tensor = self._graph.tensors[source]
        sizes = list(tensor.shape if tensor.shape_signature is None else tensor.shape_signature)
        unknown = sum(size < 0 for size in sizes)
        if not unknown or (unknown == 1 and 0 not in sizes):
            return self._constant(sizes, np.int32)
        shape = self._graph.add(fb.TensorSpec(self._name(), "int32", (len(sizes),)))
        self._put("SHAPE", [source], shape, out_type="int32")
        return shape

    def _tensor(self, like: int, dtype: str) -> int:
        shaped = self._graph.tensors[like]
        return self._graph.add(fb.TensorSpec(self._name(), dtype, shaped.shape, shape_signature=shaped.shape_signature))

    def _constant(self, numbers: Any, dtype: Any) -> int:
        array = np.asarray(numbers, dtype)
        return self._graph.add(fb.TensorSpec(self._name(), array.dtype.name, array.shape, array))

    def _name(self) -> str:
        return "%s/bytes_%d" % (self._graph.name, len(self._graph.tensors))

    def _put(self, builtin: str, inputs: List[int], output: int, **options: Any) -> None:
        self._kept.append(fb.OperatorSpec(builtin, inputs, [output], options))

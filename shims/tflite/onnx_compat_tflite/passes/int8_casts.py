"""CAST(x: int8)          =>  DEQUANTIZE(x with scale 1 and zero point 0)
CAST(x to int8)        =>  GATHER([-128, ..., 127], (x + 128) mod 256)

Condition: the CAST kernel of the target runtime lacks int8 (tflite-runtime 2.7). The results are the same: a scale of 1 keeps
each value, and an integer out of range wraps, as in C.
"""

from typing import List

import numpy as np

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.contract import Context, DTypeLike, ExampleGraph, graph_pass
from onnx_compat_tflite.passes.rewriter import ArrayLike, GraphRewriter, Option

__all__ = ["int8_casts"]


def _example() -> fb.ModelSpec:
    graph = ExampleGraph((2, 3), dtype="int32")
    types = {"in_data_type": "int32", "out_data_type": "int8"}
    return graph.model(graph.op("CAST", [graph.inputs[0]], (2, 3), "int8", **types))


@graph_pass(
    "int8_casts", "CAST from or to int8 => DEQUANTIZE, or GATHER, where the CAST kernel lacks int8", _example,
    after=("redundant_reshapes", "integer_kernels"), legalizes=True,
)  # fmt: skip
def int8_casts(graph: GraphRewriter, context: Context) -> int:
    """Replace CASTs from and to int8 if the CAST kernel of the target runtime lacks int8.

    Returns the number of replaced CASTs, 0 if the kernel has int8.
    """
    if context.kernels.accepts("CAST", "float32", "to int8"):
        return 0
    count = 0
    built: List[fb.OperatorSpec] = []
    for op in graph.operators:
        dtypes = [] if op.builtin != "CAST" else [graph.tensor(index or 0).dtype for index in (*op.inputs, *op.outputs)]
        if "int8" not in dtypes:
            built.append(op)
        elif dtypes[0] == "int8":
            _Cast(graph, built).from_int8(op.inputs[0] or 0, op.outputs[0])
        else:
            _Cast(graph, built).to_int8(op.inputs[0] or 0, op.outputs[0])
        count += "int8" in dtypes
    if count:
        graph.reorder(built)
    return count


class _Cast:
    """Builder of the operators that replace a CAST; they are appended to the list `built`."""

    def __init__(self, graph: GraphRewriter, built: List[fb.OperatorSpec]) -> None:
        self._graph, self._built = graph, built

    def from_int8(self, source: int, result: int) -> None:
        """Append operators that cast the int8 tensor `source` to the tensor `result`.

        The operators are a RESHAPE, a DEQUANTIZE to float32 and CASTs. The RESHAPE copies the integers to a tensor with
        scale 1 and zero point 0. The number of CASTs depends on the dtype of `result`:

        - float32: none
        - int32: one
        - other dtypes: one to int32, then one to the dtype, so that integers wrap

        If `result` is int8, only a RESHAPE is appended, as a copy.
        """
        if self._graph.tensor(result).dtype == "int8":
            self._put("RESHAPE", [source, self._shape(source)], result)
            return
        scaled = self._tensor(result, "int8")
        self._graph.set_quantization(scaled, fb.Quantization([1.0], [0]))
        self._put("RESHAPE", [source, self._shape(source)], scaled)
        path = [self._convert(result, dtype) for dtype in ("float32", "int32")]
        path = path[: path.index(result) + 1] if result in path else [*path, result]
        self._put("DEQUANTIZE", [scaled], path[0])
        for before, after in zip(path, path[1:]):
            self._cast(before, after)

    def to_int8(self, source: int, result: int) -> None:
        """Append operators that cast `source` to the int8 tensor `result`: GATHER([-128, ..., 127], (x + 128) mod 256).

        A source that is not int32 is first cast to int32. The index is computed for a vector: tflite-runtime 2.7 does
        not broadcast tensors of rank 5.
        """
        whole = self._convert(source, "int32")
        flat, shifted, index = (self._vector(result, "int32") for _ in range(3))
        gathered = self._vector(result, "int8")
        if whole != source:
            self._cast(source, whole)
        self._put("RESHAPE", [whole, self._constant([-1], np.int32)], flat)
        self._put("ADD", [flat, self._constant([128], np.int32)], shifted)
        self._put("FLOOR_MOD", [shifted, self._constant([256], np.int32)], index)
        self._put("GATHER", [self._constant(range(-128, 128), np.int8), index], gathered, axis=0)
        self._put("RESHAPE", [gathered, self._shape(source)], result)

    def _convert(self, index: int, dtype: str) -> int:
        """Return the tensor `index` if it has this dtype, else the index of a new tensor of its shape with this dtype.

        No operator that writes the new tensor is appended.
        """
        return index if self._graph.tensor(index).dtype == dtype else self._tensor(index, dtype)

    def _cast(self, source: int, result: int) -> None:
        before, after = (self._graph.tensor(index).dtype for index in (source, result))
        self._put("CAST", [source], result, in_data_type=before, out_data_type=after)

    def _shape(self, source: int) -> int:
        """Return the index of a tensor with the shape of `source`, for a RESHAPE.

        - If no size is open, it is a constant.
        - If one size is open and no size is 0, it is a constant with -1 for the open size.
        - Otherwise it is the result of a SHAPE, which is appended.
        """
        sizes = list(self._graph.sizes(source))
        open_sizes = sum(size < 0 for size in sizes)
        if not open_sizes or (open_sizes == 1 and 0 not in sizes):
            return self._constant(sizes, np.int32)
        shape = self._graph.add_tensor(self._name(), "int32", (len(sizes),))
        self._put("SHAPE", [source], shape, out_type="int32")
        return shape

    def _tensor(self, like: int, dtype: str) -> int:
        return self._graph.add_like(like, self._name(), dtype)

    def _vector(self, like: int, dtype: str) -> int:
        """Append a tensor of rank 1 with as many elements as the tensor `like`, and return its index.

        Its size is open if the tensor `like` has an open size.
        """
        shaped = self._graph.tensor(like)
        count = int(np.prod(shaped.shape, dtype=np.int64))
        signature = None if shaped.shape_signature is None else (-1,)
        return self._graph.add_tensor(self._name(), dtype, (count,), signature)

    def _constant(self, numbers: ArrayLike, dtype: DTypeLike) -> int:
        return self._graph.add_constant(self._name(), np.asarray(numbers, dtype))

    def _name(self) -> str:
        return "%s/bytes_%d" % (self._graph.name, self._graph.tensor_count)

    def _put(self, builtin: str, inputs: List[int], output: int, **options: Option) -> None:
        self._built.append(fb.OperatorSpec(builtin, inputs, [output], options))

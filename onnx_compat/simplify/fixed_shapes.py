"""Declare the shapes to which inputs were fixed, in the ports and the value_info of a GraphProto."""

from typing import Any, Dict, Sequence

from onnx_compat.ir.dims import is_static
from onnx_compat.model import Graph, TensorType
from onnx_compat.simplify.knowledge import Knowledge

__all__ = ["declare_shapes"]

#: A message of onnx: its classes are generated at run time, and `onnx` is imported late.
Proto = Any


def declare_shapes(graph: Proto, fixed: Graph, knowledge: Knowledge) -> None:
    """Write fixed sizes into the declared types of inputs, outputs and values, in place.

    - graph: the GraphProto as the model has it.
    - fixed: the graph after `fix_inputs`.
    - knowledge: the trace of `fixed`. A declared size that is open gets the number that the trace found.

    A named size that an input fixes is replaced wherever it occurs.
    """
    symbols: Dict[str, int] = {}
    declared = {port.name: port.type for port in fixed.inputs}
    for port in graph.input:
        kind = declared[port.name]
        if not isinstance(kind, TensorType) or kind.shape is None:
            continue
        shape = port.type.tensor_type.shape
        if len(shape.dim) != len(kind.shape):  # no rank was declared
            del shape.dim[:]
            for _ in kind.shape:
                shape.dim.add()
        for dim, size in zip(shape.dim, kind.shape):
            if isinstance(size, int):
                if dim.dim_param:
                    symbols[dim.dim_param] = size
                dim.dim_value = size
    for port in [*graph.output, *graph.value_info]:
        spec = knowledge.spec(port.name)
        sizes: Sequence[Any] = () if spec is None else spec.shape
        dims = port.type.tensor_type.shape.dim if port.type.HasField("tensor_type") else ()
        for axis, dim in enumerate(dims):
            if dim.dim_param in symbols:
                dim.dim_value = symbols[dim.dim_param]
            elif not dim.HasField("dim_value") and len(sizes) == len(dims) and is_static(sizes[axis]):
                dim.dim_value = int(sizes[axis])

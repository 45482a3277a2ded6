"""The inputs and outputs of a .tflite file, ours or another's."""

from typing import Dict, List, Optional, Set, Tuple

from onnx_compat.shim import DType, Port
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels

__all__ = [
    "DESCRIPTION", "bears_nothing", "cutting", "fragile", "int4_products", "ports", "resizing", "seeded", "shifted", "windows",
]  # fmt: skip

DESCRIPTION = "made by onnx-compat"
"""What a file of ours says of itself."""

_MEAN = "AVERAGE_POOL_2D"
_WINDOWED = ("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D", "TRANSPOSE_CONV", _MEAN, "MAX_POOL_2D")

Ports = Tuple[Port, ...]


def ports(model: fb.ModelSpec) -> Tuple[Ports, Ports]:
    """By the names of the signature, in the order of the graph; by the tensors' own where there is no signature."""
    main = model.subgraphs[0]
    signature = next((one for one in model.signatures if one.subgraph == 0), None)
    if signature is None:
        inputs = {main.tensors[index].name: index for index in main.inputs}
        outputs = {main.tensors[index].name: index for index in main.outputs}
    else:
        inputs, outputs = signature.inputs, signature.outputs
    return _ordered(main, inputs, main.inputs), _ordered(main, outputs, main.outputs)


def fragile(model: fb.ModelSpec, kernels: Kernels) -> bool:
    """Whether some kernel would end the process, or give what was in the memory before, if a size that is not known were
    zero: a softmax over that axis, and in older runtimes what slides over nothing, or a product over nothing.
    """
    operators = [(graph, operator) for graph in model.subgraphs for operator in graph.operators]
    return any(_frail(graph, operator, kernels) for graph, operator in operators)


def _frail(graph: fb.SubGraph, operator: fb.OperatorSpec, kernels: Kernels) -> bool:
    sizes = _open_sizes(graph, operator)
    if not sizes:
        return False
    floats = graph.tensors[operator.inputs[0] or 0].dtype.startswith("float")
    if operator.builtin == "TRANSPOSE":
        if sizes[0] < 0 and _stays_first(graph, operator) and not kernels.has("BITCAST"):
            return True  # an axis that stays the first is divided by
        return not floats and not bears_nothing(kernels)
    if operator.builtin == "MEAN" or (operator.builtin == "SUM" and floats):
        return min(sizes) < 0 and not bears_nothing(kernels)
    if operator.builtin in _WINDOWED:
        return min(sizes) < 0 and (
            not bears_nothing(kernels) or (operator.builtin == _MEAN and not kernels.has("BITCAST"))
        )
    if operator.builtin == "BATCH_MATMUL":
        inner = sizes[-2 if operator.options.get("adj_x") else -1]
        return inner < 0 and not kernels.accepts("BATCH_MATMUL", "float32", "none")
    return operator.builtin in ("SOFTMAX", "LOG_SOFTMAX") and sizes[-1] < 0


def _stays_first(graph: fb.SubGraph, operator: fb.OperatorSpec) -> bool:
    """Whether a TRANSPOSE leaves the first axis where it is, as far as can be told."""
    order = graph.tensors[operator.inputs[1] or 0].buffer
    return order is None or int(order[0]) == 0


def bears_nothing(kernels: Kernels) -> bool:
    """Whether what slides over nothing gives nothing: in the newest runtimes, and in those from before GELU."""
    return kernels.accepts("REDUCE_MAX", "float32", "none") or not kernels.has("GELU")


def windows(model: fb.ModelSpec) -> List[int]:
    """The results of convolutions and pools whose sizes are not known, where they are not in a branch or a loop."""
    main = model.subgraphs[0]
    return [
        operator.outputs[0]
        for operator in main.operators
        if operator.builtin in _WINDOWED and min(_open_sizes(main, operator), default=0) < 0
    ]


def resizing(model: fb.ModelSpec) -> bool:
    """Whether a branch or the body of a loop has tensors of open sizes; of a model that takes text, any graph."""
    main = model.subgraphs[0]
    graphs = model.subgraphs[0 if any(main.tensors[index].dtype == "string" for index in main.inputs) else 1 :]
    return any(-1 in (tensor.shape_signature or ()) for graph in graphs for tensor in graph.tensors)


def cutting(model: fb.ModelSpec) -> bool:
    """Whether perhaps nothing is left of an axis of open length that is cut: by places that are known, which delegates take."""
    pairs = [(graph.tensors, one) for graph in model.subgraphs for one in graph.operators]
    return any(
        one.builtin == "STRIDED_SLICE"
        and all(tensors[place or 0].buffer is not None for place in one.inputs[1:])
        and min(tensors[one.inputs[0] or 0].shape_signature or (0,)) < 0
        for tensors, one in pairs
    )


def shifted(model: fb.ModelSpec) -> bool:
    """Whether the second factor of a product of int8 has a zero point that is not zero."""
    found = [
        graph.tensors[operator.inputs[1] or 0].quantization
        for graph in model.subgraphs
        for operator in graph.operators
        if operator.builtin == "BATCH_MATMUL"
    ]
    return any(one is not None and any(one.zero_point) for one in found)


def int4_products(model: fb.ModelSpec) -> Set[bool]:
    """Whether weights of int4 that floats are multiplied with have scales for blocks; each that there is."""
    operators = [(graph.tensors, one) for graph in model.subgraphs for one in graph.operators]
    pairs = [
        (tensors[one.inputs[0] or 0], tensors[one.inputs[1] or 0])
        for tensors, one in operators
        if one.builtin == "FULLY_CONNECTED"
    ]
    held = [w.quantization for x, w in pairs if (x.dtype, w.dtype) == ("float32", "int4")]
    return {one is not None and one.details is not None for one in held}


def seeded(model: fb.ModelSpec) -> bool:
    """Whether random numbers are drawn from a seed."""
    operators = [operator for graph in model.subgraphs for operator in graph.operators]
    return any(one.builtin.startswith("RANDOM_") and one.options.get("seed2") for one in operators)


def _open_sizes(graph: fb.SubGraph, operator: fb.OperatorSpec) -> Tuple[int, ...]:
    """The sizes of what it is applied to, -1 where unknown; nothing if all are known."""
    place = operator.inputs[2 if operator.builtin == "TRANSPOSE_CONV" else 0]
    return tuple(graph.tensors[place or 0].shape_signature or ())


def _ordered(graph: fb.SubGraph, named: Dict[str, int], order: List[int]) -> Ports:
    names = {index: name for name, index in named.items()}
    return tuple(_port(graph.tensors[index], names.get(index)) for index in order)


def _port(tensor: fb.TensorSpec, name: Optional[str]) -> Port:
    """Of a tensor that is quantized, the integers as they are stored."""
    sizes = tensor.shape if tensor.shape_signature is None else tensor.shape_signature
    shape = tuple(size if size >= 0 else None for size in sizes)
    return Port(name or tensor.name, DType.of(tensor.dtype), shape)

"""Read the ports of a .tflite file, and detect operators that a runtime runs wrongly without a precaution."""

from typing import Dict, List, Optional, Set, Tuple

from onnx_compat.shim import DType, Port
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels

__all__ = [
    "DESCRIPTION",
    "draws_from_seed",
    "has_deferred_sizes",
    "has_open_inputs",
    "has_open_slices",
    "has_shifted_factors",
    "int4_products",
    "must_reject_empty_inputs",
    "open_window_outputs",
    "read_ports",
    "resizes_inside_branches",
    "supports_empty_windows",
]

DESCRIPTION = "made by onnx-compat"
"""The description that onnx-compat writes into its files."""

_MEAN = "AVERAGE_POOL_2D"
_WINDOWED = ("CONV_2D", "DEPTHWISE_CONV_2D", "CONV_3D", "TRANSPOSE_CONV", _MEAN, "MAX_POOL_2D")

#: Operators whose results, or whose subgraphs' results, have sizes that depend on values.
_SIZED_BY_VALUES = frozenset("IF NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 UNIQUE WHERE WHILE".split())
#: Operator -> the positions of the operands that give the sizes of its result.
_SIZE_OPERANDS = {
    "BROADCAST_TO": (1,), "FILL": (0,), "ONE_HOT": (1,), "PAD": (1,), "PADV2": (1,), "RANGE": (0, 1, 2), "RESHAPE": (1,),
    "RESIZE_BILINEAR": (1,), "RESIZE_NEAREST_NEIGHBOR": (1,), "SCATTER_ND": (2,), "SLICE": (1, 2), "SPLIT_V": (1,),
    "STRIDED_SLICE": (1, 2, 3), "TILE": (1,), "TOPK_V2": (1,), "TRANSPOSE_CONV": (0,),
}  # fmt: skip

Ports = Tuple[Port, ...]


def read_ports(model: fb.ModelSpec) -> Tuple[Ports, Ports]:
    """Return (input ports, output ports) of the first subgraph, in the order of the subgraph.

    A port has the name that the first signature of this subgraph gives it, else the name of its tensor. An open size
    becomes None.
    """
    main = model.subgraphs[0]
    signature = next((entry for entry in model.signatures if entry.subgraph == 0), None)
    if signature is None:
        inputs = {main.tensors[index].name: index for index in main.inputs}
        outputs = {main.tensors[index].name: index for index in main.outputs}
    else:
        inputs, outputs = signature.inputs, signature.outputs
    return _ordered_ports(main, inputs, main.inputs), _ordered_ports(main, outputs, main.outputs)


def must_reject_empty_inputs(model: fb.ModelSpec, kernels: Kernels) -> bool:
    """Whether an operator of the model may end the process, or return stale memory, for an input without elements.

    Only operators whose data input has an open size count:

    - on all runtimes: SOFTMAX and LOG_SOFTMAX whose last axis is open
    - on some runtimes: convolutions, pools, means, sums of floats, transposes and matrix products

    `kernels` must be those of a single runtime. For `Kernels()`, which stands for all runtimes, the result may be False
    although some runtimes fail.
    """
    operators = [(graph, operator) for graph in model.subgraphs for operator in graph.operators]
    return any(_fails_for_empty(graph, operator, kernels) for graph, operator in operators)


def _fails_for_empty(graph: fb.SubGraph, operator: fb.OperatorSpec, kernels: Kernels) -> bool:
    """Whether an open size of the operator's data input may be 0 at run time, and its kernel does not support that."""
    sizes = _open_sizes(graph, operator)
    if not sizes:
        return False
    is_float = graph.tensors[operator.inputs[0] or 0].dtype.startswith("float")
    if operator.builtin == "TRANSPOSE":
        if sizes[0] < 0 and _keeps_first_axis(graph, operator) and not kernels.has("BITCAST"):
            return True  # before 2.13 the kernel divides by the size of a first axis that stays first
        return not is_float and not supports_empty_windows(kernels)
    if operator.builtin == "MEAN" or (operator.builtin == "SUM" and is_float):
        return min(sizes) < 0 and not supports_empty_windows(kernels)
    if operator.builtin in _WINDOWED:
        return min(sizes) < 0 and (
            not supports_empty_windows(kernels) or (operator.builtin == _MEAN and not kernels.has("BITCAST"))
        )
    if operator.builtin == "BATCH_MATMUL":
        inner = sizes[-2 if operator.options.get("adj_x") else -1]
        return inner < 0 and not kernels.accepts("BATCH_MATMUL", "float32", "none")
    return operator.builtin in ("SOFTMAX", "LOG_SOFTMAX") and sizes[-1] < 0


def _keeps_first_axis(graph: fb.SubGraph, operator: fb.OperatorSpec) -> bool:
    """Whether a TRANSPOSE keeps axis 0 first; True if its permutation is not a constant."""
    order = graph.tensors[operator.inputs[1] or 0].buffer
    return order is None or int(order[0]) == 0


def supports_empty_windows(kernels: Kernels) -> bool:
    """Whether convolutions, pools and reductions of an empty tensor run on a runtime, and return an empty result.

    Returns True for the newest runtimes (the last column of `kernel_facts`), and for runtimes without GELU (before
    tflite-runtime 2.9).

    `kernels` must be those of a single runtime. For `Kernels()`, which stands for all runtimes, the result is True
    although some runtimes fail.
    """
    return kernels.accepts("REDUCE_MAX", "float32", "none") or not kernels.has("GELU")


def open_window_outputs(model: fb.ModelSpec) -> List[int]:
    """Return the tensor indices of the results of convolutions and pools in the first subgraph.

    Only operators whose input has an open size count. The open size may be of any axis, also the batch or the channels.
    """
    main = model.subgraphs[0]
    return [
        operator.outputs[0]
        for operator in main.operators
        if operator.builtin in _WINDOWED and min(_open_sizes(main, operator), default=0) < 0
    ]


def resizes_inside_branches(model: fb.ModelSpec) -> bool:
    """Whether a subgraph other than the first, such as a branch or a loop body, has a tensor with an open size.

    If the model has an input of strings, the result is True also for an open size in the first subgraph.
    """
    main = model.subgraphs[0]
    graphs = model.subgraphs[0 if any(main.tensors[index].dtype == "string" for index in main.inputs) else 1 :]
    return any(-1 in (tensor.shape_signature or ()) for graph in graphs for tensor in graph.tensors)


def has_open_inputs(model: fb.ModelSpec) -> bool:
    """Whether an input of the first subgraph has an open size."""
    main = model.subgraphs[0]
    return any(-1 in (main.tensors[index].shape_signature or ()) for index in main.inputs)


def has_deferred_sizes(model: fb.ModelSpec) -> bool:
    """Whether an operator of the model may have a result whose sizes depend on values that are computed at run time.

    True for ops such as WHERE, IF and WHILE, and for ops such as RESHAPE if an operand that gives sizes is no constant.
    The runtime checks the readers of such a result only when the model runs.
    """
    for graph in model.subgraphs:
        for operator in graph.operators:
            operands = [
                operator.inputs[k] for k in _SIZE_OPERANDS.get(operator.builtin, ()) if k < len(operator.inputs)
            ]
            computed = [k for k in operands if k is not None and graph.tensors[k].buffer is None]
            if computed or operator.builtin in _SIZED_BY_VALUES:
                return True
    return False


def has_open_slices(model: fb.ModelSpec) -> bool:
    """Whether a STRIDED_SLICE with constant bounds and steps reads a tensor with an open size.

    XNNPACK accepts such an operator. Its result may be empty at run time: see
    `RuntimeQuirks.delegate_slices_to_empty`.
    """
    operators = [(graph.tensors, op) for graph in model.subgraphs for op in graph.operators]
    return any(
        op.builtin == "STRIDED_SLICE"
        and all(tensors[index or 0].buffer is not None for index in op.inputs[1:])
        and min(tensors[op.inputs[0] or 0].shape_signature or (0,)) < 0
        for tensors, op in operators
    )


def has_shifted_factors(model: fb.ModelSpec) -> bool:
    """Whether the second operand of any BATCH_MATMUL of the model has a zero point other than 0.

    An operand that is not quantised has no zero point.
    """
    quantizations = [
        graph.tensors[operator.inputs[1] or 0].quantization
        for graph in model.subgraphs
        for operator in graph.operators
        if operator.builtin == "BATCH_MATMUL"
    ]
    return any(quantization is not None and any(quantization.zero_point) for quantization in quantizations)


def int4_products(model: fb.ModelSpec) -> Set[bool]:
    """Return the kinds of int4 weights of the FULLY_CONNECTED operators on float32 inputs, as a set of booleans.

    True is in the set if int4 weights of such an operator have a scale per block. False is in the set if int4 weights
    have other scales, or no scale. Without int4 weights, the set is empty.
    """
    operators = [(graph.tensors, op) for graph in model.subgraphs for op in graph.operators]
    pairs = [
        (tensors[op.inputs[0] or 0], tensors[op.inputs[1] or 0])
        for tensors, op in operators
        if op.builtin == "FULLY_CONNECTED"
    ]
    quantizations = [w.quantization for x, w in pairs if (x.dtype, w.dtype) == ("float32", "int4")]
    return {quantization is not None and quantization.details is not None for quantization in quantizations}


def draws_from_seed(model: fb.ModelSpec) -> bool:
    """Whether the model has a RANDOM_* op with a fixed seed (its option `seed2` is not 0)."""
    operators = [operator for graph in model.subgraphs for operator in graph.operators]
    return any(op.builtin.startswith("RANDOM_") and op.options.get("seed2") for op in operators)


def _open_sizes(graph: fb.SubGraph, operator: fb.OperatorSpec) -> Tuple[int, ...]:
    """Return the shape signature of the operator's data input: its sizes, with -1 for an open size.

    Returns () if the input has no shape signature, and so no open size.
    """
    index = operator.inputs[2 if operator.builtin == "TRANSPOSE_CONV" else 0]
    return tuple(graph.tensors[index or 0].shape_signature or ())


def _ordered_ports(graph: fb.SubGraph, indices: Dict[str, int], order: List[int]) -> Ports:
    """Return the ports of the tensors `order`, in this order. `order` has tensor indices.

    `indices` has the tensor index of each port name. A tensor that `indices` lacks has its own name.
    """
    names = {index: name for name, index in indices.items()}
    return tuple(_port(graph.tensors[index], names.get(index)) for index in order)


def _port(tensor: fb.TensorSpec, name: Optional[str]) -> Port:
    """Return the port of a tensor with its stored dtype: the port of a quantised tensor has an integer dtype.

    The port has the scale and the zero point of the tensor, if the tensor has a single scale. A `name` of None or "" is
    replaced by the name of the tensor.
    """
    sizes = tensor.shape if tensor.shape_signature is None else tensor.shape_signature
    shape = tuple(size if size >= 0 else None for size in sizes)
    stored = tensor.quantization
    quantization = None
    if stored is not None and len(stored.scale) == 1:
        quantization = float(stored.scale[0]), int(stored.zero_point[0]) if stored.zero_point else 0
    return Port(name or tensor.name, DType.of(tensor.dtype), shape, quantization)

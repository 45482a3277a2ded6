"""Weights in fewer bits: a constant, DEQUANTIZE, and the operator as it was. It computes in float32.

A runtime does that once, when it first meets the weights. Integers are symmetric, with a scale for each output channel or
for each block of so many weights of a channel. Blocks are rows: a kernel knows one scale for each index of one axis.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels

__all__ = ["nibbles", "rounded", "store", "store_gates"]

#: Operator -> where its weights are, and the axis of the output channels.
_WEIGHTS: Dict[str, Tuple[int, int]] = {
    "CONV_2D": (1, 0),
    "CONV_3D": (1, 4),
    "DEPTHWISE_CONV_2D": (1, 3),
    "EMBEDDING_LOOKUP": (1, 0),
    "FULLY_CONNECTED": (1, 0),
    "GATHER": (0, 0),
    "TRANSPOSE_CONV": (1, 0),
}
#: Where a recurrent operator has the weights of its input and of its state, for each direction.
_GATES: Dict[str, Sequence[int]] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": range(1, 9),
    "BIDIRECTIONAL_SEQUENCE_LSTM": [*range(1, 9), *range(18, 26)],
    "UNIDIRECTIONAL_SEQUENCE_RNN": range(1, 3),
}
_LARGEST = {"weights-int8": 127, "weights-int4": 7}
_SMALL = 64  # elements, below which the operator and the scales take more than they save
_HALF = 65504  # the largest float16

#: Shares of the largest weight beyond which larger ones are cut off, if that makes the sum of squared errors less.
_CUTS = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)


class _Weights(NamedTuple):
    place: int
    axis: int


def store_gates(model: fb.ModelSpec) -> None:
    """Those of recurrent operators as int8, which a library of kernels on integers leaves as they are."""
    _store(model, "weights-int8", None, list(_GATES))


def store(model: fb.ModelSpec, kind: str, block: Optional[int], kernels: Kernels) -> None:
    """Pack the weights of every subgraph, in place."""
    if kind == "weights-int4" and not kernels.has("DEQUANTIZE", 6):
        raise UnsupportedError(
            "DEQUANTIZE of the TFLite runtime here takes no int4", hint="use 'weights-int8', or a newer runtime"
        )
    _store(model, kind, block, [*_WEIGHTS, "BATCH_MATMUL", *_GATES])


def _store(model: fb.ModelSpec, kind: str, block: Optional[int], builtins: Sequence[str]) -> None:
    for graph in model.subgraphs:
        before: List[fb.OperatorSpec] = []
        for weights in _found(graph, builtins):
            array = np.asarray(graph.tensors[weights.place].buffer)
            if kind != "float16":
                before += _integers(graph, weights, array, kind, block)
            elif np.abs(array).max() <= _HALF:
                half = fb.TensorSpec(_name(graph, weights.place), "float16", array.shape, array.astype(np.float16))
                before.append(fb.OperatorSpec("DEQUANTIZE", [graph.add(half)], [weights.place]))
                graph.tensors[weights.place].buffer = None
        graph.operators[:0] = before


def _found(graph: fb.SubGraph, builtins: Sequence[str]) -> List[_Weights]:
    """The constants that are weights to all who read them, which are these, and along the same axis."""
    axes: Dict[int, Any] = dict.fromkeys(graph.outputs)
    for operator in graph.operators:
        for at, index in enumerate(operator.inputs):
            if index is not None and graph.tensors[index].buffer is not None:
                axis = _axis(graph, operator, at) if operator.builtin in builtins else None
                axes[index] = axis if axes.setdefault(index, axis) == axis else None
    return [_Weights(index, axis) for index, axis in sorted(axes.items()) if axis is not None]


def _axis(graph: fb.SubGraph, operator: fb.OperatorSpec, at: int) -> Optional[int]:
    tensor = graph.tensors[operator.inputs[at] or 0]
    array = np.asarray(tensor.buffer)
    if tensor.dtype != "float32" or array.size < _SMALL or not np.isfinite(array).all():
        return None
    if operator.builtin == "BATCH_MATMUL" and at == 1:
        return array.ndim - (2 if operator.options.get("adj_y") else 1)
    if operator.builtin == "GATHER" and operator.options.get("axis"):
        return None
    if operator.builtin in _GATES:
        return 0 if at in _GATES[operator.builtin] else None
    place, axis = _WEIGHTS.get(operator.builtin, (-1, 0))
    return axis if at == place else None


def _integers(
    graph: fb.SubGraph, weights: _Weights, array: Any, kind: str, block: Optional[int]
) -> List[fb.OperatorSpec]:
    """The operators that give the weights back."""
    tensor, name = graph.tensors[weights.place], _name(graph, weights.place)
    axis, inner = weights.axis, array.size // array.shape[0]
    blocked = block is not None and axis == 0 and block < inner and inner % block == 0
    if blocked:
        array, axis = array.reshape(-1, block), 0
    integers, scale = rounded(array, axis, _LARGEST[kind])
    dtype = "int4" if kind == "weights-int4" else "int8"
    packed = nibbles(integers) if dtype == "int4" else integers
    quantization = fb.Quantization(scale.tolist(), [0] * scale.size, axis)
    constant = graph.add(fb.TensorSpec(name, dtype, array.shape, packed, quantization=quantization))
    shape = tensor.shape
    tensor.buffer = None
    if not blocked:
        return [fb.OperatorSpec("DEQUANTIZE", [constant], [weights.place])]
    rows = graph.add(fb.TensorSpec(name + "/rows", "float32", array.shape))
    sizes = graph.add(fb.TensorSpec(name + "/shape", "int32", (len(shape),), np.asarray(shape, np.int32)))
    return [
        fb.OperatorSpec("DEQUANTIZE", [constant], [rows]),
        fb.OperatorSpec("RESHAPE", [rows, sizes], [weights.place]),
    ]


def rounded(array: Any, axis: int, largest: int, kind: Any = np.float32) -> Tuple[Any, Any]:
    """Integers of at most `largest`, and a scale for each index of the axis: the one with the least squared error. Scales are
    float32 that a narrower type may hold as well.
    """
    others = tuple(k for k in range(array.ndim) if k != axis)
    highest = np.abs(array).max(axis=others, keepdims=True)
    best: Any = None
    for cut in _CUTS if largest < 127 else _CUTS[:1]:
        scale = (np.where(highest > 0, highest, 1) * np.float32(cut / largest)).astype(kind).astype(np.float32)
        scale = np.maximum(scale, np.finfo(kind).tiny)
        integers = np.clip(np.rint(array / scale), -largest, largest)
        error = np.square(integers * scale - array).sum(axis=others, keepdims=True)
        if best is None:
            best = integers, scale, error
        else:
            less = error < best[2]
            best = tuple(np.where(less, mine, theirs) for mine, theirs in zip((integers, scale, error), best))
    return best[0].astype(np.int8), best[1].ravel()


def nibbles(integers: Any) -> Any:
    """Two to a byte, the first in the low bits."""
    flat = np.append(integers.ravel(), np.zeros(integers.size % 2, np.int8)).view(np.uint8) & 15
    return flat[::2] | flat[1::2] << 4


def _name(graph: fb.SubGraph, place: int) -> str:
    return graph.tensors[place].name + "/packed"

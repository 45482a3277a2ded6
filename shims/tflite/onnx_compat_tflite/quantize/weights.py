"""Weight-only quantisation: op(x, float32 weights)  =>  op(x, DEQUANTIZE(packed weights)), computed in float32.

A runtime dequantises a constant once, in the first run. The zero points are 0. Scales are per output channel, or per block
of a channel. Blocks are stored as rows of a matrix, since DEQUANTIZE accepts scales along a single axis only.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Type

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.quantize.blocks import check_blocks

__all__ = ["pack_nibbles", "round_to_integers", "store", "store_gates"]

#: Operator -> the position of its weights among its inputs, and the axis of the output channels.
_WEIGHTS: Dict[str, Tuple[int, int]] = {
    "CONV_2D": (1, 0),
    "CONV_3D": (1, 4),
    "DEPTHWISE_CONV_2D": (1, 3),
    "EMBEDDING_LOOKUP": (1, 0),
    "FULLY_CONNECTED": (1, 0),
    "GATHER": (0, 0),
    "TRANSPOSE_CONV": (1, 0),
}
#: Recurrent operator -> the positions of its input and state weights, for each direction.
_GATES: Dict[str, Sequence[int]] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": range(1, 9),
    "BIDIRECTIONAL_SEQUENCE_LSTM": [*range(1, 9), *range(18, 26)],
    "UNIDIRECTIONAL_SEQUENCE_RNN": range(1, 3),
}
_LARGEST = {"weights-int8": 127, "weights-int4": 7}
_MIN_ELEMENTS = 64  # smaller weights save less than DEQUANTIZE and the scales take
_MAX_HALF = 65504  # the largest float16

#: Fractions of the largest weight at which weights are clipped, if that reduces the sum of squared errors.
_CLIPPING = (1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7)


class _Weights(NamedTuple):
    tensor_index: int
    axis: int


def store_gates(model: fb.ModelSpec) -> None:
    """Store the float32 weights of LSTM and RNN ops as int8 with a DEQUANTIZE, a scale per row; modify the model.

    This is done for models of ai-edge-quantizer, which leaves these weights in float32. Weights stay float32 if they
    have fewer than 64 elements or an element that is not finite. Weights stay float32 also if they are outputs, or if
    an operator reads them in another way.
    """
    _store(model, "weights-int8", None, list(_GATES))


def store(model: fb.ModelSpec, kind: str, block: Optional[int], kernels: Kernels) -> None:
    """Store the float32 weights of every subgraph as `kind` ("float16", "weights-int8" or "weights-int4"), in place.

    A DEQUANTIZE at the front of the subgraph restores the weights. Weights that `_find_weights` leaves out are not
    changed. Weights beyond 65504 are not stored as float16.

    `block`: the number of weights per scale, or None for a scale per output channel. These weights ignore `block`:

    - weights that are stored as float16
    - weights whose output channels are not along axis 0
    - weights that cannot be divided into two or more whole blocks per channel

    Raises UnsupportedError if `kind` is "weights-int4" and the runtime does not dequantise int4. Raises
    UnsupportedError also if weights would be stored in blocks, and the runtime does not compute blocks.
    """
    if kind == "weights-int4" and not kernels.has("DEQUANTIZE", 6):
        raise UnsupportedError(
            "DEQUANTIZE of the TFLite runtime here takes no int4", hint="use 'weights-int8', or a newer runtime"
        )
    _store(model, kind, block, [*_WEIGHTS, "BATCH_MATMUL", *_GATES])


def _store(model: fb.ModelSpec, kind: str, block: Optional[int], builtins: Sequence[str]) -> None:
    for graph in model.subgraphs:
        dequantizing: List[fb.OperatorSpec] = []
        for weights in _find_weights(graph, builtins):
            array = np.asarray(graph.tensors[weights.tensor_index].buffer)
            if kind != "float16":
                dequantizing += _pack_integers(graph, weights, array, kind, block)
            elif np.abs(array).max() <= _MAX_HALF:
                half = fb.TensorSpec(
                    _packed_name(graph, weights.tensor_index), "float16", array.shape, array.astype(np.float16)
                )
                dequantizing.append(fb.OperatorSpec("DEQUANTIZE", [graph.add(half)], [weights.tensor_index]))
                graph.tensors[weights.tensor_index].buffer = None
        graph.operators[:0] = dequantizing


def _find_weights(graph: fb.SubGraph, builtins: Sequence[str]) -> List[_Weights]:
    """Return the constants that operators read only as weights, with the axis of their output channels.

    They are sorted by tensor index. A constant is left out if

    - it is an output,
    - an op that is not in `builtins` reads it, or an op reads it in another way than as weights (see `_channel_axis`),
    - its readers have different channel axes.
    """
    axes: Dict[int, Optional[int]] = dict.fromkeys(graph.outputs)
    for operator in graph.operators:
        for position, index in enumerate(operator.inputs):
            if index is not None and graph.tensors[index].buffer is not None:
                axis = _channel_axis(graph, operator, position) if operator.builtin in builtins else None
                axes[index] = axis if axes.setdefault(index, axis) == axis else None
    return [_Weights(index, axis) for index, axis in sorted(axes.items()) if axis is not None]


def _channel_axis(graph: fb.SubGraph, operator: fb.OperatorSpec, position: int) -> Optional[int]:
    """Return the axis of the output channels of constant weights, the input of `operator` at `position`.

    The input must be a constant. Returns None if

    - the constant is not float32, has fewer than 64 elements, or has an element that is not finite,
    - the op does not have its weights at `position` (for BATCH_MATMUL, the weights are the second operand),
    - the operator is a GATHER along another axis than 0.
    """
    tensor = graph.tensors[operator.inputs[position] or 0]
    array = np.asarray(tensor.buffer)
    if tensor.dtype != "float32" or array.size < _MIN_ELEMENTS or not np.isfinite(array).all():
        return None
    if operator.builtin == "BATCH_MATMUL" and position == 1:
        return array.ndim - (2 if operator.options.get("adj_y") else 1)
    if operator.builtin == "GATHER" and operator.options.get("axis"):
        return None
    if operator.builtin in _GATES:
        return 0 if position in _GATES[operator.builtin] else None
    weights_position, axis = _WEIGHTS.get(operator.builtin, (-1, 0))
    return axis if position == weights_position else None


def _pack_integers(
    graph: fb.SubGraph, weights: _Weights, array: np.ndarray, kind: str, block: Optional[int]
) -> List[fb.OperatorSpec]:
    """Append a constant with the integers of the weights, and return the new operators that dequantise this constant.

    `array`: the elements of the weights. `kind`: "weights-int8" or "weights-int4". `block`: the number of weights that
    share a scale. Each channel has a scale if `block` is None or does not divide a row into several blocks.
    Each channel has a scale, too, if the channels are not along axis 0.

    The operators are a DEQUANTIZE and, for blocks, a RESHAPE after it. They write the tensor of the float32 weights,
    which loses its buffer. They are not inserted into the subgraph.

    Raises UnsupportedError for blocks if the runtime does not compute them.
    """
    tensor, name = graph.tensors[weights.tensor_index], _packed_name(graph, weights.tensor_index)
    axis, inner = weights.axis, array.size // array.shape[0]
    is_blocked = block is not None and axis == 0 and block < inner and inner % block == 0
    if is_blocked and block is not None:
        check_blocks()
        array, axis = array.reshape(-1, block), 0
    integers, scale = round_to_integers(array, axis, _LARGEST[kind])
    dtype = "int4" if kind == "weights-int4" else "int8"
    packed = pack_nibbles(integers) if dtype == "int4" else integers
    quantization = fb.Quantization(scale.tolist(), [0] * scale.size, axis)
    constant = graph.add(fb.TensorSpec(name, dtype, array.shape, packed, quantization=quantization))
    shape = tensor.shape
    tensor.buffer = None
    if not is_blocked:
        return [fb.OperatorSpec("DEQUANTIZE", [constant], [weights.tensor_index])]
    rows = graph.add(fb.TensorSpec(name + "/rows", "float32", array.shape))
    sizes = graph.add(fb.TensorSpec(name + "/shape", "int32", (len(shape),), np.asarray(shape, np.int32)))
    return [
        fb.OperatorSpec("DEQUANTIZE", [constant], [rows]),
        fb.OperatorSpec("RESHAPE", [rows, sizes], [weights.tensor_index]),
    ]


def round_to_integers(
    array: np.ndarray, axis: int, largest: int, scale_type: Type[Any] = np.float32
) -> Tuple[np.ndarray, np.ndarray]:
    """Return (int8 integers, scales): array ~ integers * scales, with one scale for each index of `axis`.

    The integers have the shape of `array` and are between -largest and largest. If `largest` is below 127, some scales
    that clip large elements are also tried. For each index of `axis`, the scale with the least squared error is taken.
    The scales are a float32 vector of numbers that `scale_type` represents exactly.
    """
    other_axes = tuple(k for k in range(array.ndim) if k != axis)
    highest = np.abs(array).max(axis=other_axes, keepdims=True)
    best: Any = None
    for cut in _CLIPPING if largest < 127 else _CLIPPING[:1]:
        scale = (np.where(highest > 0, highest, 1) * np.float32(cut / largest)).astype(scale_type).astype(np.float32)
        scale = np.maximum(scale, np.finfo(scale_type).tiny)
        integers = np.clip(np.rint(array / scale), -largest, largest)
        error = np.square(integers * scale - array).sum(axis=other_axes, keepdims=True)
        if best is None:
            best = integers, scale, error
        else:
            is_better = error < best[2]
            best = tuple(np.where(is_better, new, old) for new, old in zip((integers, scale, error), best))
    return best[0].astype(np.int8), best[1].ravel()


def pack_nibbles(integers: np.ndarray) -> np.ndarray:
    """Pack int8 integers between -8 and 7 into a vector of uint8, two per byte, the first in the low four bits.

    After an odd number of integers, the last high bits are 0.
    """
    flat = np.append(integers.ravel(), np.zeros(integers.size % 2, np.int8)).view(np.uint8) & 15
    return flat[::2] | flat[1::2] << 4


def _packed_name(graph: fb.SubGraph, index: int) -> str:
    return graph.tensors[index].name + "/packed"

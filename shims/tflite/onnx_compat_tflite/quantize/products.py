"""Dynamic quantisation: FULLY_CONNECTED(x, float32 weights)  =>  FULLY_CONNECTED(x, int4 weights).

The kernel quantises the float32 input x to int8 in each run. The weights have a scale for each row (output channel), or for
each block of a row. The file stores the scales of blocks as a float16 tensor.
"""

from typing import List, Optional

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import multiplies_int4
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.quantize import weights
from onnx_compat_tflite.quantize.schemes import PRODUCTS

__all__ = ["pack"]

_LARGEST = 7
#: The kernels accept block lengths that are a multiple of this.
_BLOCK_UNIT = 32


def pack(model: fb.ModelSpec, block: Optional[int], kernels: Kernels) -> None:
    """Store the weights of FULLY_CONNECTED as int4, and other weights as int8 with a DEQUANTIZE; modify the model.

    Weights of FULLY_CONNECTED that int4 cannot store (see `_is_packable`) are stored as int8, if int8 can.

    `block`: the number of int4 weights per scale, a multiple of 32. If it is None, or if the length of the rows is no
    multiple of it, each row has a single scale.

    Raises UnsupportedError if

    - `block` is no multiple of 32,
    - the runtime has no kernel for int4 weights, or the kernel computes wrong results.
    """
    if block is not None and block % _BLOCK_UNIT:
        raise UnsupportedError(
            "the kernels of '%s' accept no blocks of %d" % (PRODUCTS, block), hint="give a multiple of %d" % _BLOCK_UNIT
        )
    if not kernels.has("FULLY_CONNECTED", 13):
        raise UnsupportedError(
            "FULLY_CONNECTED of the TFLite runtime here takes no int4", hint="use 'dynamic', or a newer runtime"
        )
    if not all(multiplies_int4(block is not None, plain) for plain in (False, True)):
        raise UnsupportedError(
            "the TFLite runtime here multiplies weights of int4%s wrongly" % (" in blocks" if block else ""),
            hint="use 'weights-int4', or LiteRT 2.1 and newer",
        )
    for graph in model.subgraphs:
        for index in _packable_weights(graph):
            _pack_weights(graph, index, block)
    weights.store(model, "weights-int8", None, kernels)


def _packable_weights(graph: fb.SubGraph) -> List[int]:
    """Return the sorted tensor indices of the weights of FULLY_CONNECTED that can be quantised to int4.

    Such weights are float32 matrices (see `_is_packable`). Weights are left out if an operator also reads them in
    another way, or if they are outputs of the subgraph.
    """
    products: List[fb.OperatorSpec] = [op for op in graph.operators if op.builtin == "FULLY_CONNECTED"]
    other_uses = {index for op in graph.operators if op not in products for index in op.inputs}
    other_uses.update(index for op in products for position, index in enumerate(op.inputs) if position != 1)
    weight_indices = sorted({op.inputs[1] or 0 for op in products} - other_uses - set(graph.outputs))
    return [index for index in weight_indices if _is_packable(graph.tensors[index])]


def _is_packable(tensor: fb.TensorSpec) -> bool:
    """Whether int4 can store the tensor as weights: a float32 constant of rank 2 with at least 32 elements.

    The elements must be finite when rounded to float16. Rows must have an even length, because a byte holds two int4
    numbers.
    """
    array = tensor.buffer
    if array is None or tensor.dtype != "float32" or len(tensor.shape) != 2 or tensor.shape[1] % 2:
        return False
    with np.errstate(over="ignore"):
        return np.size(array) >= _BLOCK_UNIT and bool(np.isfinite(np.asarray(array, np.float16)).all())


def _pack_weights(graph: fb.SubGraph, index: int, block: Optional[int]) -> None:
    tensor = graph.tensors[index]
    array = np.asarray(tensor.buffer)
    length = block if block is not None and array.shape[1] % block == 0 else array.shape[1]
    is_blocked = length == block
    integers, scale = weights.round_to_integers(
        array.reshape(-1, length), 0, _LARGEST, np.float16 if is_blocked else np.float32
    )
    if is_blocked:
        scales = scale.astype(np.float16).reshape(len(array), -1)
        scales_index = graph.add(fb.TensorSpec(tensor.name + "/scales", "float16", scales.shape, scales))
        details = {"scales": scales_index, "zero_points": -1, "block_size": length}
        tensor.quantization = fb.Quantization(details=("BlockwiseQuantization", details))
    else:
        tensor.quantization = fb.Quantization(scale.tolist(), [0] * scale.size, 0)
    tensor.dtype, tensor.buffer = "int4", weights.pack_nibbles(integers)

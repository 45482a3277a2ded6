"""Products with weights of int4, which kernels multiply as they are: the other factor becomes int8, row by row, at each run.

A scale serves a row of the weights, or a block of a row: then the format keeps the scales as float16, in a tensor of their own.
"""

from typing import Any, List, Optional

import numpy as np

from onnx_compat.shim import UnsupportedError
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.features import multiplies_int4
from onnx_compat_tflite.kernels import Kernels
from onnx_compat_tflite.quantize import weights

__all__ = ["KIND", "pack"]

KIND = "dynamic-int4"

_LARGEST = 7
#: What the lengths of blocks are multiples of.
_UNIT = 32


def pack(model: fb.ModelSpec, block: Optional[int], kernels: Kernels) -> None:
    """The weights of FULLY_CONNECTED as int4; others are stored as int8, and computed with as float32."""
    if block is not None and block % _UNIT:
        raise UnsupportedError(
            "the kernels of '%s' know no blocks of %d" % (KIND, block), hint="give a multiple of %d" % _UNIT
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
        for place in _factors(graph):
            _pack(graph, place, block)
    weights.store(model, "weights-int8", None, kernels)


def _factors(graph: fb.SubGraph) -> List[int]:
    """The weights that only FULLY_CONNECTED reads, as such. Two go into a byte, so that a row has an even number."""
    readers: List[fb.OperatorSpec] = [one for one in graph.operators if one.builtin == "FULLY_CONNECTED"]
    elsewhere = {index for one in graph.operators if one not in readers for index in one.inputs}
    elsewhere.update(index for one in readers for at, index in enumerate(one.inputs) if at != 1)
    found = sorted({one.inputs[1] or 0 for one in readers} - elsewhere - set(graph.outputs))
    return [place for place in found if _fits(graph.tensors[place])]


def _fits(tensor: fb.TensorSpec) -> bool:
    array = tensor.buffer
    if array is None or tensor.dtype != "float32" or len(tensor.shape) != 2 or tensor.shape[1] % 2:
        return False
    with np.errstate(over="ignore"):
        return np.size(array) >= _UNIT and bool(np.isfinite(np.asarray(array, np.float16)).all())


def _pack(graph: fb.SubGraph, place: int, block: Optional[int]) -> None:
    tensor = graph.tensors[place]
    array = np.asarray(tensor.buffer)
    length = block if block is not None and array.shape[1] % block == 0 else array.shape[1]
    blocked = length == block
    integers, scale = weights.rounded(array.reshape(-1, length), 0, _LARGEST, np.float16 if blocked else np.float32)
    if blocked:
        scales = scale.astype(np.float16).reshape(len(array), -1)
        held = graph.add(fb.TensorSpec(tensor.name + "/scales", "float16", scales.shape, scales))
        details: Any = {"scales": held, "zero_points": -1, "block_size": length}
        tensor.quantization = fb.Quantization(details=("BlockwiseQuantization", details))
    else:
        tensor.quantization = fb.Quantization(scale.tolist(), [0] * scale.size, 0)
    tensor.dtype, tensor.buffer = "int4", weights.nibbles(integers)

"""Find the operators that the emitter composes for QuantizeLinear and DequantizeLinear with per-tensor parameters.

    CAST(MINIMUM(MAXIMUM(ROUND(x / scale) + zero, low), high))  is  QuantizeLinear(x)
    (CAST(q) - zero) * scale                                    is  DequantizeLinear(q)

For runtimes whose MAXIMUM loses NaN, the emitter adds a SELECT_V2 before the last CAST, which restores NaN.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.parameters import QuantParams, have_common_type
from onnx_compat_tflite.passes.rewriter import GraphRewriter, is_unfused

__all__ = ["Dequantized", "Quantized", "find_dequantized", "find_quantized"]

_ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


class Quantized(NamedTuple):
    """A QuantizeLinear with `parameters`, of the float tensor `source`. The operator `last` writes the integers."""

    source: int
    parameters: QuantParams
    last: fb.OperatorSpec


class Dequantized(NamedTuple):
    """A DequantizeLinear with `parameters`, of the integer tensor `source`. The operator `last` writes the floats."""

    source: int
    parameters: QuantParams
    last: fb.OperatorSpec


def find_quantized(graph: GraphRewriter) -> Dict[int, Quantized]:
    """Return a dict integer tensor -> `Quantized`: the QuantizeLinears of a subgraph, by the tensors that they write.

    A QuantizeLinear is CAST(MINIMUM(MAXIMUM(ROUND(x / scale) + zero, low), high)); a SELECT_V2 before the CAST may
    restore NaN. Without an ADD, the zero point is 0. The parameters are per tensor, with a positive scale, and integer
    kernels accept them (see `_has_kernel`). The float tensor is float32.
    """
    quantized_tensors = {}
    for last in graph.operators:
        dtype = graph.tensor(last.outputs[0]).dtype if last.builtin == "CAST" else ""
        if dtype in _ENDS:
            quantized = _match_quantized(graph, last, dtype)
            if quantized is not None:
                quantized_tensors[last.outputs[0]] = quantized
    return quantized_tensors


def _match_quantized(graph: GraphRewriter, last: fb.OperatorSpec, dtype: str) -> Optional[Quantized]:
    low, high = _ENDS[dtype]
    clamped = _source_of_cast(graph, last.outputs[0])
    guard = graph.producer(clamped, "SELECT_V2")  # restores NaN
    inner = _number_and_tensor(graph, clamped if guard is None else guard.inputs[2], "MINIMUM")
    if inner is None or inner[0] != high:
        return None
    inner = _number_and_tensor(graph, inner[1], "MAXIMUM")
    if inner is None or inner[0] != low:
        return None
    shifted = _number_and_tensor(graph, inner[1], "ADD")
    zero, index = (0.0, inner[1]) if shifted is None else shifted
    nearest = graph.producer(index, "ROUND")
    first = None if nearest is None else graph.producer(nearest.inputs[0], "DIV")
    if first is None or first.inputs[0] is None or not is_unfused(first):
        return None
    scale = graph.number(first.inputs[1])
    if scale is None or not scale > 0 or zero != int(zero) or graph.tensor(first.inputs[0]).dtype != "float32":
        return None
    parameters = QuantParams(scale, int(zero), dtype)
    return Quantized(first.inputs[0], parameters, last) if _has_kernel(parameters) else None


def find_dequantized(graph: GraphRewriter) -> Dict[int, Dequantized]:
    """Return a dict float tensor -> `Dequantized`: the DequantizeLinears of a subgraph, by the tensors that they write.

    A DequantizeLinear is MUL(CAST(q), scale), or MUL(CAST(SUB(CAST(q), zero)), scale). The parameters are per tensor,
    with a positive scale, and integer kernels accept them (see `_has_kernel`). The result is float32.
    """
    dequantized_tensors = {}
    for last in graph.operators:
        dequantized = _match_dequantized(graph, last) if last.builtin == "MUL" else None
        if dequantized is not None:
            dequantized_tensors[last.outputs[0]] = dequantized
    return dequantized_tensors


def _match_dequantized(graph: GraphRewriter, last: fb.OperatorSpec) -> Optional[Dequantized]:
    scaled = _number_and_tensor(graph, last.outputs[0], "MUL")
    if scaled is None or not scaled[0] > 0:
        return None
    scale, index = scaled
    source, zero = _source_of_cast(graph, index), 0
    shifted = graph.producer(source, "SUB")
    if shifted is not None and is_unfused(shifted):
        shift = graph.number(shifted.inputs[1])
        if shift is None:
            return None
        zero, source = int(shift), _source_of_cast(graph, shifted.inputs[0])
    if source is None or graph.tensor(last.outputs[0]).dtype != "float32":
        return None
    parameters = QuantParams(scale, zero, graph.tensor(source).dtype)
    return Dequantized(source, parameters, last) if _has_kernel(parameters) else None


def _has_kernel(parameters: QuantParams) -> bool:
    """Whether integer kernels accept the parameters.

    True for int8 and uint8 with any zero point, and for int16 with a zero point of 0.
    """
    return parameters.dtype in _ENDS and have_common_type(parameters.signed)


def _number_and_tensor(graph: GraphRewriter, index: Optional[int], builtin: str) -> Optional[Tuple[float, int]]:
    """Return (number, other operand) of the op `builtin` that writes the tensor `index`, if an operand is a number.

    A number is a constant with a single element. It may be either operand. Returns None if

    - the tensor is omitted (None), or no op `builtin` writes it,
    - the op has a fused activation,
    - neither operand is a constant with a single element.
    """
    op = graph.producer(index, builtin)
    if op is None or not is_unfused(op):
        return None
    sides: List[Optional[int]] = list(op.inputs)
    for constant, tensor in (sides, sides[::-1]):
        number = graph.number(constant)
        if number is not None and tensor is not None:
            return number, tensor
    return None


def _source_of_cast(graph: GraphRewriter, index: Optional[int]) -> Optional[int]:
    """Return the input of the CAST that writes the tensor `index`.

    Returns None if no CAST writes the tensor, and if `index` has the value None.
    """
    last = graph.producer(index, "CAST")
    return None if last is None else last.inputs[0]

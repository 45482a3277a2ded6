"""QuantizeLinear and DequantizeLinear of one scale and one zero point, as the emitter composes them.

Some runtimes are asked whether a number is NaN where it is held to its bounds.
"""

from typing import Dict, List, NamedTuple, Optional, Tuple

from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.passes.integers.grid import Grid, centred
from onnx_compat_tflite.passes.view import View

__all__ = ["Dequantized", "Quantized", "dequantized", "quantized"]

_ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


class Quantized(NamedTuple):
    """Floats that become integers; `last` is the operator that writes these."""

    source: int
    grid: Grid
    first: fb.OperatorSpec
    last: fb.OperatorSpec


class Dequantized(NamedTuple):
    """Integers that become floats."""

    source: int
    grid: Grid
    last: fb.OperatorSpec


def quantized(view: View) -> Dict[int, Quantized]:
    """Of a tensor of integers: CAST(MINIMUM(MAXIMUM(ROUND(x / scale) + zero))), to the ends of its type."""
    found = {}
    for last in view.graph.operators:
        dtype = view.graph.tensors[last.outputs[0]].dtype if last.builtin == "CAST" else ""
        if dtype in _ENDS:
            one = _quantized(view, last, dtype)
            if one is not None:
                found[last.outputs[0]] = one
    return found


def _quantized(view: View, last: fb.OperatorSpec, dtype: str) -> Optional[Quantized]:
    low, high = _ENDS[dtype]
    held = _cast(view, last.outputs[0])
    guard = view.writer(held, "SELECT_V2")  # NaN becomes no integer in particular
    inner = _beside(view, held if guard is None else guard.inputs[2], "MINIMUM")
    if inner is None or inner[0] != high:
        return None
    inner = _beside(view, inner[1], "MAXIMUM")
    if inner is None or inner[0] != low:
        return None
    shifted = _beside(view, inner[1], "ADD")
    zero, index = (0.0, inner[1]) if shifted is None else shifted
    nearest = view.writer(index, "ROUND")
    first = None if nearest is None else view.writer(nearest.inputs[0], "DIV")
    if first is None or first.inputs[0] is None or not _plain(first):
        return None
    scale = view.number(first.inputs[1])
    if scale is None or not scale > 0 or zero != int(zero) or view.graph.tensors[first.inputs[0]].dtype != "float32":
        return None
    grid = Grid(scale, int(zero), dtype)
    return Quantized(first.inputs[0], grid, first, last) if _is_known(grid) else None


def dequantized(view: View) -> Dict[int, Dequantized]:
    """Of a tensor of floats: CAST(CAST(q) - zero) * scale."""
    found = {}
    for last in view.graph.operators:
        one = _dequantized(view, last) if last.builtin == "MUL" else None
        if one is not None:
            found[last.outputs[0]] = one
    return found


def _dequantized(view: View, last: fb.OperatorSpec) -> Optional[Dequantized]:
    scaled = _beside(view, last.outputs[0], "MUL")
    if scaled is None or not scaled[0] > 0:
        return None
    scale, index = scaled
    source, zero = _cast(view, index), 0
    shifted = view.writer(source, "SUB")
    if shifted is not None and _plain(shifted):
        shift = view.number(shifted.inputs[1])
        if shift is None:
            return None
        zero, source = int(shift), _cast(view, shifted.inputs[0])
    if source is None or view.graph.tensors[last.outputs[0]].dtype != "float32":
        return None
    grid = Grid(scale, zero, view.graph.tensors[source].dtype)
    return Dequantized(source, grid, last) if _is_known(grid) else None


def _is_known(grid: Grid) -> bool:
    """Whether kernels have such numbers: no kernel has those of 16 bits with a zero point."""
    return grid.dtype in _ENDS and centred(grid.signed)


def _beside(view: View, index: Optional[int], builtin: str) -> Optional[Tuple[float, int]]:
    """Of an operator on a tensor and a number, both."""
    operator = view.writer(index, builtin)
    if operator is None or not _plain(operator):
        return None
    sides: List[Optional[int]] = list(operator.inputs)
    for one, other in (sides, sides[::-1]):
        number = view.number(one)
        if number is not None and other is not None:
            return number, other
    return None


def _cast(view: View, index: Optional[int]) -> Optional[int]:
    """What was cast to a tensor."""
    last = view.writer(index, "CAST")
    return None if last is None else last.inputs[0]


def _plain(operator: fb.OperatorSpec) -> bool:
    return bool(operator.options.get("fused_activation_function", "NONE") == "NONE")

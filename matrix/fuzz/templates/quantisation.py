"""Templates of quantised operators: scales are powers of two, so that rounding is exact."""

from __future__ import annotations

from typing import Any, Dict, Optional, Sequence

import numpy as np

from matrix.fuzz.draft import GRID, MOVE, STEP
from matrix.fuzz.draw import Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Rejected, Value

_SCALES = (0.125, 0.25, 0.5)
_MOVES = frozenset("Flatten Identity Relu Reshape Slice Squeeze Transpose Unsqueeze".split())
"""Operators that round nothing on integers. Concat is not among them: its kernel rescales the inputs."""


def scale(draw: Draw, count: Optional[int] = None) -> Value:
    """Add a constant of a random scale, and return it. With `count`, it is a vector of scales; None: a scalar."""
    return draw.constant([draw.choice(_SCALES) for _ in range(count)] if count else draw.choice(_SCALES), "float32")


def zero(draw: Draw, dtype: str, count: Optional[int] = None) -> Value:
    """Add a constant of a random zero point, and return it. With `count`, it is a vector; None: a scalar."""
    values = draw.data((count or 1,), dtype, 0 if dtype == "uint8" else -3, 128 if dtype == "uint8" else 3)
    return draw.constant(values if count else values[0], dtype)


def quantize_value(draw: Draw, inputs: Sequence[Value], axis: int = 1) -> Value:
    """Add a QuantizeLinear, and return its output. `inputs`: the tensor, the scale, and optionally the zero point.

    Raises Rejected if an integer kernel of TFLite may compute the tensor, and an element divided by its scale is midway
    between two integers. The kernel rounds it up, ONNX to even.
    """
    x, factors = inputs[:2]
    if x.array.dtype.kind == "f" and _is_computed_from_integers(draw, x):
        for array, factor in zip(x.arrays, factors.arrays):
            along = (
                factor.reshape([-1 if k == axis % array.ndim else 1 for k in range(array.ndim)])
                if factor.ndim
                else factor
            )
            if (np.abs(array / along % 1) == 0.5).any():
                raise Rejected("tie")
    return draw.node("QuantizeLinear", inputs, STEP, axis=axis if axis != 1 else None)


def _is_computed_from_integers(draw: Draw, x: Value) -> bool:
    """Whether a value is computed from the output of a DequantizeLinear by an operator that is not in `_MOVES`."""
    producers = {name: node for node in draw.draft.nodes for name in node.outputs}
    pending, computed = [(x.name, False)], False
    while pending and not computed:
        name, is_computed = pending.pop()
        node = producers.get(name)
        if node is not None and node.operator == "DequantizeLinear":
            computed = is_computed
        elif node is not None:
            pending += [(operand, is_computed or node.operator not in _MOVES) for operand in node.inputs]
    return computed


@template("QuantizeLinear", 2.5)
def quantize(draw: Draw) -> None:
    """Add a QuantizeLinear of an exact value, with one scale or a scale for each index of an axis.

    Often, a DequantizeLinear of the result follows.
    """
    x = draw.pick(("float32",), range(1, 5), exact=True)
    dtype = draw.choice(["uint8", "int8"])
    attributes, count = _axis(draw, x)
    inputs = [x, scale(draw, count)]
    if dtype == "int8" or draw.chance(0.8):
        inputs.append(zero(draw, dtype, count))
    quantized = quantize_value(draw, inputs, **attributes)
    if draw.chance(0.6):
        draw.node("DequantizeLinear", [quantized, *inputs[1:]], MOVE, **attributes)


@template("DequantizeLinear", 1.5)
def dequantize(draw: Draw) -> None:
    """Add a DequantizeLinear, with one scale or a scale for each index of an axis."""
    x = draw.pick(("uint8", "int8"), range(1, 5))
    attributes, count = _axis(draw, x)
    draw.node("DequantizeLinear", [x, scale(draw, count), zero(draw, x.dtype, count)], MOVE, **attributes)


def _axis(draw: Draw, x: Value) -> Any:
    """Return (attributes, number of scales): ({}, None) for one scale, else the attribute `axis` and the axis's size.

    The default axis 1 is sometimes left out of the attributes. Raises Rejected if the size of the axis is open.
    """
    if draw.chance(0.6) or x.rank < 2:
        return {}, None
    axis = draw.integer(0, x.rank - 1)
    count = x.dims[axis]
    if count is None:
        raise Rejected("open axis")
    given: Dict[str, Any] = {"axis": axis} if axis != 1 or draw.chance(0.5) else {}
    return given, count


@template("QDQ-Conv", 3)
def quantized_conv(draw: Draw) -> None:
    """Add a Conv or a MatMul, sometimes with a Relu, between DequantizeLinear and QuantizeLinear nodes.

    Quantisers write it like this.
    """
    x = draw.pick(("float32",), [2, 4], exact=True, where=lambda value: value.dims[1] is not None)
    dtype = draw.choice(["uint8", "int8"])
    in_scale, in_zero = scale(draw), zero(draw, dtype)
    quantized = quantize_value(draw, [x, in_scale, in_zero])
    restored = draw.node("DequantizeLinear", [quantized, in_scale, in_zero], MOVE)
    outputs = draw.integer(1, 3)
    shape = (outputs, x.shape[1], 2, 2) if x.rank == 4 else (x.shape[1], outputs)
    stored = draw.draft.add_initializer(draw.data(shape, "int8", -8, 8))
    kernel = draw.node("DequantizeLinear", [stored, scale(draw), draw.constant(0, "int8")], MOVE)
    product = draw.node("Conv" if x.rank == 4 else "MatMul", [restored, kernel], GRID)
    if draw.chance(0.5):
        product = draw.node("Relu", [product], MOVE)
    out_scale, out_zero = draw.constant(draw.choice([0.5, 1.0]), "float32"), zero(draw, dtype)
    requantized = quantize_value(draw, [product, out_scale, out_zero])
    draw.node("DequantizeLinear", [requantized, out_scale, out_zero], MOVE)


@template("QLinearMatMul", 0.7)
def qlinear_matmul(draw: Draw) -> None:
    """Add a QLinearMatMul with a constant second operand."""
    x = draw.pick(("uint8", "int8"), [2, 3], where=lambda value: value.dims[-1] is not None)
    y = draw.draft.add_initializer(draw.data((x.shape[-1], draw.integer(1, 3)), x.dtype, -8, 8))
    inputs = [x, scale(draw), zero(draw, x.dtype), y, scale(draw), zero(draw, x.dtype)]
    draw.node("QLinearMatMul", [*inputs, draw.constant(draw.choice([0.5, 1.0]), "float32"), zero(draw, x.dtype)], STEP)


@template("QLinearConv", 0.7)
def qlinear_conv(draw: Draw) -> None:
    """Add a QLinearConv with a constant kernel, sometimes with pads or a bias."""
    x = draw.pick(("uint8", "int8"), [4], where=lambda value: value.dims[1] is not None)
    outputs = draw.integer(1, 3)
    kernel = draw.draft.add_initializer(
        draw.data((outputs, x.shape[1], 2, 2), "int8" if x.dtype == "int8" else "uint8", -8, 8)
    )
    inputs = [x, scale(draw), zero(draw, x.dtype), kernel, scale(draw), draw.constant(0, kernel.dtype)]
    inputs += [draw.constant(draw.choice([0.5, 1.0]), "float32"), zero(draw, x.dtype)]
    if draw.chance(0.5):
        inputs.append(draw.draft.add_initializer(draw.data((outputs,), "int32", -50, 50)))
    draw.node("QLinearConv", inputs, STEP, pads=draw.choice([None, [0, 1, 1, 0]]))


@template("MatMulInteger", 0.7)
def matmul_integer(draw: Draw) -> None:
    """Add a MatMulInteger with a constant second operand, sometimes with a zero point of the first."""
    x = draw.pick(("uint8", "int8"), [2, 3], where=lambda value: value.dims[-1] is not None)
    y = draw.draft.add_initializer(draw.data((x.shape[-1], draw.integer(1, 3)), draw.choice(["uint8", "int8"]), -8, 8))
    inputs = [x, y, zero(draw, x.dtype)] if draw.chance(0.6) else [x, y]
    draw.node("MatMulInteger", inputs, MOVE)


@template("ConvInteger", 0.5)
def conv_integer(draw: Draw) -> None:
    """Add a ConvInteger with a constant kernel, sometimes with a zero point of the operand."""
    x = draw.pick(("uint8",), [4], where=lambda value: value.dims[1] is not None)
    kernel = draw.draft.add_initializer(draw.data((draw.integer(1, 3), x.shape[1], 2, 2), "uint8", 0, 8))
    draw.node("ConvInteger", [x, kernel, zero(draw, "uint8")] if draw.chance(0.6) else [x, kernel], MOVE)

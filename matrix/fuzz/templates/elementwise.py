"""Templates of elementwise arithmetic and activations."""

from __future__ import annotations

from typing import Any, Callable, Dict, Tuple

import numpy as np

from matrix.fuzz.draft import GRID, MOVE, SMOOTH, STEP
from matrix.fuzz.draw import FLOATS, INTEGERS, Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Value

Range = Tuple[float, float]
#: Operator -> the range of its operand, its attributes with their ranges, and the first opset.
_SMOOTH: Dict[str, Tuple[Range, Dict[str, Range], int]] = {
    "Exp": ((-20, 8), {}, 13),
    "Log": ((0.1, 1e4), {}, 13),
    "Sqrt": ((0.1, 1e4), {}, 13),
    "Reciprocal": ((0.1, 1e4), {}, 13),
    "Sigmoid": ((-60, 60), {}, 13),
    "Tanh": ((-60, 60), {}, 13),
    "Erf": ((-60, 60), {}, 13),
    "Sin": ((-50, 50), {}, 13),
    "Cos": ((-50, 50), {}, 13),
    "Tan": ((-1.3, 1.3), {}, 13),
    "Asin": ((-0.9, 0.9), {}, 13),
    "Acos": ((-0.9, 0.9), {}, 13),
    "Atan": ((-1e4, 1e4), {}, 13),
    "Sinh": ((-8, 8), {}, 13),
    "Cosh": ((-8, 8), {}, 13),
    "Asinh": ((-1e3, 1e3), {}, 13),
    "Acosh": ((1.1, 1e3), {}, 13),
    "Atanh": ((-0.9, 0.9), {}, 13),
    "Softplus": ((-30, 30), {}, 13),
    "Softsign": ((-1e4, 1e4), {}, 13),
    "Elu": ((-30, 30), {"alpha": (0.25, 2)}, 13),
    "Selu": ((-30, 30), {}, 13),
    "Celu": ((-30, 30), {"alpha": (0.25, 2)}, 13),
    "HardSigmoid": ((-1e3, 1e3), {"alpha": (0.1, 0.4), "beta": (0.2, 0.6)}, 13),
    "HardSwish": ((-50, 50), {}, 14),
    "Mish": ((-30, 30), {}, 18),
    "Gelu": ((-30, 30), {}, 20),
    "Swish": ((-30, 30), {}, 24),
}


def within(low: float, high: float) -> Callable[[Value], bool]:
    """Return a predicate: whether all elements of a value are from `low` to `high`, in each world."""
    return lambda value: all(bool(((array >= low) & (array <= high)).all()) for array in value.arrays)


def _register(operator: str, limits: Range, attributes: Dict[str, Range], since: int) -> None:
    """Register the template of an elementwise operator that rounds. `limits`: the range of its operand.

    `attributes`: name -> range; each attribute is sometimes present. `since`: the first opset.
    """

    @template(operator, 0.4, since)
    def smooth(draw: Draw) -> None:
        x = draw.pick(("float32", "float32", "float64") if operator != "Celu" else ("float32",), where=within(*limits))
        given: Dict[str, Any] = {
            name: round(draw.rng.uniform(*bounds), 2) for name, bounds in attributes.items() if draw.chance(0.6)
        }
        if operator == "Gelu" and draw.chance(0.5):
            given["approximate"] = "tanh"
        draw.node(operator, [x], SMOOTH, **given)


for _operator, _entry in _SMOOTH.items():
    _register(_operator, *_entry)


@template("Add", 3)
def add(draw: Draw) -> None:
    """Add a sum of two broadcast operands."""
    _binary(draw, "Add")


@template("Sub", 2)
def sub(draw: Draw) -> None:
    """Add a difference of two broadcast operands."""
    _binary(draw, "Sub")


@template("Mul", 3)
def mul(draw: Draw) -> None:
    """Add a product of two broadcast operands."""
    _binary(draw, "Mul")


def _binary(draw: Draw, operator: str) -> None:
    """Add an operator of two broadcast operands in a random order. Its result is exact if both are on the grid."""
    x = draw.pick((*FLOATS, "int64", "int32"))
    y = draw.broadcastable(x)
    draw.node(operator, [x, y] if draw.chance(0.7) else [y, x], GRID)


@template("Div", 2)
def div(draw: Draw) -> None:
    """Add a quotient; the divisor is from 1 to 4."""
    x = draw.pick((*FLOATS, "int64", "int32"))
    y = draw.broadcastable(x, low=1, high=4)
    # TensorFlow multiplies by the reciprocal of a constant, which is rounded even for a power of two.
    draw.node("Div", [x, y], SMOOTH if x.is_float else MOVE)


@template("Mod")
def mod(draw: Draw) -> None:
    """Add a Mod of exact operands. For floats, `fmod` is 1; for integers, it is 0, 1 or absent."""
    x = draw.pick((*FLOATS, "int64", "int32"))
    y = draw.broadcastable(x, low=1, high=5)
    fmod = 1 if x.is_float else draw.choice([0, 1, None])
    draw.node("Mod", [x, y], STEP, fmod=fmod)


@template("Pow")
def pow_(draw: Draw) -> None:
    """Add a Pow: sometimes a positive base with exponents from -1 to 2, else a whole exponent from 0 to 3."""
    x = draw.pick()
    if within(0.1, 20)(x) and draw.chance(0.5):
        draw.node("Pow", [x, draw.broadcastable(x, low=-1, high=2)], SMOOTH)
    else:
        draw.node("Pow", [x, draw.constant(draw.choice([0, 1, 2, 3]), draw.choice([x.dtype, "int64"]))], SMOOTH)


@template("Max")
def maximum(draw: Draw) -> None:
    """Add a maximum or a minimum of one to three operands."""
    x = draw.pick((*FLOATS, "int64", "int32"))
    operands = [x, *(draw.broadcastable(x) for _ in range(draw.integer(0, 2)))]
    draw.node(draw.choice(["Max", "Min"]), operands, MOVE)


@template("Sum", 0.7)
def sum_(draw: Draw) -> None:
    """Add a Sum or a Mean of one to four operands."""
    x = draw.pick()
    operands = [x, *(draw.broadcastable(x) for _ in range(draw.integer(0, 3)))]
    draw.node("Sum", operands, GRID) if draw.chance(0.6) else draw.node("Mean", operands, SMOOTH)


@template("Neg")
def neg(draw: Draw) -> None:
    """Add a Neg or an Abs."""
    draw.node(draw.choice(["Neg", "Abs"]), [draw.pick((*FLOATS, "int64", "int32", "int8"))], MOVE)


@template("Relu", 2)
def relu(draw: Draw) -> None:
    """Add a Relu."""
    draw.node("Relu", [draw.pick((*FLOATS, "int32") if draw.opset >= 14 else FLOATS)], MOVE)


@template("LeakyRelu", 0.7)
def leaky_relu(draw: Draw) -> None:
    """Add a LeakyRelu. Its slope is a multiple of 1/4, or sometimes the default 0.01, whose products are rounded."""
    alpha = draw.choice([None, 0.5, 0.25, -0.5])
    draw.node("LeakyRelu", [draw.pick()], GRID if alpha else SMOOTH, alpha=alpha)


@template("PRelu", 0.7)
def prelu(draw: Draw) -> None:
    """Add a PRelu with a slope for each channel, or with slopes of any shape that broadcasts to the operand."""
    x = draw.pick()
    if x.rank >= 2 and x.dims[1] is not None and draw.chance(0.5):
        slope = draw.fresh([(x.dims[1], *([1] * (x.rank - 2)))] * len(x.shapes), x.dtype, -1, 1)
    else:
        slope = draw.broadcastable(x, low=-1, high=1)
    draw.node("PRelu", [x, slope], GRID)


@template("Clip", 1.5)
def clip(draw: Draw) -> None:
    """Add a Clip with one, two or no bounds; sometimes with the bounds 0 and 6 of Relu6."""
    x = draw.pick((*FLOATS, "int64", "int32"))
    low = draw.constant(draw.choice([0, 0, -1, -3]), x.dtype) if draw.chance(0.8) else None
    high = draw.constant(draw.choice([6, 6, 1, 2]), x.dtype) if draw.chance(0.8) else None
    draw.node("Clip", [x, low, high] if high else [x, low] if low else [x], MOVE)


@template("Round")
def round_(draw: Draw) -> None:
    """Add a Round, Floor, Ceil or Sign of an exact operand."""
    operator = draw.choice(["Round", "Floor", "Ceil", "Sign"])
    draw.node(operator, [draw.pick(exact=True)], STEP)


@template("Shrink", 0.5)
def shrink(draw: Draw) -> None:
    """Add a Shrink or a ThresholdedRelu of an exact operand."""
    x = draw.pick(("float32",), exact=True)
    if draw.chance(0.5):
        draw.node("Shrink", [x], STEP, lambd=draw.choice([0.5, 1.5]), bias=draw.choice([None, 0.5]))
    else:
        draw.node("ThresholdedRelu", [x], STEP, alpha=draw.choice([None, 0.5, 2.0]))


@template("Cast", 2)
def cast(draw: Draw) -> None:
    """Add a Cast between numbers and bools. A float becomes an integer or a bool only if it is exact and in range."""
    x = draw.pick((*FLOATS, *INTEGERS, "bool"))
    # In the body of a loop, later iterations have other values, which may exceed the range of a narrow type.
    target = draw.choice([*FLOATS, *INTEGERS, "bool"] if not draw.depth else [*FLOATS, "int64"])
    if x.is_float and target not in FLOATS:
        limits = np.iinfo(target) if target != "bool" else np.iinfo("int8")
        x = draw.pick(exact=True, where=within(max(limits.min, -1000), min(limits.max, 1000)))
    elif x.is_integer and target in INTEGERS:
        x = draw.pick(INTEGERS, where=within(np.iinfo(target).min, np.iinfo(target).max))
    draw.node("Cast", [x], MOVE, to=_number(target))


def _number(dtype: str) -> int:
    """Return the number of a dtype in onnx's TensorProto."""
    from matrix.fuzz.graphs import element_type

    return element_type(dtype)


@template("CastLike", 0.3, 15)
def cast_like(draw: Draw) -> None:
    """Add a CastLike of small integers or bools to the dtype of another value."""
    x = draw.pick((*INTEGERS, "bool"), where=within(0, 100))
    draw.node("CastLike", [x, draw.pick((*FLOATS, "int64", "int32"))], MOVE)


@template("Identity", 0.7)
def identity(draw: Draw) -> None:
    """Add an Identity, or a Dropout without training."""
    if draw.chance(0.6):
        draw.node("Identity", [draw.any()], MOVE)
    else:
        draw.node("Dropout", [draw.pick(("float32",))], MOVE)


@template("BitShift", 0.3)
def bit_shift(draw: Draw) -> None:
    """Add a BitShift of uint8 elements by 0 to 3 bits."""
    x = draw.pick(("uint8",))
    direction = draw.choice(["LEFT", "RIGHT"])
    draw.node("BitShift", [x, draw.constant(draw.integer(0, 3), "uint8")], MOVE, direction=direction)

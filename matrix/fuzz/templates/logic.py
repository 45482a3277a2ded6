"""Templates of comparisons, logic and selection."""

from __future__ import annotations

from matrix.fuzz.draft import MOVE, STEP
from matrix.fuzz.draw import FLOATS, INTEGERS, Draw
from matrix.fuzz.registry import template


@template("Less", 1.5)
def less(draw: Draw) -> None:
    """Add a comparison of exact operands."""
    x = draw.pick((*FLOATS, "int64", "int32"), exact=True)
    operators = ["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"]
    draw.node(draw.choice(operators), [x, draw.broadcastable(x)], STEP)


@template("And")
def and_(draw: Draw) -> None:
    """Add a logical operator."""
    x = draw.pick(("bool",))
    operator = draw.choice(["And", "Or", "Xor", "Not"])
    draw.node(operator, [x] if operator == "Not" else [x, draw.broadcastable(x)], MOVE)


@template("BitwiseAnd", 0.3, 18)
def bitwise(draw: Draw) -> None:
    """Add a bitwise operator."""
    x = draw.pick(INTEGERS)
    operator = draw.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    draw.node(operator, [x] if operator == "BitwiseNot" else [x, draw.broadcastable(x)], MOVE)


@template("Where", 1.5)
def where(draw: Draw) -> None:
    """Add a selection between two values."""
    x = draw.any()
    condition = draw.broadcastable(x, "bool")
    draw.node("Where", [condition, *draw.rng.sample([x, draw.broadcastable(x)], 2)], MOVE)


@template("IsNaN", 0.2)
def is_nan(draw: Draw) -> None:
    """Add a test for NaN or infinity, which no value is."""
    draw.node(draw.choice(["IsNaN", "IsInf"]), [draw.pick()], MOVE)

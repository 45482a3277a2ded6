"""Templates of comparisons, logic and selection."""

from __future__ import annotations

from matrix.fuzz.draft import MOVE, STEP
from matrix.fuzz.draw import FLOATS, INTEGERS, Draw
from matrix.fuzz.registry import template


@template("Less", 1.5)
def less(draw: Draw) -> None:
    """Add a Less, Greater, Equal, LessOrEqual or GreaterOrEqual of exact operands."""
    x = draw.pick((*FLOATS, "int64", "int32"), exact=True)
    operators = ["Less", "Greater", "Equal", "LessOrEqual", "GreaterOrEqual"]
    draw.node(draw.choice(operators), [x, draw.broadcastable(x)], STEP)


@template("And")
def and_(draw: Draw) -> None:
    """Add an And, Or, Xor or Not."""
    x = draw.pick(("bool",))
    operator = draw.choice(["And", "Or", "Xor", "Not"])
    draw.node(operator, [x] if operator == "Not" else [x, draw.broadcastable(x)], MOVE)


@template("BitwiseAnd", 0.3, 18)
def bitwise(draw: Draw) -> None:
    """Add a BitwiseAnd, BitwiseOr, BitwiseXor or BitwiseNot."""
    x = draw.pick(INTEGERS)
    operator = draw.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"])
    draw.node(operator, [x] if operator == "BitwiseNot" else [x, draw.broadcastable(x)], MOVE)


@template("Where", 1.5)
def where(draw: Draw) -> None:
    """Add a Where of two values, with a condition that broadcasts to the first value."""
    x = draw.any()
    condition = draw.broadcastable(x, "bool")
    draw.node("Where", [condition, *draw.rng.sample([x, draw.broadcastable(x)], 2)], MOVE)


@template("IsNaN", 0.2)
def is_nan(draw: Draw) -> None:
    """Add an IsNaN or an IsInf. Its result is False everywhere, because values have no NaN and no infinity."""
    draw.node(draw.choice(["IsNaN", "IsInf"]), [draw.pick()], MOVE)

"""Templates of reductions over axes."""

from __future__ import annotations

from typing import Dict

import numpy as np

from matrix.fuzz.draft import GRID, MOVE, SMOOTH, Rule
from matrix.fuzz.draw import FLOATS, Draw
from matrix.fuzz.registry import template
from matrix.fuzz.templates.elementwise import within

_RULES: Dict[str, Rule] = {
    "ReduceSum": GRID,
    "ReduceSumSquare": GRID,
    "ReduceL1": GRID,
    "ReduceMax": MOVE,
    "ReduceMin": MOVE,
}
_LIMITS = {"ReduceProd": (-3, 3), "ReduceLogSum": (0.1, 1000), "ReduceLogSumExp": (-20, 20)}


def _reduce(draw: Draw, operator: str) -> None:
    """Add a reduction of a value over random axes, sometimes over all axes. The value is in the range of the operator.

    ReduceL2 becomes ReduceL1 if all elements are small.
    """
    low, high = _LIMITS.get(operator, (-1000, 1000))
    types = (*FLOATS, "int32", "int64") if operator in ("ReduceSum", "ReduceMax", "ReduceMin") else FLOATS
    x = draw.pick(types, range(1, 6), where=within(low, high))
    if operator == "ReduceL2" and not all((np.abs(array) > 0.1).any() for array in x.arrays):
        operator = "ReduceL1"
    axes = draw.rng.sample(range(x.rank), draw.integer(1, x.rank))
    if draw.chance(0.3):
        axes = [axis - x.rank for axis in axes]
    keepdims = draw.choice([None, 0, 1])
    rule = _RULES.get(operator, SMOOTH)
    if draw.chance(0.1):
        draw.node(operator, [x], rule, keepdims=keepdims)
    elif draw.opset >= 18 or operator == "ReduceSum":
        draw.node(operator, [x, draw.constant(axes)], MOVE if x.is_integer else rule, keepdims=keepdims)
    else:
        draw.node(operator, [x], rule, axes=axes, keepdims=keepdims)


@template("ReduceSum", 1.5)
def reduce_sum(draw: Draw) -> None:
    """Add a sum over axes."""
    _reduce(draw, "ReduceSum")


@template("ReduceMean", 2)
def reduce_mean(draw: Draw) -> None:
    """Add a mean over axes."""
    _reduce(draw, "ReduceMean")


@template("ReduceMax", 1.5)
def reduce_max(draw: Draw) -> None:
    """Add a maximum or a minimum over axes."""
    _reduce(draw, draw.choice(["ReduceMax", "ReduceMin"]))


@template("ReduceL2", 1.5)
def reduce_norm(draw: Draw) -> None:
    """Add a ReduceL1, ReduceL2, ReduceSumSquare, ReduceProd, ReduceLogSum or ReduceLogSumExp."""
    operators = ["ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceLogSum", "ReduceLogSumExp"]
    _reduce(draw, draw.choice(operators))

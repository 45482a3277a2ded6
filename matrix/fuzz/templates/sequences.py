"""Templates of sequences and optionals."""

from __future__ import annotations

from typing import List

from matrix.fuzz.draft import MOVE
from matrix.fuzz.draw import Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Rejected, Value


def _items(value: Value) -> int:
    """Return the number of items of a sequence; the smallest number of all worlds."""
    return min(len(array) for array in value.arrays)


@template("SequenceConstruct", 0.8)
def construct(draw: Draw) -> None:
    """Add a SequenceConstruct of one to three tensors of one dtype."""
    x = draw.pick(("float32", "int64"), range(1, 5))
    items = [x, *(draw.any(range(1, 5), where=lambda value: value.dtype == x.dtype) for _ in range(draw.integer(0, 2)))]
    draw.node("SequenceConstruct", draw.rng.sample(items, len(items)))


@template("SplitToSequence", 0.6)
def split(draw: Draw) -> None:
    """Add a SplitToSequence of a tensor into slices of size 1 along an axis."""
    x = draw.pick(("float32", "int64"), range(1, 4))
    draw.node("SplitToSequence", [x], axis=draw.integer(0, x.rank - 1), keepdims=draw.choice([None, 0, 1]))


@template("SequenceAt", 1.5)
def at(draw: Draw) -> None:
    """Add a SequenceAt with a constant position."""
    sequence = draw.pick(container="sequence")
    count = _items(sequence)
    draw.node("SequenceAt", [sequence, draw.constant(draw.integer(-count, count - 1))])


@template("SequenceInsert", 0.6)
def insert(draw: Draw) -> None:
    """Add a SequenceInsert at a constant position, or at the end."""
    sequence = draw.pick(container="sequence")
    x = draw.any(range(1, 5), where=lambda value: value.dtype == sequence.dtype)
    count = _items(sequence)
    draw.node(
        "SequenceInsert", [sequence, x] + ([draw.constant(draw.integer(-count, count))] if draw.chance(0.6) else [])
    )


@template("SequenceErase", 0.4)
def erase(draw: Draw) -> None:
    """Add a SequenceErase at a constant position, or at the end. Raises Rejected for fewer than two elements."""
    sequence = draw.pick(container="sequence")
    count = _items(sequence)
    if count < 2:
        raise Rejected("empty sequence")
    draw.node(
        "SequenceErase", [sequence] + ([draw.constant(draw.integer(-count, count - 1))] if draw.chance(0.6) else [])
    )


@template("ConcatFromSequence", 1)
def concat(draw: Draw) -> None:
    """Add a ConcatFromSequence along an existing or a new axis. Does nothing if scalars have no axis to join."""
    sequence = draw.pick(container="sequence")
    ranks: List[int] = [item.ndim for array in sequence.arrays for item in array]
    if new_axis := draw.choice([0, 1]):
        draw.node("ConcatFromSequence", [sequence], axis=draw.integer(0, min(ranks)), new_axis=new_axis)
    elif min(ranks):
        draw.node("ConcatFromSequence", [sequence], axis=draw.integer(0, min(ranks) - 1))


@template("SequenceLength", 0.4)
def length(draw: Draw) -> None:
    """Add a SequenceLength."""
    draw.node("SequenceLength", [draw.pick(container="sequence")])


@template("Optional", 0.4, 18)
def optional(draw: Draw) -> None:
    """Add an OptionalHasElement or an OptionalGetElement of a tensor."""
    x = draw.pick(("float32", "int64"))
    operator = draw.choice(["OptionalHasElement", "OptionalGetElement"])
    draw.node(operator, [x], MOVE)

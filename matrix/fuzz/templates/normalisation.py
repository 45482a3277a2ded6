"""Templates of normalisations and softmaxes. No variance is close to zero."""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np

from matrix.fuzz.draft import SMOOTH
from matrix.fuzz.draw import Draw
from matrix.fuzz.registry import template
from matrix.fuzz.values import Value


def varies(axes_of: Callable[[int], Sequence[int]]) -> Callable[[Value], bool]:
    """Return a predicate: whether the variance of a value over axes is above 0.05 everywhere.

    `axes_of`: function from the rank of the value to the axes. Without an axis or an element, the predicate is False.
    """

    def predicate(value: Value) -> bool:
        axes = tuple(axes_of(value.rank))
        return bool(axes) and all(array.size and (np.var(array, axis=axes) > 0.05).all() for array in value.arrays)

    return predicate


def vector(draw: Draw, count: int, low: int = -2, high: int = 2) -> Value:
    """Add a vector of `count` random floats from `low` to `high`, and return it: an initializer, sometimes an input."""
    return draw.fresh([(count,)] * draw.shared.worlds, low=low, high=high)


@template("BatchNormalization", 3)
def batch_normalization(draw: Draw) -> None:
    """Add a BatchNormalization in inference mode, with random statistics."""
    x = draw.pick(("float32",), [2, 3, 4, 4, 5], where=lambda value: value.dims[1] is not None)
    count = x.shape[1]
    inputs = [x, vector(draw, count), vector(draw, count), vector(draw, count), vector(draw, count, 1, 4)]
    draw.node("BatchNormalization", inputs, SMOOTH, epsilon=draw.choice([None, 1e-3]))


@template("InstanceNormalization")
def instance_normalization(draw: Draw) -> None:
    """Add an InstanceNormalization. Does nothing if the number of channels is open."""
    x = draw.pick(("float32",), [3, 4, 5], where=varies(lambda rank: range(2, rank)))
    if x.dims[1] is None:
        return
    draw.node("InstanceNormalization", [x, vector(draw, x.shape[1]), vector(draw, x.shape[1])], SMOOTH)


@template("LayerNormalization", 2, 17)
def layer_normalization(draw: Draw) -> None:
    """Add a LayerNormalization over the last one or two axes, sometimes with a bias.

    Does nothing if one of these axes is open, or if the value has no other axes.
    """
    count = draw.choice([1, 1, 2])
    x = draw.pick(("float32",), range(2, 5), where=varies(lambda rank: range(rank - count, rank)))
    if None in x.dims[-count:] or x.rank <= count:
        return
    shapes = [x.shape[-count:]] * draw.shared.worlds
    inputs = [x, draw.fresh(shapes)] + ([draw.fresh(shapes)] if draw.chance(0.7) else [])
    draw.node("LayerNormalization", inputs, SMOOTH, axis=draw.choice([-count, x.rank - count]))


@template("LayerNormalization-composed", 1)
def composed_layer_normalization(draw: Draw) -> None:
    """Add the normalisation that older exporters compose of ReduceMean, Sub, Pow and Sqrt."""
    x = draw.pick(("float32",), range(2, 5), where=varies(lambda rank: [rank - 1]))

    def mean(value: Value) -> Value:
        if draw.opset >= 18:
            return draw.node("ReduceMean", [value, draw.constant([-1])], SMOOTH)
        return draw.node("ReduceMean", [value], SMOOTH, axes=[-1])

    centred = draw.node("Sub", [x, mean(x)], SMOOTH)
    variance = mean(draw.node("Pow", [centred, draw.constant(2.0, "float32")], SMOOTH))
    deviation = draw.node("Sqrt", [draw.node("Add", [variance, draw.constant(1e-5, "float32")], SMOOTH)], SMOOTH)
    draw.node("Div", [centred, deviation], SMOOTH)


@template("GroupNormalization", 0.8, 21)
def group_normalization(draw: Draw) -> None:
    """Add a GroupNormalization of one, two or all groups. Does nothing if the number of channels is open or odd."""
    x = draw.pick(("float32",), [3, 4], where=varies(lambda rank: range(2, rank)))
    if x.dims[1] is None or x.shape[1] % 2:
        return
    count = x.shape[1]
    inputs = [x, vector(draw, count), vector(draw, count)]
    draw.node("GroupNormalization", inputs, SMOOTH, num_groups=draw.choice([1, 2, count]))


@template("RMSNormalization", 0.8, 23)
def rms_normalization(draw: Draw) -> None:
    """Add an RMSNormalization over the last axis. Does nothing if its size is open."""
    x = draw.pick(("float32",), range(2, 5), where=varies(lambda rank: [rank - 1]))
    if x.dims[-1] is not None:
        draw.node("RMSNormalization", [x, vector(draw, x.shape[-1])], SMOOTH)


@template("LRN", 0.5)
def lrn(draw: Draw) -> None:
    """Add a local response normalisation."""
    x = draw.pick(("float32",), [4])
    draw.node(
        "LRN", [x], SMOOTH, size=draw.choice([1, 3, 5]), alpha=draw.choice([None, 0.01]), bias=draw.choice([None, 2.0])
    )


@template("Softmax", 2)
def softmax(draw: Draw) -> None:
    """Add a Softmax or a LogSoftmax."""
    x = draw.pick(("float32", "float32", "float64"), range(1, 6))
    draw.node(
        draw.choice(["Softmax", "Softmax", "LogSoftmax"]), [x], SMOOTH, axis=draw.choice([None, draw.axis(x.rank)])
    )


@template("LpNormalization", 0.4)
def lp_normalization(draw: Draw) -> None:
    """Add an LpNormalization, the division by the norm along axis 1 or the last axis. No norm is close to zero."""
    axis = draw.choice([-1, 1])
    x = draw.pick(
        ("float32",), range(2, 5), where=lambda v: all((np.abs(a).max(axis=axis) > 0.2).all() for a in v.arrays)
    )
    draw.node("LpNormalization", [x], SMOOTH, axis=axis, p=draw.choice([None, 1, 2]))


@template("MeanVarianceNormalization", 0.4)
def mean_variance_normalization(draw: Draw) -> None:
    """Add a MeanVarianceNormalization of a value [N, C, H, W]."""
    x = draw.pick(("float32",), [4], where=varies(lambda rank: [0, 2, 3]))
    draw.node("MeanVarianceNormalization", [x], SMOOTH)

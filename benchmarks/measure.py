"""Measurements that are fair on a noisy machine: side by side, in turns, and told as ratios."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles
from typing import NamedTuple

__all__ = ["Figure", "Ratio", "Samples", "alternate", "figures", "ratio"]

Samples = Mapping[str, "list[float]"]
"""A number per round, for each of the things that were measured in that round."""


class Ratio(NamedTuple):
    """Ours over another's: below 1 is better than the other."""

    what: str
    ours: str
    other: str
    value: float
    low: float
    """The first and third quartile of the rounds."""
    high: float
    rounds: int
    aim: float | None
    """At most this; None where the number is only reported."""

    @property
    def met(self) -> bool | None:
        return None if self.aim is None else self.value <= self.aim


class Figure(NamedTuple):
    """One absolute number: true of the machine and the minute in which it was measured."""

    what: str
    of: str
    value: float
    unit: str


def alternate(
    work: Mapping[str, Callable[[], list[float]]], rounds: int, pause: float = 0.0, warm_up: bool = True
) -> dict[str, list[float]]:
    """Measure each in turn, round after round, so that a slow minute is slow for all. A round counts as its median.

    The order turns with each round: no one always comes after the same neighbour.
    """
    names = list(work)
    if warm_up:
        for name in names:
            work[name]()
    samples: dict[str, list[float]] = {name: [] for name in names}
    for index in range(rounds):
        for name in names[index % len(names) :] + names[: index % len(names)]:
            time.sleep(pause)
            samples[name].append(median(work[name]()))
    return samples


def ratio(what: str, samples: Samples, ours: str, other: str, aim: float | None = None) -> Ratio:
    """The median over the rounds of ours / other's."""
    each = sorted(a / b for a, b in zip(samples[ours], samples[other], strict=True))
    low, _, high = quantiles(each, n=4, method="inclusive") if len(each) > 1 else each * 3
    return Ratio(what, ours, other, median(each), low, high, len(each), aim)


def figures(what: str, samples: Samples, unit: str, scale: float = 1.0) -> list[Figure]:
    return [Figure(what, name, median(values) * scale, unit) for name, values in samples.items()]

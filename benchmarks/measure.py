"""Measurements on a noisy machine: runners take turns, and results are ratios of the same round."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median, quantiles
from typing import NamedTuple

__all__ = ["Figure", "Ratio", "Samples", "alternate", "figures", "ratio"]

Samples = Mapping[str, "list[float]"]
"""Runner -> its duration (or another number) in each round."""


class Ratio(NamedTuple):
    """A number of this project divided by that of a peer. Below 1, this project is better.

    `subject`: the quantity, after the name of its network and a colon if it has a network. `ours`, `theirs`: the
    runners. `value`: the ratio itself, of several rounds or networks their median or mean.
    """

    subject: str
    ours: str
    theirs: str
    value: float
    low: float
    """`low`, `high`: the first and the third quartile over the rounds."""
    high: float
    rounds: int
    aim: float | None
    """The largest ratio that meets the aim. None: there is no aim."""

    def to_json(self) -> dict[str, object]:
        """Return the ratio as a dict with the keys of the results file."""
        row = self._asdict()
        return {"what": row.pop("subject"), "ours": row.pop("ours"), "other": row.pop("theirs"), **row, "met": self.met}

    @property
    def met(self) -> bool | None:
        """Return whether the ratio meets the aim; None without an aim."""
        return None if self.aim is None else self.value <= self.aim


class Figure(NamedTuple):
    """An absolute number. It holds only for the machine and the run in which it was measured.

    `subject`: the quantity, as in `Ratio`. `tool`: the runner; "" for a number that all runners share.
    """

    subject: str
    tool: str
    value: float
    unit: str

    def to_json(self) -> dict[str, object]:
        """Return the figure as a dict with the keys of the results file."""
        return {"what": self.subject, "of": self.tool, "value": self.value, "unit": self.unit}


def alternate(
    work: Mapping[str, Callable[[], list[float]]], rounds: int, pause: float = 0.0, warm_up: bool = True
) -> dict[str, list[float]]:
    """Run each function in turn, round after round, so that a slow minute affects all of them.

    A function returns the numbers of some runs, such as their durations. Return name -> the median of these numbers in
    each round. The order rotates with each round, so that no function always follows the same function. `pause`:
    seconds before each call. `warm_up`: call each function once before the first round.
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


def ratio(subject: str, samples: Samples, ours: str, theirs: str, aim: float | None = None) -> Ratio:
    """Return the Ratio of two runners: the median and the quartiles of the quotients `ours / theirs` of all rounds.

    `ours`, `theirs`: keys of `samples`. `aim`: the largest ratio that is wanted, or None.
    """
    quotients = sorted(a / b for a, b in zip(samples[ours], samples[theirs], strict=True))
    low, _, high = quantiles(quotients, n=4, method="inclusive") if len(quotients) > 1 else quotients * 3
    return Ratio(subject, ours, theirs, median(quotients), low, high, len(quotients), aim)


def figures(subject: str, samples: Samples, unit: str, scale: float = 1.0) -> list[Figure]:
    """Return a Figure for each runner: the median over its rounds, times `scale`."""
    return [Figure(subject, name, median(values) * scale, unit) for name, values in samples.items()]

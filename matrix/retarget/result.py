"""The result of a row of the measurement, and the options of a run."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List

__all__ = ["Entry", "Measure", "Result"]

Entry = Dict[str, Any]
"""Figures of a part of a row, such as a converter and an opset: plain data for JSON."""


@dataclass
class Result:
    """The result of a row of the measurement.

    - entries: key -> figures. They are stored, and shown on the page.
    - misses: a text for each figure that misses its aim.
    - details: the cases that are not right, for results/retarget.json.
    """

    entries: Dict[str, Entry] = field(default_factory=dict)
    misses: List[str] = field(default_factory=list)
    details: List[Dict[str, Any]] = field(default_factory=list)


Measure = Callable[[argparse.Namespace], Result]
"""The function of a row: it measures with the options of a run, prints its figures, and returns its result."""

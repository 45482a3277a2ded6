"""Rows of the measurement, their summary beside the aims, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from matrix.simplified.tools import OURS, PEERS, SIMPLIFIERS, TOOLS

__all__ = ["REAL", "SOURCE", "Figure", "Row", "compute_figures", "format_wrong", "table"]

SOURCE = "source"
#: The suite of the trained networks of packages, and the beginning of the names of its models.
REAL = "real"
_BEST = f"best of {' and '.join(SIMPLIFIERS)}"


@dataclass
class Row:
    """The figures of a model.

    - nodes, latency: label -> figure; the label is a tool or `SOURCE`. A tool that gives no valid model has no entry.
    - wrong: tool -> what is wrong with its model: no model, an invalid one, or other outputs.
    """

    name: str
    nodes: dict[str, int] = field(default_factory=dict)
    latency: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    @property
    def node_ratio(self) -> float | None:
        """The nodes of our model, divided by the smallest number of nodes of a right model of `SIMPLIFIERS`.

        None if this project gives no valid model, or no tool of `SIMPLIFIERS` gives a right model.
        """
        best = [self.nodes[tool] for tool in SIMPLIFIERS if tool in self.nodes and tool not in self.wrong]
        return self.nodes[OURS] / max(min(best), 1) if best and OURS in self.nodes else None

    def latency_ratio(self, baseline: str) -> float | None:
        """The latency of our model, divided by that of `baseline`: a tool, or `SOURCE`. None if either is missing."""
        return self.latency[OURS] / self.latency[baseline] if {OURS, baseline} <= self.latency.keys() else None


@dataclass(frozen=True)
class Figure:
    """A figure of the summary. `aim`: its largest allowed value, or None. `digits`: the decimals of its text."""

    description: str
    value: float
    aim: float | None = None
    digits: int = 0

    @property
    def is_missed(self) -> bool:
        """Whether the value exceeds its aim."""
        return self.aim is not None and self.value > self.aim

    @property
    def value_text(self) -> str:
        """The value as text. A value that misses its aim never looks like one that meets it."""
        text = f"{self.value:.{self.digits}f}"
        return str(self.value) if self.is_missed and self.aim is not None and float(text) <= self.aim else text

    @property
    def aim_text(self) -> str:
        """The aim as text, and whether it is met; "" without an aim."""
        if self.aim is None:
            return ""
        return f"<= {self.aim:.{2 if self.digits else 0}f}: {'missed' if self.is_missed else 'met'}"

    def __str__(self) -> str:
        """Return the figure and its aim as a line of text."""
        return f"{self.description}: {self.value_text}" + (f" (aim {self.aim_text})" if self.aim_text else "")


def compute_figures(rows: Sequence[Row]) -> list[Figure]:
    """Return the figures of the summary. A ratio that no row has is left out.

    A latency ratio is rounded to two decimals before it is compared with its aim: a third decimal would be noise.
    """
    ratios = [ratio for row in rows if (ratio := row.node_ratio) is not None]
    figures = [Figure("models", len(rows))]
    if ratios:
        fewer, equal = sum(ratio < 1 for ratio in ratios), sum(ratio == 1 for ratio in ratios)
        figures += [
            Figure(f"nodes / {_BEST}, median", median(ratios), 1.00, 3),
            Figure(f"nodes / {_BEST}, largest", max(ratios), 1.02, 3),
            Figure(f"models with fewer nodes than the {_BEST}", fewer),
            Figure("models with equally many nodes", equal),
            Figure("models with more nodes", len(ratios) - fewer - equal),
        ]
    for baseline in (SOURCE, *PEERS):
        values = [ratio for row in rows if (ratio := row.latency_ratio(baseline)) is not None]
        if values:
            aim = 1.00 if baseline == SOURCE else None
            figures.append(Figure(f"latency / {baseline}, median", round(median(values), 2), aim, 2))
    for tool in TOOLS:
        count = sum(tool in row.wrong for row in rows)
        figures.append(Figure(f"wrong or failed, {tool}", count, 0 if tool == OURS else None))
    return figures


def format_wrong(rows: Sequence[Row]) -> list[str]:
    """Return a line for each wrong or failed model of a tool: the tool, the model and the problem."""
    return [f"{tool}, {row.name}: {row.wrong[tool]}" for tool in TOOLS for row in rows if tool in row.wrong]


def table(rows: Sequence[Row]) -> list[str]:
    """Return the lines of a Markdown table: for each model and tool the number of nodes and the latency in ms.

    "!" marks a wrong model, "-" a missing one.
    """
    labels = [SOURCE, *TOOLS]
    lines = ["| model | " + " | ".join(labels) + " |", "|---" * (len(labels) + 1) + "|"]
    for row in rows:
        cells = []
        for label in labels:
            nodes = str(row.nodes.get(label, "-")) + "!" * (label in row.wrong)
            cells.append(nodes + (f", {row.latency[label] * 1e3:.3f} ms" if label in row.latency else ""))
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return lines

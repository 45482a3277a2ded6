"""Rows of the measurement, their summary beside the aims, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from matrix.simplified.tools import OURS, PEERS, SIMPLIFIERS, TOOLS

__all__ = ["SOURCE", "Row", "summarise", "table"]

SOURCE = "source"


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
        """The number of nodes after ours, divided by the smallest number of a right model of `SIMPLIFIERS`. None
        without both.
        """
        best = [self.nodes[tool] for tool in SIMPLIFIERS if tool in self.nodes and tool not in self.wrong]
        return self.nodes[OURS] / max(min(best), 1) if best and OURS in self.nodes else None

    def latency_ratio(self, baseline: str) -> float | None:
        """The latency after ours, divided by the latency of `baseline`: a tool, or `SOURCE`. None without both."""
        return self.latency[OURS] / self.latency[baseline] if {OURS, baseline} <= self.latency.keys() else None


def summarise(rows: Sequence[Row]) -> list[str]:
    """Return the lines of the summary: each figure with its aim."""
    ratios = [ratio for row in rows if (ratio := row.node_ratio) is not None]
    lines = [f"models: {len(rows)}"]
    if ratios:
        fewer, equal = sum(ratio < 1 for ratio in ratios), sum(ratio == 1 for ratio in ratios)
        lines += [
            f"nodes / best of {' and '.join(SIMPLIFIERS)}, median: {median(ratios):.3f} (aim <= 1.00)",
            f"nodes / best of {' and '.join(SIMPLIFIERS)}, largest: {max(ratios):.3f} (aim <= 1.02)",
            f"fewer nodes than the best: {fewer}, equally many: {equal}, more: {len(ratios) - fewer - equal}",
        ]
    for baseline in (SOURCE, *PEERS):
        values = [ratio for row in rows if (ratio := row.latency_ratio(baseline)) is not None]
        if values:
            aim = " (aim <= 1.00)" if baseline == SOURCE else ""
            lines.append(f"latency / {baseline}, median: {median(values):.3f}{aim}")
    for tool in TOOLS:
        bad = [row.name for row in rows if tool in row.wrong]
        lines.append(f"wrong, {tool}: {len(bad)}" + (f" ({', '.join(bad)})" if bad else ""))
    return lines


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

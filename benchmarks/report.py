"""Report of the findings as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence

from benchmarks.bench import Findings

__all__ = ["environments", "markdown", "table", "to_json"]


def to_json(findings: Findings) -> str:
    """Return the findings as the text of the results file."""
    document = {
        "machine": {"cpus": os.cpu_count(), "architecture": platform.machine(), "system": platform.system()},
        "environments": findings.environments,
        "ratios": [ratio.to_json() for ratio in findings.ratios],
        "figures": [figure.to_json() for figure in findings.figures],
        "missing": findings.missing,
    }
    return json.dumps(document, indent=2) + "\n"


def markdown(findings: Findings) -> str:
    """Return the findings as Markdown: ratios, figures, measurements that failed, environments."""
    parts = [
        "## Ratios (ours / other; below 1 is better)",
        _ratios(findings),
        "## Figures of this run",
        _figures(findings),
    ]
    if findings.missing:
        parts += ["## Not measured", "\n".join(f"- {text}" for text in findings.missing)]
    parts += ["## Environments", "\n".join(environments(findings))]
    return "\n\n".join(parts) + "\n"


def _ratios(findings: Findings) -> str:
    """Return the Markdown table of the ratios."""
    verdicts = {True: "met", False: "MISSED", None: ""}
    rows = [
        (r.subject, f"{r.ours} / {r.theirs}", f"{r.value:.3f}", f"{r.low:.3f} to {r.high:.3f}", r.rounds,
         "" if r.aim is None else f"<= {r.aim:g}", verdicts[r.met])
        for r in findings.ratios
    ]  # fmt: skip
    return "\n".join(table(("what", "ratio of", "median", "quartiles", "rounds", "aim", ""), rows))


def _figures(findings: Findings) -> str:
    """Return the Markdown table of the figures."""
    rows = [(figure.subject, figure.tool, f"{figure.value:.3g} {figure.unit}") for figure in findings.figures]
    return "\n".join(table(("what", "of", "median"), rows))


def environments(findings: Findings) -> Iterable[str]:
    """Yield a Markdown list item for each environment, with the versions of its packages."""
    for id_, versions in sorted(findings.environments.items()):
        yield f"- {id_}: " + ", ".join(f"{name} {version}" for name, version in versions.items())


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table with a header row."""
    return ["| " + " | ".join(map(str, line)) + " |" for line in (head, ["---"] * len(head), *rows)]

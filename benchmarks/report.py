"""The findings as a page and as JSON."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Sequence

from benchmarks.bench import Findings

__all__ = ["environments", "markdown", "table", "to_json"]


def to_json(found: Findings) -> str:
    document = {
        "machine": {"cpus": os.cpu_count(), "architecture": platform.machine(), "system": platform.system()},
        "environments": found.environments,
        "ratios": [{**ratio._asdict(), "met": ratio.met} for ratio in found.ratios],
        "figures": [figure._asdict() for figure in found.figures],
        "missing": found.missing,
    }
    return json.dumps(document, indent=2) + "\n"


def markdown(found: Findings) -> str:
    parts = ["## Ratios (ours / other; below 1 is better)", _ratios(found), "## Figures of this run", _figures(found)]
    if found.missing:
        parts += ["## Not measured", "\n".join(f"- {text}" for text in found.missing)]
    parts += ["## Environments", "\n".join(environments(found))]
    return "\n\n".join(parts) + "\n"


def _ratios(found: Findings) -> str:
    verdicts = {True: "met", False: "MISSED", None: ""}
    rows = [
        (r.what, f"{r.ours} / {r.other}", f"{r.value:.3f}", f"{r.low:.3f} to {r.high:.3f}", r.rounds,
         "" if r.aim is None else f"<= {r.aim:g}", verdicts[r.met])
        for r in found.ratios
    ]  # fmt: skip
    return "\n".join(table(("what", "ratio of", "median", "quartiles", "rounds", "aim", ""), rows))


def _figures(found: Findings) -> str:
    rows = [(figure.what, figure.of, f"{figure.value:.3g} {figure.unit}") for figure in found.figures]
    return "\n".join(table(("what", "of", "median"), rows))


def environments(found: Findings) -> Iterable[str]:
    for id_, versions in sorted(found.environments.items()):
        yield f"- {id_}: " + ", ".join(f"{name} {version}" for name, version in versions.items())


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Its lines."""
    return ["| " + " | ".join(map(str, line)) + " |" for line in (head, ["---"] * len(head), *rows)]

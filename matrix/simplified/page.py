"""The stored result, and the section of docs/how/simplification.md that is rendered from it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from matrix.data import ROOT
from matrix.render.text import replace
from matrix.simplified.summary import REAL, SOURCE, Row, compute_figures, format_wrong
from matrix.simplified.tools import TOOLS

__all__ = ["BEGIN", "END", "MEASURED", "PAGE", "files", "load_rows", "render", "save_rows"]

PAGE = Path("docs/how/simplification.md")
MEASURED = ROOT / "matrix" / "simplified" / "measured.json"
BEGIN = "<!-- >>> rendered by `python -m matrix render`: `nox -s simplify -- --record` measures -->"
END = "<!-- <<< rendered -->"
_BLOCK = re.compile(f"^{re.escape(BEGIN)}$.*?^{re.escape(END)}$", re.DOTALL | re.MULTILINE)


def save_rows(path: Path, revision: str, versions: dict[str, str], rows: Sequence[Row]) -> None:
    """Write rows, the revision that gave them, and the versions of the packages, as JSON."""
    document = {"revision": revision, "versions": versions, "rows": [asdict(row) for row in rows]}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def load_rows(path: Path = MEASURED) -> tuple[dict[str, Any], list[Row]]:
    """Return the stored document and its rows."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document, [Row(**row) for row in document["rows"]]


def files(root: Path) -> dict[Path, str]:
    """Return {path of the page: its text with the rendered section}. `root`: the root folder of the repository."""
    lines = render(*load_rows())
    path = root / PAGE
    return {path: replace(_BLOCK, "\n".join([BEGIN, *lines, END]).replace("\\", r"\\"), path)}


def render(document: dict[str, Any], rows: Sequence[Row]) -> list[str]:
    """Return the lines of the section: the figures, the trained networks, and the wrong or failed models."""
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    counts = Counter(row.name.partition("/")[0] for row in rows)
    suites = ", ".join(f"{suite} {count}" for suite, count in counts.items())
    lines = [f"Measured at revision `{document['revision']}` with {versions}.", "", f"Models of each suite: {suites}."]
    lines += ["", "| figure | value | aim |", "|---|---|---|"]
    lines += [f"| {figure.description} | {figure.value_text} | {figure.aim_text} |" for figure in compute_figures(rows)]
    lines += ["", "Nodes of the trained networks of [Real models](../real.md), and the latency relative to the source:", ""]  # fmt: skip
    lines += [f"| network | {' | '.join([SOURCE, *TOOLS])} | latency |", "|---" * (len(TOOLS) + 3) + "|"]
    lines += [_format_row(row) for row in rows if row.name.startswith(REAL + "/")]
    wrong = [f"- {line}" for line in format_wrong(rows)]
    return [*lines, "", "Wrong or failed models:", "", *(wrong or ["- none"])]


def _format_row(row: Row) -> str:
    """Return the row of a trained network. "!" marks a wrong model, "-" a missing one."""
    nodes = [str(row.nodes.get(label, "-")) + "!" * (label in row.wrong) for label in (SOURCE, *TOOLS)]
    ratio = row.latency_ratio(SOURCE)
    cells = [row.name.partition("/")[2], *nodes, "-" if ratio is None else f"{ratio:.2f}"]
    return f"| {' | '.join(cells)} |"

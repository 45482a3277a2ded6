"""docs/support.md: a table of the outcome of every version of every registered operator, in the required cells."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, Dict, List, Tuple

from matrix.data import Matrix
from matrix.results import OUTCOMES, load_results

__all__ = ["PAGE", "page"]

PAGE = Path("docs/support.md")
_DOMAINS = {"": "ai.onnx"}
_HEAD = """# Supported operators

`python -m matrix render` writes this page from the registry of operators and the results of the cells
(`matrix/results`). The first table counts the cases of all cells that ran. The tables below it have a row for each
operator and each version that changed its meaning. A column is a cell that a merge needs; an entry is the worst of
the recorded cases:

- **native**: the shim has its own kernel for the operator, and all cases pass
- **composed**: all cases pass over the shim's primitives
- **fallback**: some cases run outside of the framework, and all pass
- **gap**: some cases fail as `tests/gaps` declares; **fail**: some fail otherwise
- **no case**: no release of onnx recorded a case
"""


def page(matrix: Matrix) -> str:
    """Return the text of docs/support.md.

    The first table counts the cases of every cell with stored results. The tables of operators have a column for each
    required cell.
    """
    results = load_results()
    known = {id: results[id] for id in matrix.cells if id in results}
    cells = {id: cell for id, cell in known.items() if matrix.cells[id].is_required and "operators" in cell}
    lines = [_HEAD, "## Cases", "", *_format_counts(known)]
    operators = _list_operators()
    for domain in sorted({operator[0] for operator in operators}):
        lines += ["", "## %s" % (_DOMAINS.get(domain, domain)), "", _row(["operator", "since", *map(_short, cells)])]
        lines.append(_row(["---"] * (2 + len(cells))))
        for _, name, since in (operator for operator in operators if operator[0] == domain):
            statuses = [_find_status(cell, domain, name, since) for cell in cells.values()]
            lines.append(_row([name, str(since), *statuses]))
    return "\n".join(lines) + "\n"


def _list_operators() -> List[Tuple[str, str, int]]:
    """Return (domain, name, since) of each operator that this library defines, sorted. Operators of tests are left out."""
    from onnx_compat.ops.registry import all_meanings

    for domain in ("ml", "microsoft"):  # by name: without an installed distribution there are no entry points
        importlib.import_module(f"onnx_compat.ops.{domain}")
    ours = (entry for entry in all_meanings() if str(entry.function.__module__).startswith("onnx_compat."))
    return sorted((entry.domain, entry.name, entry.since) for entry in ours)


def _find_status(cell: Dict[str, Any], domain: str, name: str, since: int) -> str:
    """Return the entry of an operator in the column of a cell: native, composed, fallback, gap, fail or "no case".

    `cell`: the stored results of the cell, as `load_results` returns them.
    """
    operator = "%s::%s" % (domain, name) if domain else name
    outcome = cell["operators"].get("%s-%d" % (operator, since), "no case")
    if outcome == "pass":
        return "native" if operator in cell["natives"] else "composed"
    return str(outcome)


def _format_counts(cells: Dict[str, Any]) -> List[str]:
    """Return the lines of the first table: the number of cases with each outcome, for each cell and variant."""
    lines = [_row(["cell", "run", *OUTCOMES]), _row(["---"] * (2 + len(OUTCOMES)))]
    for id, cell in cells.items():
        sums: Dict[str, Dict[str, int]] = {}
        for suite, counts in cell["counts"].items():
            total = sums.setdefault(suite.partition("@")[2] or "recorded", dict.fromkeys(OUTCOMES, 0))
            for outcome in OUTCOMES:
                total[outcome] += counts[outcome]
        if not sums:
            lines.append(_row([id, cell["state"], *["-"] * len(OUTCOMES)]))
        lines += [
            _row([id, variant, *(str(total[outcome]) for outcome in OUTCOMES)]) for variant, total in sums.items()
        ]
    return lines


def _short(id: str) -> str:
    """Return the id of a cell without its Python."""
    return id.rpartition("-py")[0]


def _row(fields: List[str]) -> str:
    """Return a row of a Markdown table."""
    return "| %s |" % " | ".join(fields)

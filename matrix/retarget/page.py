"""docs/retarget.md: tables of the stored figures of models at other opsets."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from matrix.retarget.exceptions import Exceptions, load_exceptions, load_inexpressible, load_round_trips
from matrix.retarget.outcomes import (
    CONVERTERS,
    FIXED_POINT,
    GROWTH_AIM,
    MEMORY_AIM,
    NEVER,
    NO_PROGRAM,
    OURS,
    READ_WRITE,
    RIGHT,
    SHARE_AIM,
    TIME_AIM,
    VOID,
    entry_key,
    right_count,
    total_count,
)
from matrix.retarget.result import Entry
from matrix.retarget.store import load_measured

__all__ = ["PAGE", "render_page"]

PAGE = Path("docs/retarget.md")

Entries = Mapping[str, Entry]

_HEAD = """# Models at other opsets

`nox -s retarget` measures conversions to `.onnx`, beside other projects in the same run. `python -m matrix render`
writes this page from `matrix/retarget/measured.json`.

- `nox -s retarget -- --row nodes --opset 13` measures a part; `--record` stores the figures.
- A figure that misses its aim fails the session."""

_NODES = """Each node case of the newest release of onnx is converted to the target, checked by `onnx.checker` with strict shape
inference, and run in onnxruntime. A case counts if the target has the types of its inputs and outputs.

- **right**: the outputs are the recorded ones, in onnxruntime or in the reference evaluator of onnx
- **wrong**: other outputs, an invalid model, or the process died; all other cases are refused, or do not run

The aim is %d %% for each target, and none wrong. The second table lists why the other cases are not right: the operators
that older opsets cannot express. `matrix/retarget/exceptions.toml` declares the reasons."""

_NETWORKS = """`exported`: the networks that `nox -s zoo` exports from torch. `real`: the trained networks of [real
models](real.md). The source and the result run in onnxruntime with equal inputs.

- **composed**: networks in which a node is composed of other operators
- **growth**: the nodes after divided by the nodes before, of these networks; the aim for the median is %.1f"""

_SUITES = """These are the test suites of the version converters of onnx and onnxscript, with our converter in their place. The aim
is %d %% of each suite. A test that fails is declared with its reason in `matrix/retarget/exceptions.toml`.

- **more**: the suite expects an error, and ours writes a model that the checker of onnx accepts; the aim counts these"""

_ROUND_TRIP = """A case is traced, and its program is written as ONNX. The file is traced and written again, and a third time. The second
and the third file must be equal, byte by byte, and the second must give the numbers of the first program.

- **fixed point**: this holds
- **no program**: every output is known when the model is traced, or the shim has none of the nodes
- **recorded wrong**: `tests/gaps/recorded.toml` declares the recorded outputs as wrong

`matrix/retarget/round_trip.toml` declares the other cases, each with its reason."""

_SPEED = """Generated networks with random weights, from opset 17 to 13. Each tool runs in processes of its own, in turn.
The fastest run counts, without imports. `ratio`: the time, divided by the time in which onnx reads and writes the
file.

- The aim for the ratio without a run beside the source is %.1f.
- The aim for the peak memory of the process on the largest file is %.1f times its size."""


def render_page(document: Optional[Dict[str, Any]] = None) -> str:
    """Return the text of docs/retarget.md. `document`: the stored figures; None: those of measured.json."""
    document = load_measured() if document is None else document
    sections: Dict[str, Sequence[Any]] = {
        "nodes": ("Recorded cases at each target", _NODES % (100 * SHARE_AIM), _node_lines),
        "networks": ("Networks", _NETWORKS % GROWTH_AIM, _network_lines),
        "suites": ("Test suites of other converters", _SUITES % (100 * SHARE_AIM), _suite_lines),
        "round_trip": ("From ONNX to ONNX", _ROUND_TRIP, _round_trip_lines),
        "speed": ("Time and memory", _SPEED % (TIME_AIM, MEMORY_AIM), _speed_lines),
    }
    parts = [_HEAD]
    for row, (title, text, lines) in sections.items():
        entries = document["rows"].get(row)
        if entries:
            parts += ["## " + title, text, "\n".join(lines(entries)), _revisions(entries)]
    versions = ", ".join("%s %s" % item for item in sorted(document["versions"].items()))
    return "\n\n".join([*parts, "## Measured with", versions]) + "\n"


def _revisions(entries: Entries) -> str:
    """Return a line of text with the revisions of the code that gave these entries."""
    revisions = sorted({entry["revision"] for entry in entries.values()})
    return "Revision: " + ", ".join("`%s`" % revision for revision in revisions)


def _table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> List[str]:
    """Return the lines of a Markdown table. A `|` in a cell becomes `/`."""
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(str(cell).replace("|", "/") for cell in line) + " |" for line in lines]


def _node_lines(entries: Entries) -> List[str]:
    """Return the lines of a table of the right and wrong cases, with a row for each opset."""
    opsets = sorted({entry["opset"] for entry in entries.values()})
    columns = ["opset", "cases"]
    for converter in CONVERTERS:
        columns += ["%s: right" % converter if converter != OURS else "right", "wrong"]
    rows: List[List[object]] = []
    for opset in opsets:
        counts = [entries.get(entry_key(converter, opset), {}).get("counts") for converter in CONVERTERS]
        cells: List[object] = [opset, "" if counts[0] is None else total_count(counts[0])]
        for converter, counted in zip(CONVERTERS, counts):
            right, wrong = ("", "") if counted is None else (str(right_count(counted)), str(_never_count(counted)))
            if converter == OURS and counted is not None:
                right += " (%.1f %%)" % (100 * right_count(counted) / max(total_count(counted), 1))
            cells += [right, wrong]
        rows.append(cells)
    return [*_table(columns, rows), "", *_refused_lines(entries, opsets)]


def _refused_lines(entries: Entries, opsets: Sequence[int]) -> List[str]:
    """Return the lines of a table of the cases that are not right, with a row for each operator and a column of reasons.

    A reason is declared in exceptions.toml.
    """
    refused = {opset: entries.get(entry_key(OURS, opset), {}).get("refused", {}) for opset in opsets}
    declared = {known.operator: known for known in load_inexpressible()}
    rows: List[List[object]] = []
    for operator in sorted({operator for counts in refused.values() for operator in counts}):
        counts = ", ".join(
            "%d: %d" % (opset, refused[opset][operator]) for opset in opsets if operator in refused[opset]
        )
        known = declared.get(operator)
        rows.append([operator, counts, "not declared" if known is None else known.reason])
    return _table(("operator", "opset: cases", "cannot be expressed because"), rows)


def _never_count(counts: Dict[str, int]) -> int:
    """Return the number of cases with an outcome in `NEVER`. `counts`: outcome -> number of cases."""
    return sum(counts.get(name, 0) for name in NEVER)


def _network_lines(entries: Entries) -> List[str]:
    """Return the lines of a table with a row for each group of networks and opset: right results, and growth."""
    rows = []
    for entry in entries.values():
        counts = entry["counts"]
        right = "%d of %d" % (counts.get(RIGHT, 0), sum(counts.values()))
        growth = ["%.2f" % entry[name] if entry["composed"] else "" for name in ("median", "largest")]
        rows.append([entry["group"], entry["opset"], right, entry["composed"], *growth])
    return _table(("networks", "opset", "right", "composed", "growth, median", "largest"), rows)


def _suite_lines(entries: Entries, exceptions: Optional[Exceptions] = None) -> List[str]:
    """Return the lines of two tables: the counts of the suites, and the reasons of failing tests.

    `exceptions`: the exceptions with these reasons; None: those of exceptions.toml.
    """
    names = ("tests", "passed", "more")
    rows = [[entry["project"], "`%s`" % suite, *(entry[name] for name in names)] for suite, entry in entries.items()]
    lines = [*_table(("project", "suite", "tests", "pass", "more"), rows), ""]
    columns = ("suite", "tests", "fail because")
    declared = load_exceptions() if exceptions is None else exceptions
    counts = Counter((suite, reason.text) for suite, tests in declared.items() for reason in tests.values())
    return [*lines, *_table(columns, [("`%s`" % suite, count, text) for (suite, text), count in counts.items()])]


def _round_trip_lines(entries: Entries) -> List[str]:
    """Return the lines of a table with a row for each suite, summed over its releases: the counts of outcomes.

    A second table has the declared reasons.
    """
    suites_: Dict[str, Counter[str]] = {}
    for group, entry in entries.items():
        suites_.setdefault(group.partition("/")[0], Counter()).update(entry["counts"])
    known = (FIXED_POINT, NO_PROGRAM, VOID)
    rows: List[List[object]] = []
    for suite, counts in suites_.items():
        other_counts = ["%d %s" % (count, name) for name, count in sorted(counts.items()) if name not in known]
        rows.append([suite, sum(counts.values()), *(counts[name] for name in known), ", ".join(other_counts)])
    lines = _table(("suite", "cases", *known, "others"), rows)
    reasons = Counter((group, reason) for group, cases in load_round_trips().items() for reason in cases.values())
    explained = [[group.partition("/")[0], count, *reason] for (group, reason), count in reasons.items()]
    return [*lines, "", *_table(("suite", "cases", "outcome", "reason"), explained)]


def _speed_lines(entries: Entries) -> List[str]:
    """Return the lines of a table with a row for each network and tool: time, ratio, and peak memory / size."""
    rows: List[List[object]] = []
    for name, entry in entries.items():
        base = entry["tools"][READ_WRITE]["seconds"]
        for tool, figures in entry["tools"].items():
            cells: List[object] = ["%s, %.0f MB" % (name, entry["bytes"] / 1e6), tool]
            if "failed" in figures:
                rows.append([*cells, "fails: " + figures["failed"], "", ""])
                continue
            ratio, peak = figures["seconds"] / base, figures["peak"] / entry["bytes"]
            rows.append([*cells, "%.2f s" % figures["seconds"], "%.2f" % ratio, "%.2f" % peak])
    return _table(("network", "tool", "time", "ratio", "peak / size"), rows)

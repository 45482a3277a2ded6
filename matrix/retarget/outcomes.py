"""Names of outcomes, converters and tools, and the aims. The page is rendered without onnx, so no import is here."""

from __future__ import annotations

from typing import Any, Dict

__all__ = [
    "BY_REFERENCE",
    "CHANGED",
    "CONVERTERS",
    "CRASHED",
    "FIXED_POINT",
    "GROWTH_AIM",
    "INVALID",
    "MEMORY_AIM",
    "NEVER",
    "NOT_RUN",
    "NO_PROGRAM",
    "OF_NODES",
    "OF_ROUND_TRIPS",
    "OURS",
    "READ_WRITE",
    "REFUSED",
    "RIGHT",
    "SHARE_AIM",
    "TIME_AIM",
    "UNTYPED",
    "UNVERIFIED",
    "VOID",
    "WRONG",
    "entry_key",
    "right_count",
    "total_count",
]

OURS = "onnx-compat"
CONVERTERS = (OURS, "onnx", "onnxscript")

CRASHED = "crashed"
RIGHT, BY_REFERENCE, WRONG, INVALID, NOT_RUN, REFUSED, UNTYPED = OF_NODES = (
    "right", "right by the reference evaluator", "wrong", "invalid", "does not run", "refused", "types missing",
)  # fmt: skip
NEVER = (WRONG, INVALID, CRASHED)
"""The outcomes that no case of ours may have."""
FIXED_POINT, CHANGED, NO_PROGRAM, VOID = "fixed point", "changed", "no program", "recorded wrong"
OF_ROUND_TRIPS = (FIXED_POINT, CHANGED, WRONG, REFUSED, NO_PROGRAM, VOID)
"""The outcomes of a case that is written three times.

- changed: the third writing differs from the second.
- no program: every output is known, or the shim has none of the nodes.
- recorded wrong: `tests/gaps/recorded.toml` has the case.
"""
UNVERIFIED, READ_WRITE = "onnx-compat, not verified", "onnx, read and write"

SHARE_AIM = 0.98
"""The aim for the share of the cases that are right, for each target, and of the tests that pass, for each suite."""
GROWTH_AIM = 1.2
"""The aim for the median of the nodes after divided by the nodes before, of networks with composed nodes."""
TIME_AIM = 1.5
"""The aim for the time of a conversion without a run beside the source, divided by the time to read and write the file."""
MEMORY_AIM = 1.3
"""The aim for the peak memory of the process, divided by the size of the largest file."""


def entry_key(converter: str, opset: int) -> str:
    """Return the key of the figures of a converter and a target, in the row `nodes`."""
    return "%s %d" % (converter, opset)


def total_count(counts: Dict[str, Any]) -> int:
    """Return the number of cases that count: all but UNTYPED. `counts`: outcome -> number of cases."""
    return sum(count for outcome, count in counts.items() if outcome != UNTYPED)


def right_count(counts: Dict[str, Any]) -> int:
    """Return the number of cases that are RIGHT or BY_REFERENCE. `counts`: outcome -> number of cases."""
    return int(counts.get(RIGHT, 0) + counts.get(BY_REFERENCE, 0))

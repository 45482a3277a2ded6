"""Conformance: every case of the chosen suites, on the shim under test."""

import time
from typing import Callable, List, Optional

import pytest

import onnx_compat
from matrix.harness.gaps import Gap, GapError, find_gap, find_stale
from matrix.harness.run import GAP, judge, run_case
from matrix.harness.select import Chosen
from matrix.suites.cache import Case


def test_case(chosen: Chosen, shim: str, declared_gaps: List[Gap], record_property: Callable[..., None]) -> None:
    gap = find_gap(declared_gaps, chosen.ids, chosen.variant)
    error: Optional[Exception] = None
    fallbacks: List[str] = []
    start = time.perf_counter()
    try:
        fallbacks = run_case(onnx_compat.prepare, chosen.case, shim, chosen.variant)
    except Exception as raised:  # noqa: BLE001 - any exception is the outcome of the case
        error = raised
    verdict = judge(error, fallbacks, gap)
    seconds = round(time.perf_counter() - start, 3)
    for name in chosen.names:
        record_property("conformance", (name, verdict.outcome, verdict.detail, seconds))
    if verdict.error is not None:
        raise verdict.error
    if verdict.outcome == GAP:
        pytest.xfail(verdict.detail)


def test_no_declared_gap_is_stale(rows: List[Case], declared_gaps: List[Gap]) -> None:
    known = {row.id for row in rows}
    stale_patterns = find_stale(declared_gaps, known, {name.partition("/")[0] for name in known})
    if stale_patterns:
        raise GapError("no such case: %s" % ", ".join(stale_patterns))

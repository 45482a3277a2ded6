"""Every primitive of the shim under test, for every dtype, equals the reference or has a declared gap."""

import os
from typing import Any, List, Optional, Sequence

import numpy as np
import pytest
from cases import CASES, Case, draw_cases, dtypes_of, gaps
from cases.making import as_list

from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives import PRIMITIVES
from onnx_compat.reference.shim import SHIM as REFERENCE
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

EXAMPLES = int(os.environ.get("ONNX_COMPAT_EXAMPLES", "2"))
PAIRS = [(name, dtype) for name in sorted(PRIMITIVES) if name in CASES for dtype in dtypes_of(name)]


class Mismatch(AssertionError):
    """The result of the shim differs from that of the reference."""


def test_every_primitive_has_cases() -> None:
    assert set(CASES) == set(PRIMITIVES)


@pytest.mark.parametrize(("name", "dtype"), PAIRS, ids=["%s-%s" % (name, dtype.name) for name, dtype in PAIRS])
def test_equals_the_reference(name: str, dtype: DType, shim: Any, declared_gaps: List[gaps.Gap]) -> None:
    gap = gaps.find(declared_gaps, name, dtype.name)
    cases = draw_cases(name, dtype, EXAMPLES)
    excused: List[str] = []
    try:
        _compare(shim, cases)
    except Exception:  # noqa: BLE001  (whatever it was is found again below)
        for case in cases:  # one by one, to find out which
            error = _alone(shim, case)
            if error is not None:
                if gap is None or not gap.excuses(case.flavour.sizes != "fixed", error):
                    raise error from None
                excused.append(str(error))
    if gap is not None:
        assert excused, "the gap is closed: %s" % (gap,)
        pytest.xfail(gap.reason)


def _alone(shim: Any, case: Case) -> Optional[BaseException]:
    try:
        _compare(shim, [case])
    except OnnxCompatError as error:
        error.reason += "\n  in: %r" % (case,)
        return error
    except Exception as error:  # noqa: BLE001
        return error
    return None


def _compare(shim: Any, cases: Sequence[Case]) -> None:
    expected = _run(REFERENCE, cases, symbolic=False)
    for case, theirs, ours in zip(cases, _run(shim, cases, symbolic=True), expected):
        if case.check is not None:
            case.check(theirs)
            continue
        if len(theirs) != len(ours):
            raise Mismatch("%d results, not %d: %r" % (len(theirs), len(ours), case))
        for k, (actual_result, expected_result) in enumerate(zip(theirs, ours)):
            difference = _difference(np.asarray(actual_result), expected_result, case, None if k else case.ignored)
            if difference:
                fed = "\n".join("input: %r" % (entry.array,) for entry in case.inputs)
                raise Mismatch(
                    "%s\n%r\n%s\ngot:\n%r\nexpected:\n%r" % (difference, case, fed, actual_result, expected_result)
                )


def _run(shim: Any, cases: Sequence[Case], symbolic: bool) -> List[List[Any]]:
    """Run all cases as a single program; return the results of each case."""
    ports: List[Port] = []
    for number, case in enumerate(cases):
        for position, case_input in enumerate(case.inputs):
            ports.append(
                Port("i%d_%d" % (number, position), case_input.dtype, _sizes(case, number, position, symbolic))
            )
    counts: List[int] = []

    def body(*tensors: Any) -> List[Any]:
        results: List[Any] = []
        offset = 0
        for case in cases:
            mine = as_list(case.apply(*tensors[offset : offset + len(case.inputs)]))
            offset += len(case.inputs)
            counts.append(len(mine))
            results += mine
        return results

    program = record_program(body, ports, shim.emitter())
    arrays = shim.compile(program).run([np.array(case_input.array) for case in cases for case_input in case.inputs])
    assert len(arrays) == sum(counts)
    ends = np.cumsum([0, *counts])
    return [list(arrays[first:last]) for first, last in zip(ends[:-1], ends[1:])]


def _sizes(case: Case, number: int, position: int, symbolic: bool) -> Any:
    case_input = case.inputs[position]
    sizes: List[Any] = list(case_input.array.shape)
    if symbolic and case.flavour.sizes != "fixed":
        for axis, size in enumerate(sizes):
            if axis not in case_input.known and (size != 1 or case.flavour.sizes == "unknown"):
                sizes[axis] = "c%d_n%d" % (number, size) if case.flavour.sizes == "named" else None
    return tuple(sizes)


def _difference(got: Any, expected: Any, case: Case, ignored: Any) -> str:
    if got.dtype != expected.dtype:
        return "dtype %s, not %s" % (got.dtype, expected.dtype)
    if got.shape != expected.shape:
        return "shape %s, not %s" % (got.shape, expected.shape)
    kept = np.ones(got.shape, bool) if ignored is None else ~np.asarray(ignored)
    got, expected = got[kept], expected[kept]
    if expected.dtype.kind not in "fc":
        return "" if np.array_equal(got, expected) else "other values"
    if case.exact:
        same = np.array_equal(np.isnan(got), np.isnan(expected)) and np.array_equal(
            *[np.where(np.isnan(a), 0, a) for a in (got, expected)]
        )
        if expected.dtype.kind == "f":
            known = ~np.isnan(expected)
            same = same and np.array_equal(np.signbit(got[known]), np.signbit(expected[known]))
        return "" if same else "other values"
    close = np.isclose(got, expected, rtol=_tolerance(case), atol=_tolerance(case), equal_nan=True)
    return "" if np.all(close) else "not close"


def _tolerance(case: Case) -> float:
    """Return the relative tolerance: a few units in the last place of the coarsest dtype among the inputs."""
    floats = [case_input.dtype for case_input in case.inputs if case_input.dtype.kind in "fc"]
    digits = [8 * d.numpy.itemsize if d.format is None else 8 for d in floats if d.kind == "f"]
    coarse = {8: 4e-2, 16: 4e-3, 32: 4e-5, 64: 1e-9}
    return max([coarse[digit] for digit in digits] or [4e-5])

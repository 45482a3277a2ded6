"""Every primitive of the shim under test, for every dtype, equals the reference or has a declared gap."""

import os
from typing import Any, List, Optional

import pytest
from cases import CASES, Case, batches, dtypes_of, gaps
from cases.comparison import compare as _compare  # Hypothesis derives its draws from the text of `agrees`
from hypothesis import HealthCheck, Phase, given, settings

from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir.dtypes import DType
from onnx_compat.primitives import PRIMITIVES

EXAMPLES = int(os.environ.get("ONNX_COMPAT_EXAMPLES", "2"))
PAIRS = [(name, dtype) for name in sorted(PRIMITIVES) if name in CASES for dtype in dtypes_of(name)]


def test_every_primitive_has_cases() -> None:
    assert set(CASES) == set(PRIMITIVES)


@pytest.mark.parametrize(("name", "dtype"), PAIRS, ids=["%s-%s" % (name, dtype.name) for name, dtype in PAIRS])
def test_equals_the_reference(name: str, dtype: DType, shim: Any, declared_gaps: List[gaps.Gap]) -> None:
    gap = gaps.find(declared_gaps, name, dtype.name)
    excused: List[str] = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],  # a batch names the case that fails: there is nothing to shrink
        suppress_health_check=list(HealthCheck),
    )
    @given(batches(name, dtype))
    def agrees(cases: List[Case]) -> None:
        try:
            _compare(shim, cases)
        except Exception:  # noqa: BLE001  (whatever it was is found again below)
            for case in cases:  # one by one, to find out which
                error = _alone(shim, case)
                if error is not None:
                    if gap is None or not gap.excuses(case.flavour.sizes != "fixed", error):
                        raise error from None
                    excused.append(str(error))

    agrees()
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

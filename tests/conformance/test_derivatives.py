"""The derivatives of the newest node cases agree with finite differences: on the reference, by the rules of the core.

With --sample, each STEP-th case. `python -m matrix.derivative_survey` does the same for any shim.
"""

from typing import List

import pytest

from matrix.harness.derivatives import AGREES, REFUSED, Outcome, compare_derivatives
from matrix.harness.files import newest
from matrix.suites.cache import Case

#: Each GROUPS-th case of the sample is in a group; a test runs one group, so that several workers share the cases.
STEP, GROUPS = 8, 16
#: The cases that are refused: a Loop that stacks rows until a count that is known at run time.
WITHOUT_DERIVATIVE = {"test_range_float_type_positive_delta_expanded"}


@pytest.mark.parametrize("group", range(GROUPS))
def test_derivatives_agree_with_finite_differences(
    rows: List[Case], group: int, request: pytest.FixtureRequest
) -> None:
    cases = newest(row for row in rows if row.suite == "node")
    chosen = cases[::STEP] if request.config.getoption("sample", False) else cases
    outcomes: List[Outcome] = []
    unexpected: List[Outcome] = []
    for case in chosen[group::GROUPS]:
        outcome = compare_derivatives(case, "reference")
        if outcome is not None:
            outcomes.append(outcome)
            if outcome.outcome != (REFUSED if case.name in WITHOUT_DERIVATIVE else AGREES):
                unexpected.append(outcome)
    assert outcomes or not cases
    assert unexpected == []

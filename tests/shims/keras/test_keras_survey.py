"""A sample of the newest node cases as `.keras` files: each agrees, or is refused; none is wrong."""

from typing import List

import pytest

from matrix.harness.files import WRONG, Outcome, general_reason, newest, survey_case
from matrix.harness.select import choose
from matrix.suites.cache import read_index

#: Each GROUPS-th case of the sample is in a group; a test runs one group, so that several workers share the sample.
STEP, GROUPS = 32, 4


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_file_agrees_or_is_refused(group: int) -> None:
    cases = newest(choose("node", read_index))[5::STEP]  # test_support has other cases
    outcomes: List[Outcome] = [survey_case(case, "keras", "keras") for case in cases[group::GROUPS]]
    assert outcomes
    assert [outcome for outcome in outcomes if outcome.outcome == WRONG] == []


def test_equal_causes_have_equal_reasons() -> None:
    assert general_reason("'x' has the type int4\nalso: 'y'") == general_reason("'y/z' has the type int4")
    assert general_reason("a scan of 12 rounds") == general_reason("a scan of 7 rounds") != general_reason("a scan")

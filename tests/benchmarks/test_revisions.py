"""The ratios of two revisions."""

import pytest

from benchmarks.measure import Ratio
from benchmarks.revisions import LIMIT, mean_ratio


def test_the_mean_of_a_halved_and_a_doubled_time_is_one():
    ratios = [Ratio("a", "ours", "base", 0.5, 0.4, 0.6, 5, None), Ratio("b", "ours", "base", 2.0, 1.9, 2.1, 5, None)]
    mean = mean_ratio("time", ratios)
    assert mean.value == pytest.approx(1.0)
    assert (mean.low, mean.high) == pytest.approx(((0.4 * 1.9) ** 0.5, (0.6 * 2.1) ** 0.5))
    assert mean.met


def test_a_mean_above_the_limit_misses_the_aim():
    assert mean_ratio("time", [Ratio("a", "ours", "base", LIMIT + 0.01, 1.0, 1.1, 5, None)]).met is False

"""Figures of accuracy and their text, and verdicts on outputs of another dtype, shape or kind."""

import math
from typing import Any, Optional

import numpy as np
import pytest

from onnx_compat.verification.accuracy import Accuracy, format_accuracy, judge_accuracy, measure_accuracy
from onnx_compat.verification.compare import Comparison, compare
from onnx_compat.verification.report import explain


def compare_pair(got: Any, want: Any) -> Comparison:
    (comparison,) = compare("y", got, want, rtol=1e-3, atol=1e-3)
    return comparison


def accuracy_of(got: Any, want: Any) -> Optional[Accuracy]:
    return measure_accuracy(compare_pair(got, want), got, want).accuracy


def test_an_empty_tensor_has_no_accuracy_and_keeps_its_verdict() -> None:
    empty = np.zeros((0, 3), np.float32)
    comparison = measure_accuracy(compare_pair(empty, empty), empty, empty)
    assert comparison.accuracy is None
    assert judge_accuracy(comparison, 99.0) is comparison


@pytest.mark.parametrize("got", [np.zeros(3, np.float32), np.zeros(2, np.float64)])
def test_tensors_of_another_type_have_no_accuracy(got: Any) -> None:
    assert accuracy_of(got, np.zeros(2, np.float32)) is None


@pytest.mark.parametrize(
    ("got", "want", "text"),
    [
        ([1, 2], [1, 2], "SNR inf dB, cosine 1.00000, max error 0 of the range"),
        ([0, 0], [0, 0], "SNR inf dB"),
        ([1, 1], [0, 0], "SNR -inf dB"),
        ([1, math.inf], [1, math.inf], "SNR inf dB"),
        ([[1, 2, 3]], [[1, 2, 3]], "SNR inf dB, cosine 1.00000, max error 0 of the range, top-1 100 %"),
        ([[3, 2, 1]], [[1, 2, 3]], "SNR 2.4 dB, cosine 0.71429, max error 1 of the range, top-1 0 %"),
    ],
)
def test_only_defined_figures_are_shown(got: Any, want: Any, text: str) -> None:
    accuracy = accuracy_of(np.float32(got), np.float32(want))
    assert accuracy is not None and format_accuracy(accuracy) == text


@pytest.mark.parametrize(
    ("got", "share", "verdict"), [([1, 2, 3, 4], 100.0, "match"), ([1, 2, 3, 5], 75.0, "mismatch")]
)
def test_integers_are_judged_by_the_share_that_is_equal(got: Any, share: float, verdict: str) -> None:
    want = np.int32([1, 2, 3, 4])
    comparison = measure_accuracy(compare_pair(np.int32(got), want), np.int32(got), want)
    assert comparison.accuracy is not None
    assert format_accuracy(comparison.accuracy) == "%.1f %% of the elements equal" % share
    assert judge_accuracy(comparison, 30.0).verdict == verdict


@pytest.mark.parametrize(
    ("got", "want", "text"),
    [
        (np.zeros(3, np.float32), np.zeros(2, np.float32), "wrong shape float32[3], expected float32[2]"),
        (np.zeros(2, np.float64), np.zeros(2, np.float32), "wrong dtype float64[2], expected float32[2]"),
        (
            np.array(["a", "b"], object),
            np.array(["a", "c"], object),
            "1 of 2 elements differ, first at [1]: b, expected c",
        ),
        (np.array(["a"], object), np.array(["a"], object), "match"),
    ],
)
def test_the_verdict_is_explained(got: Any, want: Any, text: str) -> None:
    assert explain(compare_pair(got, want)) == text

import numpy as np
import pytest

from onnx_compat.verification import compare


def compare_tensors(got, want, rtol=1e-3, atol=1e-3):
    (result,) = compare("y", got, want, rtol, atol)
    return result


def test_within_tolerance():
    result = compare_tensors(np.float32([1.0, 100.0]), np.float32([1.001, 100.05]))
    assert result.ok
    assert result.max_abs_error == pytest.approx(0.05, rel=1e-3)
    assert result.max_rel_error == pytest.approx(0.001, rel=1e-2)


def test_the_tolerance_is_relative_to_the_expected_value():
    assert compare_tensors(np.float64([1.1]), np.float64([1.0]), rtol=0.1, atol=1e-9).ok
    assert not compare_tensors(np.float64([0.0]), np.float64([1.0]), rtol=0.5, atol=0.4).ok


def test_the_first_bad_index_and_the_values_there():
    want = np.zeros((2, 3), np.float32)
    got = want.copy()
    got[1, 0], got[1, 2] = 0.5, 7
    result = compare_tensors(got, want)
    assert (result.verdict, result.mismatched, result.size) == ("mismatch", 2, 6)
    assert (result.first_bad_index, result.got, result.expected) == ((1, 0), "0.5", "0.0")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64])
def test_nan_and_infinity_match_themselves(dtype):
    special = np.array([np.nan, np.inf, -np.inf, 1], dtype)
    result = compare_tensors(special.copy(), special)
    assert result.ok
    assert result.max_abs_error == 0


@pytest.mark.parametrize(("got", "want"), [(np.nan, 1), (1, np.nan), (np.inf, 1), (1, np.inf), (np.inf, -np.inf)])
def test_nan_or_infinity_on_one_side_only_is_infinitely_wrong(got, want):
    result = compare_tensors(np.float32([got]), np.float32([want]))
    assert not result.ok
    assert result.max_abs_error == np.inf


@pytest.mark.parametrize(
    ("got", "want"),
    [
        (np.int64([1, 2]), np.int64([1, 3])),
        (np.array([True, False]), np.array([True, True])),
        (np.array(["a", "b"], object), np.array(["a", "c"], object)),
    ],
)
def test_integers_and_texts_are_compared_exactly(got, want):
    assert compare_tensors(want, want).ok
    result = compare_tensors(got, want, rtol=10, atol=10)
    assert (result.verdict, result.first_bad_index) == ("mismatch", (1,))


def test_bytes_and_text_are_compared_as_text():
    assert compare_tensors(np.array([b"a", b"\xc3\xa4"]), np.array(["a", "ä"], object)).ok


def test_large_integers_are_not_rounded():
    assert not compare_tensors(np.int64([2**62]), np.int64([2**62 + 1])).ok


@pytest.mark.parametrize(
    ("got", "want", "verdict"),
    [
        (np.zeros(3, np.float64), np.zeros(3, np.float32), "dtype"),
        (np.zeros((3, 1), np.float32), np.zeros(3, np.float32), "shape"),
        (None, np.zeros(3, np.float32), "kind"),
        ([np.zeros(3)], np.zeros(3), "kind"),
        ([np.zeros(3)], [np.zeros(3), np.zeros(3)], "shape"),
    ],
)
def test_another_type_has_a_verdict_of_its_own(got, want, verdict):
    assert compare_tensors(got, want).verdict == verdict


def test_sequences_element_by_element():
    results = list(compare("s", [np.float32(1), np.float32(2)], [np.float32(1), np.float32(3)], 0, 0))
    assert [(r.name, r.ok) for r in results] == [("s[0]", True), ("s[1]", False)]


def test_empty_values_match():
    assert compare_tensors(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).ok
    assert compare_tensors([], []).ok
    assert compare_tensors(None, None).ok


def test_scalars_have_an_empty_index():
    assert compare_tensors(np.float32(1), np.float32(2)).first_bad_index == ()


def test_small_floats_have_a_tolerance():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    a = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    b = np.array([1.0, 2.015625], ml_dtypes.bfloat16)
    assert compare_tensors(b, a, rtol=0.01).ok
    assert not compare_tensors(b, a).ok

"""Unique and TfIdfVectorizer: cases that onnx has not recorded."""

import numpy as np
import pytest
from meanings import meaning, record_function

from onnx_compat.errors import InvalidModelError


def _unique(x, **attributes):
    """Return the outputs of Unique. Assert that they are equal for static and for symbolic sizes."""
    dtype = "string" if x.dtype == object else x.dtype.name
    both = [
        record_function(lambda t: meaning("Unique", 28)(t, **attributes), s, dtype=dtype)(x)
        for s in (x.shape, [None] * x.ndim)
    ]
    for item, other_item in zip(*both):
        np.testing.assert_array_equal(item, other_item)
    return both[0]


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "uint8", "int64", "bool", "string", "complex64", "float16"])
def test_sorted_unique_is_that_of_numpy(dtype, axis):
    x = np.random.RandomState(3).randint(0, 3, (6, 2, 2))
    if dtype == "string":
        x = np.asarray(["b", "Ca", "é"], object)[x]
    elif dtype == "complex64":
        x = (x + 1j * x[::-1]).astype(np.complex64)
    else:
        x = x.astype(dtype)
    outputs = _unique(x) if axis is None else _unique(x, axis=axis)
    lines = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    rows = [tuple(line.reshape(-1)) if axis is not None else (line,) for line in lines]
    different = sorted(set(rows), key=lambda row: [(v.real, v.imag) if dtype == "complex64" else v for v in row])
    values = outputs[0] if axis is None else np.moveaxis(outputs[0], axis, 0)
    assert [tuple(np.asarray(value).reshape(-1)) for value in values] == different
    assert outputs[1].tolist() == [rows.index(row) for row in different]
    assert outputs[2].tolist() == [different.index(row) for row in rows]
    assert outputs[3].tolist() == [rows.count(row) for row in different]


def test_unsorted_unique_is_in_the_order_of_first_occurrence():
    outputs = _unique(np.asarray(["b", "a", "b", "c", "a"], object), sorted=0)
    assert [item.tolist() for item in outputs] == [["b", "a", "c"], [0, 1, 3], [0, 1, 0, 2, 1], [2, 2, 1]]


def test_nan_is_one_value_and_the_last():
    outputs = _unique(np.asarray([np.nan, np.inf, -0.0, np.nan, 0.0, -np.inf], np.float32))
    np.testing.assert_array_equal(outputs[0], np.asarray([-np.inf, 0, np.inf, np.nan], np.float32))
    assert [item.tolist() for item in outputs[1:]] == [[5, 2, 1, 0], [3, 2, 1, 3, 1, 0], [1, 2, 1, 2]]


def test_unique_of_an_empty_tensor():
    assert [item.shape for item in _unique(np.zeros((0,), np.float32))] == [(0,)] * 4
    assert [item.shape for item in _unique(np.zeros((3, 0), np.float32), axis=0)] == [(1, 0), (1,), (3,), (1,)]


def _count_grams(x, mode, **attributes):
    attributes = dict(
        {"mode": mode, "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "ngram_counts": [0, 2]},
        **attributes,
    )
    dtype = "string" if x.dtype == object else x.dtype.name
    sizes = (x.shape, [None] * x.ndim)
    item, other_item = (
        record_function(lambda t: meaning("TfIdfVectorizer", 9)(t, **attributes), s, dtype=dtype)(x) for s in sizes
    )
    np.testing.assert_array_equal(item, other_item)
    return item.tolist()


@pytest.mark.parametrize("texts", [False, True])
@pytest.mark.parametrize(("mode", "expected"), [("TF", [2, 0, 3, 1]), ("IDF", [5, 0, 2, 7]), ("TFIDF", [10, 0, 6, 7])])
def test_counts_are_weighted_in_their_columns(mode, expected, texts):
    pool, x = [1, 2, 2, 2], np.asarray([2, 1, 1, 2, 2], np.int32)
    given = {"pool_int64s": pool}
    if texts:
        x, given = np.asarray([str(k) for k in x], object), {"pool_strings": [str(k) for k in pool]}
    weights = [5.0, 2.0, 7.0]
    assert _count_grams(x, mode, ngram_indexes=[0, 2, 3], weights=weights, **given) == expected


def test_skipping_counts_pairs_that_are_apart():
    x = np.asarray([[1, 9, 2, 1, 2], [2, 1, 9, 9, 2]], np.int64)
    given = {"ngram_indexes": [0, 1], "pool_int64s": [1, 1, 2], "ngram_counts": [0, 1]}
    assert _count_grams(x, "TF", max_skip_count=0, **given) == [[2, 1], [1, 0]]
    assert _count_grams(x, "TF", max_skip_count=1, **given) == [[2, 2], [1, 0]]
    assert _count_grams(x, "TF", max_skip_count=9, **given) == [[2, 3], [1, 1]]
    assert _count_grams(x, "TF", max_skip_count=9, min_gram_length=2, **given) == [[0, 3], [0, 1]]
    assert _count_grams(x[:, :0], "TF", **given) == [[0, 0], [0, 0]]


def test_an_unknown_mode_is_refused():
    with pytest.raises(InvalidModelError, match="TFIDF"):
        _count_grams(np.zeros(3, np.int64), "COUNT", ngram_indexes=[0], pool_int64s=[1], ngram_counts=[0])

"""TfIdfVectorizer: counts of n-grams."""

from typing import Any, List, Sequence, Tuple

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dims import is_static, maximum
from onnx_compat.ir.dtypes import float32, int32
from onnx_compat.ops.arguments import Floats, Ints, Strings
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor, lift


@op("TfIdfVectorizer", since=9)
def tfidf_vectorizer(
    X: Tensor,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: Sequence[int],
    ngram_indexes: Sequence[int],
    pool_int64s: Ints = None,
    pool_strings: Strings = None,
    weights: Floats = None,
) -> Tensor:
    """Count each n-gram of the pool in each row of X. Return float32 [rows, features]: the counts, weighted by `mode`.

    A vector X gives [features]. Only n-grams from min_gram_length to max_gram_length count.

    - mode: TF: the count; IDF: the weight if the n-gram occurs, else 0; TFIDF: the count times the weight.
    - weights: a number for each n-gram; 1 by default.
    - pool_strings, pool_int64s: the n-grams, joined to a flat list. `pool_int64s` is read if `pool_strings` is
      absent.
    - ngram_counts: entry n - 1 is the position in the pool at which the n-grams of length n begin.
    - ngram_indexes: the feature of each n-gram; its maximum + 1 is the number of features. The numbers of several
      n-grams of one feature are added.
    - max_skip_count: the most elements that are skipped between two adjacent elements of an n-gram. The counts for
      0, 1, … skipped elements are added.

    Raises InvalidModelError for another mode. Raises it for a pool, counts, indexes or weights that do not fit each
    other or the dtype of X.
    """
    if mode not in ("TF", "IDF", "TFIDF"):
        raise InvalidModelError("the mode of a TfIdfVectorizer is TF, IDF or TFIDF, not %r" % mode)
    rows = p.unsqueeze(X, [0]) if X.rank == 1 else X
    factors = np.ones(len(ngram_indexes)) if weights is None or mode == "TF" else np.asarray(weights)
    width = max(ngram_indexes, default=-1) + 1
    pool = _pool(X, pool_int64s, pool_strings)
    _check_pool(len(pool), ngram_counts, ngram_indexes, len(factors))
    total: Any = p.full((rows.shape[0], width), 0, float32)
    for length, first, grams in _split_pool(pool, ngram_counts):
        if min_gram_length <= length <= max_gram_length and len(grams):
            counts = _count_grams(rows, grams, max_skip_count if length > 1 else 0)
            if mode == "IDF":
                counts = p.minimum(counts, 1.0)
            feature_weights = np.zeros((len(grams), width), np.float32)
            for k in range(len(grams)):
                feature_weights[k, ngram_indexes[first + k]] = factors[first + k]
            total = p.add(total, p.matmul(counts, lift(feature_weights)))
    return p.squeeze(total, [0]) if X.rank == 1 else total


def _pool(X: Tensor, numbers: Ints, texts: Strings) -> np.ndarray:
    """Return the flat pool: the texts, or the numbers if there are no texts. Raises InvalidModelError without both."""
    if texts:
        return np.asarray(list(texts), object)
    if numbers is None:
        raise InvalidModelError("a TfIdfVectorizer needs pool_strings or pool_int64s")
    return np.asarray(lift(list(numbers), X.dtype).value)


def _check_pool(length: int, starts: Sequence[int], indexes: Sequence[int], weights: int) -> None:
    """Raise InvalidModelError unless the flat pool of a TfIdfVectorizer splits into whole n-grams.

    - length: the number of elements of the pool.
    - starts: entry n - 1 is the position at which the n-grams of length n begin (`ngram_counts`).
    - indexes: `ngram_indexes`. There must be at least one, and none may be negative.
    - weights: the number of weights.

    Each n-gram must have an index and a weight. More indexes or weights than n-grams are accepted.
    """
    ends = [*starts[1:], length]
    if not indexes or min(indexes) < 0:
        raise InvalidModelError("the ngram_indexes of a TfIdfVectorizer are 0 or more, and there is one at least")
    if any(not 0 <= start <= end <= length for start, end in zip(starts, ends)):
        raise InvalidModelError("the ngram_counts %s do not fit a pool of %d elements" % (list(starts), length))
    if any((end - start) % size for size, (start, end) in enumerate(zip(starts, ends), 1)):
        raise InvalidModelError("the ngram_counts %s divide no whole n-grams from each other" % list(starts))
    grams = sum((end - start) // size for size, (start, end) in enumerate(zip(starts, ends), 1))
    if grams > len(indexes) or grams > weights:
        counts = (grams, len(indexes), weights)
        raise InvalidModelError("a TfIdfVectorizer has %d n-grams, %d indexes and %d weights" % counts)


def _split_pool(pool: np.ndarray, starts: Sequence[int]) -> List[Tuple[int, int, np.ndarray]]:
    """Split the flat pool into n-grams. Return a list with a triple for each n = 1, 2, … up to the length of `starts`.

    The triple is (n, number of shorter n-grams, array of the n-grams [count, n]). `starts[n - 1]` is the position in
    the pool where the n-grams of length n begin.
    """
    groups: List[Tuple[int, int, np.ndarray]] = []
    number = 0
    for length, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)]), 1):
        grams = pool[start:end].reshape(-1, length)
        groups.append((length, number, grams))
        number += len(grams)
    return groups


def _count_grams(rows: Tensor, grams: np.ndarray, skips: int) -> Tensor:
    """Return how often each n-gram occurs in each row: a float32 tensor [rows, n-grams]. `grams` is [n-grams, n].

    In an occurrence, the same number of elements is skipped between all adjacent elements of the n-gram. The counts
    for 0 to `skips` skipped elements are added.
    """
    extent, length = rows.shape[1], grams.shape[1]
    total: Any = p.full((rows.shape[0], len(grams)), 0, int32)
    for stride in range(1, skips + 2):
        windows = extent - (length - 1) * stride
        if is_static(windows) and windows <= 0:
            break
        windows = maximum(windows, 0)
        matches: Any = None
        for k in range(length):
            part = p.unsqueeze(p.slice_axis(rows, 1, k * stride, windows + k * stride), [2])
            is_equal_part = p.equal(part, lift(grams[:, k], rows.dtype))
            matches = is_equal_part if matches is None else p.logical_and(matches, is_equal_part)
        total = p.add(total, p.reduce_sum(p.cast(matches, int32), [1]))
    return p.cast(total, float32)

"""Scales of attention scores, queries and keys fold, with the results of the reference."""

from typing import Any, List

import numpy as np
import pytest
from programs import names

from matrix.harness.generators import per_test
from onnx_compat import primitives as p

RANDOM = per_test(np.random.RandomState(0))
W, V = (RANDOM.standard_normal((6, 6)).astype(np.float32) for _ in range(2))
ROOT = np.float32(0.6)


def heads(x: Any) -> Any:
    return p.reshape(x, [x.shape[0], x.shape[1], 2, 3])


def scores(q: Any, k: Any) -> Any:
    return p.matmul(p.transpose(q, [0, 2, 1, 3]), p.transpose(k, [0, 2, 1, 3]), transpose_y=True)


def kinds(function: Any, *shapes: Any) -> List[str]:
    """Return the operators of a program without those that move data. Assert that the results equal the reference."""
    fed = [[3 if size is None else size for size in shape] for shape in shapes]
    moves = ("TRANSPOSE", "RESHAPE", "SHAPE", "STRIDED_SLICE", "PACK")
    return [name for name in names(function, *shapes, fed=fed, atol=2e-4) if name not in moves]


LAYERS = ["FULLY_CONNECTED", "FULLY_CONNECTED", "BATCH_MATMUL"]


@pytest.mark.parametrize("sizes", [(2, 4, 6), (None, None, 6)])
@pytest.mark.parametrize(("left", "right", "after"), [(ROOT, ROOT, None), (None, ROOT, None), (None, None, 0.4)])
def test_the_scale_of_scores_folds_into_the_layer_before(sizes: Any, left: Any, right: Any, after: Any) -> None:
    def scale_scores(x: Any) -> Any:
        q, k = (heads(p.matmul(x, weights)) for weights in (W, V))
        q, k = q if left is None else p.mul(q, left), k if right is None else p.mul(right, k)
        return scores(q, k) if after is None else p.div(scores(q, k), np.float32(after))

    assert kinds(scale_scores, sizes) == LAYERS


def test_without_a_layer_the_smaller_side_is_scaled() -> None:
    """In a decoder step, the keys of the cache stay unscaled."""

    def scale_scores(q: Any, k: Any) -> Any:
        return p.div(p.matmul(p.mul(q, ROOT), p.mul(k, ROOT), transpose_y=True), np.float32(2))

    for keys in (40, None):
        assert kinds(scale_scores, (2, 1, 3), (2, keys, 3)) == ["MUL", "BATCH_MATMUL"]
    assert kinds(lambda q, k: p.matmul(p.mul(q, ROOT), k), (2, 4, 3), (2, 3, 5)) == ["MUL", "BATCH_MATMUL"]


def test_scales_with_other_readers_or_several_elements_stay() -> None:
    def read_twice(x: Any) -> Any:
        q, k = p.mul(heads(p.matmul(x, W)), ROOT), p.mul(heads(p.matmul(x, V)), ROOT)
        return p.add(p.reduce_sum(scores(q, k)), p.reduce_sum(p.add(q, k)))

    def square(x: Any) -> Any:
        y = p.mul(p.matmul(x, W), ROOT)
        return p.matmul(p.exp(x), p.matmul(y, y))

    assert kinds(read_twice, (2, 4, 6)).count("ADD") == 2
    kinds(square, (2, 6, 6))
    kinds(lambda x: p.matmul(p.mul(x, ROOT), p.mul(x, ROOT)), (2, 6, 6))
    columns = RANDOM.standard_normal(3).astype(np.float32)
    assert "MUL" in kinds(lambda x: scores(p.mul(heads(p.matmul(x, W)), columns), heads(x)), (2, 4, 6))
    assert "MUL" in kinds(lambda x: scores(p.mul(heads(p.matmul(x, W)), np.float32(0)), heads(x)), (2, 4, 6))
    bounded = kinds(lambda x: scores(p.mul(p.relu(heads(p.matmul(x, W))), -ROOT), heads(x)), (2, 4, 6))
    assert "MUL" in bounded

"""Gather skips its handling of negative indices if sign analysis proves that no index is negative.

The results stay right.
"""

from typing import Any, List

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import bool_, float32, int32, int64
from onnx_compat.ops.indexing import gather, gather_nd
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program

DATA = np.arange(12, dtype=np.float32)


def primitives_of(make_indices: Any, operator: Any = gather) -> List[str]:
    """Return the primitives of a Gather with the indices `make_indices(input)`, input [n, 3].

    Assert that its result is right.
    """
    ports = [Port("x", int64, ("n", 3)), Port("y", float32, (12,))]
    indices: List[Any] = []

    def function(x: Any, y: Any) -> Any:
        indices.append(make_indices(x))
        return [operator(y, indices[0]), indices[0]]

    program = record_program(function, ports, Reference())
    x = np.asarray([[3, -4, 1], [0, 2, -1]])
    elements, at = emit(program.region, Reference(), [x, DATA])
    np.testing.assert_array_equal(elements, DATA[at] if operator is gather else DATA[at[..., 0]])
    return [node.primitive for node in program.region.live()]


def counts(x: Any) -> Any:
    return p.iota(x.shape[0])


@pytest.mark.parametrize(
    "make_indices",
    [
        counts,
        lambda x: p.add(p.mul(p.unsqueeze(counts(x), [1]), x.shape[1]), p.reshape(p.cast(counts(x), int64), (1, -1))),
        lambda x: p.slice(np.arange(12), [0], [x.shape[0]], [1]),
        lambda x: p.cumsum(p.cast(p.less(x, 2), int64), 1),
        lambda x: p.maximum(x, 0),
        lambda x: p.mod(x, 5),
        lambda x: p.floordiv(counts(x), 2),
        lambda x: p.where(p.less(x, 0), np.asarray([[5, 6, 7]]), p.maximum(0, x)),
        lambda x: p.concat([counts(x), np.asarray([4])], 0),
        lambda x: p.reduce_sum(p.cast(p.cast(x, bool_), int32), [1]),
    ],
)
def test_nonnegative_indices_are_not_normalised(make_indices: Any) -> None:
    unsure = primitives_of(lambda x: p.neg(p.neg(make_indices(x))))
    assert len(primitives_of(make_indices)) == len(unsure) - len(["neg", "neg", "less", "add", "where"])


@pytest.mark.parametrize(
    "make_indices",
    [
        lambda x: x,
        lambda x: p.sub(counts(x), 1),
        lambda x: p.mul(counts(x), -1),
        lambda x: p.fmod(x, 5),
        lambda x: p.mod(x, -5),
        lambda x: p.floordiv(counts(x), -2),
        lambda x: p.add(counts(x), -1),
        lambda x: p.minimum(counts(x), p.reduce_min(x, [1])),
        lambda x: p.where(p.less(x, 2), x, 3),
        lambda x: p.concat([counts(x), p.reduce_min(x, [0])], 0),
        lambda x: p.clip(counts(x), None, -1),
        lambda x: p.cast(p.cast(x, float32), int64),
        lambda x: p.slice(np.arange(12) - 6, [0], [x.shape[0]], [1]),
        lambda x: p.arange(np.int64(1), np.int64(-3), np.int64(-1)) + p.mul(p.reduce_sum(x), 0),
        lambda x: p.cast(p.add(p.cast(counts(x), int64), 2**32 - 1), int32),
    ],
)
def test_other_indices_may_count_from_the_end(make_indices: Any) -> None:
    assert {"less", "where"} <= set(primitives_of(make_indices))


def test_rows_of_coordinates() -> None:
    assert "less" not in primitives_of(lambda x: p.unsqueeze(counts(x), [1]), gather_nd)
    assert "less" in primitives_of(lambda x: p.unsqueeze(p.sub(counts(x), 1), [1]), gather_nd)


def test_a_long_index_computation_is_not_analysed() -> None:
    def long(x: Any) -> Any:
        total = counts(x)
        for _ in range(2000):
            total = p.minimum(p.add(total, 1), 5)
        return total

    assert "less" in primitives_of(long)

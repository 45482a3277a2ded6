"""Broadcasts sink to their last consumer, also with pending orders and symbolic sizes, and the results stay equal."""

from typing import Any, List

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import float32, int64
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

X, Y = (
    np.random.RandomState(k).uniform(1, 2, shape).astype(np.float32) for k, shape in enumerate([(2, 3, 1), (2, 3, 4)])
)


def record(function: Any, sizes: Any = (X.shape, Y.shape)) -> List[Any]:
    """Return the recorded primitives and the sizes of their results. Assert that the results equal those of numpy."""
    program = record_program(
        lambda x, y: [function(x, y)], [Port("x", float32, sizes[0]), Port("y", float32, sizes[1])], Reference()
    )
    np.testing.assert_allclose(
        emit(program.region, Reference(), [X, Y])[0], function(lift(X), lift(Y)).value, rtol=1e-6
    )
    return [(node.primitive, node.outputs[0].spec.shape) for node in program.region.live()]


def wide(x: Any, y: Any) -> Any:
    return p.broadcast_to(x, y.shape)


@pytest.mark.parametrize("sizes", [(X.shape, Y.shape), (("n", "m", 1), ("n", "m", 4))], ids=["fixed", "open"])
def test_an_operand_that_broadcasts_is_not_repeated(sizes: Any) -> None:
    nodes = record(lambda x, y: p.mul(p.cast(p.cast(wide(p.exp(x), y), int64), float32), y), sizes)
    assert [name for name, _ in nodes] == ["exp", "cast", "cast", "mul"]
    transposed = record(lambda x, y: p.add(*[p.transpose(value, (2, 0, 1)) for value in (wide(x, y), y)]), sizes)
    assert "broadcast_to" not in [name for name, _ in transposed]


def test_the_broadcast_sinks_below_the_primitive() -> None:
    nodes = record(lambda x, y: p.reduce_sum(p.sqrt(p.add(wide(x, y), 1.0)), [1]))
    assert nodes == [("add", X.shape), ("sqrt", X.shape), ("reduce_sum", (2, 1)), ("broadcast_to", (2, 4))]
    assert record(lambda x, y: p.reduce_sum(wide(x, y), [2]))[0] == ("broadcast_to", Y.shape)
    lower = record(lambda x, y: p.neg(p.broadcast_to(p.reshape(x, (6, 1)), (5, 6, 4))))
    assert [name for name, _ in lower] == ["reshape", "neg", "broadcast_to"]


def test_a_broadcast_scalar_is_a_scalar() -> None:
    def mask(x: Any, y: Any) -> Any:
        least, none = (p.broadcast_to(lift(np.float32(number)), y.shape) for number in (-np.inf, 0))
        return p.exp(p.add(p.where(p.less(y, 1.5), least, none), y))

    assert [name for name, _ in record(mask, (X.shape, ("n", "m", "k")))] == ["less", "where", "add", "exp"]


def test_an_operand_that_may_be_longer_is_broadcast() -> None:
    """A symbolic size that is broadcast with 4 is 4 or 1."""
    program = record_program(
        lambda x, y: [p.add(p.broadcast_to(x, (2, 4)), y)],
        [Port("x", float32, (2, 1)), Port("y", float32, (2, "n"))],
        Reference(),
    )
    for many in (1, 4):
        result = emit(program.region, Reference(), [np.ones((2, 1), np.float32), np.ones((2, many), np.float32)])[0]
        assert result.shape == (2, 4)

"""Primitives that move data: they detect repeated tensors, refuse wrong arguments, and drop steps without effect."""

from typing import Any, List

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import float32, int32, int64
from onnx_compat.primitives.shape import broadcast_source, is_broadcastable
from onnx_compat.reference import Reference
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift


def numbers(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


# -- broadcasts --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [
        ((3,), (2, 3), True),
        ((1, 3), (2, 3), True),
        ((2, 1), (2, 3), True),
        ((), (2, 3), True),
        ((2,), (2, 3), False),
        ((3, 3), (2, 3), False),
        ((2, 3), (3,), False),
        ((1, 2, 3), (2, 3), False),
        ((None,), (2, 3), False),
        ((3,), (2, None), False),
        ((3,), (None, 3), True),
    ],
)
def test_a_shape_broadcasts_if_each_of_its_sizes_does(narrow: Any, wide: Any, expected: bool) -> None:
    assert is_broadcastable(narrow, wide) is expected


def test_the_source_of_a_broadcast_is_found() -> None:
    sources: List[Any] = []
    ports = [Port("x", float32, (3,)), Port("y", float32, (2, 1)), Port("z", float32, (2, 3))]

    def body(x: Any, y: Any, z: Any) -> Any:
        low, same, none = p.broadcast_to(x, (2, 3)), p.broadcast_to(y, (2, 3)), p.exp(z)
        transposed_low = p.transpose(low, [1, 0])
        transposed_same = p.transpose(same, [1, 0])
        sources.extend(broadcast_source(tensor) for tensor in (low, same, none, z, transposed_low, transposed_same))
        sources.extend([x, y, none, z, transposed_low])
        return [low, same, none]

    record_program(body, ports, Reference())
    low, same, none, z, transposed_low, transposed_same, x, y, *rest = sources
    assert (low.ref, low.shape) == (x.ref, (3,))
    assert (same.ref, same.shape) == (y.ref, (2, 1))
    assert [none, z, transposed_low] == rest, (
        "a tensor that was not repeated, or lies in another order, is its own source"
    )
    assert (transposed_same.ref, transposed_same.shape) == (y.ref, (1, 2))


@pytest.mark.parametrize("constant", [np.float32(5), np.full((1, 1), 5, "f"), numbers(3), numbers(4, 1)])
def test_the_source_of_a_repeated_constant_is_the_constant(constant: Any) -> None:
    sources: List[Any] = []

    def body(x: Any) -> Any:
        wide = p.broadcast_to(constant, (x.shape[0], 4, 3))
        sources.append((broadcast_source(wide), broadcast_source(p.transpose(wide, [1, 0, 2]))))
        return [wide]

    record_program(body, [Port("x", float32, ("n",))], Reference())
    ((source, transposed_source),) = sources
    assert source.known and source.dtype == float32
    np.testing.assert_array_equal(np.squeeze(source.value), np.squeeze(constant))
    if np.size(constant) == 1:
        assert source.rank == transposed_source.rank == 0 and transposed_source.value == 5, (
            "one number is the same in every order"
        )
    else:
        assert not transposed_source.known and transposed_source.rank == 3


# -- what is refused ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "function",
    [
        lambda x: p.reshape(x, [7]),
        lambda x: p.reshape(x, [-2, -3]),
        lambda x: p.reshape(x, [-1, -1]),
        lambda x: p.reshape(x, [0, -1]),
        lambda x: p.transpose(x, [0, 0]),
        lambda x: p.transpose(x, [0]),
        lambda x: p.transpose(x, [0, 2]),
        lambda x: p.tile(x, [2]),
        lambda x: p.unsqueeze(x, [0, 0]),
        lambda x: p.unsqueeze(x, [0, -4]),
        lambda x: p.unsqueeze(x, [4]),
        lambda x: p.slice(x, [0, 0], [None, None], [1, 0]),
        lambda x: p.reverse(x, [2]),
        lambda x: p.reverse(x, [-3]),
        lambda x: p.broadcast_to(x, [3]),
        lambda x: p.broadcast_to(x, [4, 3]),
        lambda x: p.split(x, 1, [1, 1]),
    ],
)
def test_arguments_that_do_not_fit_are_refused(function: Any) -> None:
    with pytest.raises(InvalidModelError):
        function(lift(numbers(2, 3)))
    with pytest.raises(InvalidModelError):
        record_program(lambda x: [function(x)], [Port("x", float32, (2, 3))], Reference())


def test_negative_axes_count_from_the_end() -> None:
    x = numbers(2, 3)
    np.testing.assert_array_equal(p.reverse(x, [-1]).value, x[:, ::-1])
    np.testing.assert_array_equal(p.reverse(x, [-2]).value, x[::-1])
    assert p.unsqueeze(x, [-1, 0]).shape == (1, 2, 3, 1)
    assert p.squeeze(numbers(1, 3, 1), [-1]).shape == (1, 3)
    assert [piece.shape for piece in p.split(x, -1, [1, 2])] == [(2, 1), (2, 2)]


def test_operations_without_effect_are_no_nodes() -> None:
    ports = [Port("x", float32, ("n", 3)), Port("y", int32, (2,))]

    def body(x: Any, y: Any) -> Any:
        n = x.shape[0]
        assert p.reshape(x, [n, 3]) is x and p.reshape(x, [-1, 3]) is x and p.broadcast_to(x, [n, 3]) is x
        assert p.tile(x, [1, 1]) is x and p.pad(x, [0, 0], [0, 0]) is x and p.concat([x], 0) is x
        return [p.tile(x, [1, 2]), p.pad(x, [0, 0], [0, 1]), p.concat([y, y], 0)]

    program = record_program(body, ports, Reference())
    assert [node.primitive for node in program.region.live()] == ["tile", "pad", "concat"]


def test_the_padding_of_a_tensor_is_zero_or_empty_text() -> None:
    np.testing.assert_array_equal(p.pad(numbers(2), [1], [0]).value, [0, 0, 1])
    np.testing.assert_array_equal(p.pad(np.array(["a"], object), [1], [1]).value, ["", "a", ""])
    np.testing.assert_array_equal(p.pad(numbers(2), [1], [1], value=np.float32(7)).value, [7, 0, 1, 7])
    np.testing.assert_array_equal(p.pad(numbers(3), [1], [2], "reflect").value, [1, 0, 1, 2, 1, 0])
    np.testing.assert_array_equal(p.pad(numbers(3), [1], [2], "edge").value, [0, 0, 1, 2, 2, 2])


def test_the_shape_of_a_tensor_is_a_vector_of_integers() -> None:
    assert p.shape_of(numbers(2, 3)).value.tolist() == [2, 3]
    empty = p.shape_of(np.float32(1))
    assert empty.shape == (0,) and empty.dtype == int64

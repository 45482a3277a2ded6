"""Operands of every kind meet operands with a pending order.

The kinds are run-time values, constants and tensors of symbolic sizes, of full and of lower rank. All sizes are 2, so
that an operand in a wrong order gives wrong numbers and no error.
"""

import itertools
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Sequence, Tuple

import numpy as np
import pytest
from channels_last import ChannelsLast

from onnx_compat import primitives
from onnx_compat.ir.dtypes import bool_, float32, int32, int64
from onnx_compat.ir.window import Window
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor, lift

#: The sizes of an input `d` without elements, which tensors of symbolic sizes are made of.
SIZES = (3, 0, 11, 5, 7, 2, 13, 6)
RANK = 3


class Operand(NamedTuple):
    """An operand: the function that makes it from the inputs x, y and d, and its expected value."""

    name: str
    make: Callable[[Tensor, Tensor], Tensor]
    value: np.ndarray


def _physical(seed: int, order: Sequence[int]) -> np.ndarray:
    return np.random.RandomState(seed).randint(1, 9, (2,) * len(order)).astype(np.int64)


def pending(order: Sequence[int]) -> Operand:
    """Return a run-time value with a pending order: its physical axis j is the logical axis order[j]."""
    perm = [order.index(axis) for axis in range(len(order))]
    physical = _physical(0, order)

    def make(x: Tensor, d: Tensor) -> Tensor:
        lower = x if len(order) == RANK else primitives.take(x, 0, 0) if len(order) == 2 else x
        return primitives.transpose(lower, perm)

    stored = physical if len(order) == RANK else _physical(0, range(RANK))[0]
    return Operand("pending%s" % (tuple(order),), make, stored.transpose(perm))


def constant(rank: int) -> Operand:
    array = np.random.RandomState(rank + 1).randint(1, 9, (2,) * rank).astype(np.int64)
    return Operand("constant%d" % rank, lambda x, d: lift(array), array)


def symbolic(shape: Sequence[int]) -> Operand:
    """Return a tensor whose elements are distinct symbolic sizes, so that its values are known only at run time."""
    count = int(np.prod(shape))

    def make(x: Tensor, d: Tensor) -> Tensor:
        sizes = primitives.reshape(primitives.slice(primitives.shape_of(d), [0], [count], [1]), shape)
        assert sizes.value is not None and not sizes.known, "this operand is meant to be symbolic"
        return sizes

    return Operand("symbolic%s" % (tuple(shape),), make, np.array(SIZES[:count], np.int64).reshape(shape))


ORDERS = list(itertools.permutations(range(RANK)))
PENDING = [pending(order) for order in ORDERS]
LOWER = [pending(order) for order in itertools.permutations(range(2))]
SYMBOLIC = [symbolic(s) for s in ((2, 2, 2), (2, 2), (2,), (), (1, 2, 2), (2, 1, 2), (2, 2, 1), (1, 1, 1), (2, 1))]
OTHERS = [*PENDING, *LOWER, *[constant(rank) for rank in range(RANK + 1)], *SYMBOLIC]


def run(function: Callable[..., Any], operands: Sequence[Operand], emitter: Any = Reference, size: Any = None) -> Any:
    """Record a function of these operands, run it, and return its results. x has the size `size`; the sizes of d are
    symbolic.
    """
    ports = [Port("x", int64, (size,) * RANK), Port("d", int64, (None,) * len(SIZES))]

    def body(x: Tensor, d: Tensor) -> List[Tensor]:
        results = function(*[operand.make(x, d) for operand in operands])
        return list(results) if isinstance(results, (list, tuple)) else [results]

    program = record_program(body, ports, emitter())
    return emit(program.region, emitter(), [_physical(0, range(RANK)), np.zeros(SIZES, np.int64)])


def check(
    function: Callable[..., Any], expected: Callable[..., Any], operands: Sequence[Operand], sizes: Any = (None, 2)
) -> None:
    wanted = expected(*[operand.value for operand in operands])
    wanted = wanted if isinstance(wanted, list) else [wanted]
    names = [operand.name for operand in operands]
    for size in sizes:
        for got, want in zip(run(function, operands, size=size), wanted):
            np.testing.assert_array_equal(got, want, err_msg=str(names))


def _divide(x: Any, y: Any) -> Any:
    return np.trunc(x / np.where(y == 0, 1, y)).astype(np.int64)


BINARY: Dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "maximum": np.maximum, "minimum": np.minimum, "equal": np.equal, "less": np.less, "less_equal": np.less_equal,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor,
}  # fmt: skip
#: Not defined where the divisor is zero.
DIVIDING: Dict[str, Callable[[Any, Any], Any]] = {
    "div": _divide, "floordiv": np.floor_divide, "mod": np.mod, "fmod": np.fmod
}  # fmt: skip


def _pairs() -> Iterator[Tuple[Operand, Operand]]:
    for left, right in itertools.product(PENDING, OTHERS):
        yield left, right
        yield right, left


@pytest.mark.parametrize("name", sorted(BINARY))
def test_two_operands(name: str) -> None:
    for left, right in _pairs():
        check(getattr(primitives, name), BINARY[name], [left, right])


@pytest.mark.parametrize("name", sorted(DIVIDING))
def test_two_operands_that_are_divided(name: str) -> None:
    for left, right in _pairs():
        divisor = right._replace(
            make=lambda x, d, make=right.make: primitives.add(make(x, d), 1), value=right.value + 1
        )
        check(getattr(primitives, name), DIVIDING[name], [left, divisor])


def test_powers_take_exponents_in_their_order() -> None:
    for base, exponent in itertools.product(PENDING, OTHERS):
        check(primitives.pow, np.power, [base, exponent])


@pytest.mark.parametrize("position", range(3))
def test_where(position: int) -> None:
    """Operands of Where: one with a pending order, the two others of every kind."""
    for pending, *rest in itertools.product(PENDING, OTHERS, OTHERS[::3]):
        operands = [*rest[:position], pending, *rest[position:]]
        check(
            lambda c, x, y: primitives.where(primitives.less(c, 5), x, y),
            lambda c, x, y: np.where(c < 5, x, y),
            operands,
        )


@pytest.mark.parametrize("axis", range(RANK))
def test_concat(axis: int) -> None:
    whole = [operand for operand in OTHERS if operand.value.shape == (2,) * RANK]
    for operands in itertools.product(whole, whole, [PENDING[3], SYMBOLIC[0]]):
        check(lambda *xs: primitives.concat(xs, axis), lambda *xs: np.concatenate(xs, axis), operands)


@pytest.mark.parametrize("axis", range(RANK))
def test_indices(axis: int) -> None:
    """A tensor of symbolic sizes is the index along an axis, and the tensor that is indexed."""
    halved = symbolic((2, 2, 2))
    halved = halved._replace(make=lambda x, d, make=halved.make: primitives.mod(make(x, d), 2), value=halved.value % 2)
    for x in [*PENDING, SYMBOLIC[0]]:
        check(
            lambda x, i: primitives.take_along(x, i, axis),
            lambda x, i: np.take_along_axis(x, i, axis),
            [x, halved],
        )
        indices = symbolic((2,))
        indices = indices._replace(
            make=lambda x, d, make=indices.make: primitives.minimum(make(x, d), 1), value=np.minimum(indices.value, 1)
        )
        check(lambda x, i: primitives.take(x, i, axis), lambda x, i: np.take(x, i, axis), [x, indices])


def _rows(x: Any, indices: Any) -> Any:
    return x[tuple(np.moveaxis(indices, -1, 0))]


def _scatter(x: Any, indices: Any, updates: Any) -> Any:
    result = x.copy()
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


def test_rows_of_coordinates() -> None:
    """Coordinates modulo symbolic sizes, in any order, as boolean masks and detectors compute them after NonZero."""
    whole = [operand for operand in OTHERS if operand.value.shape == (2, 2)]
    for x, rows, shift in itertools.product([*PENDING, SYMBOLIC[0]], LOWER, whole):
        check(
            lambda x, i, k: primitives.gather_nd(x, primitives.mod(primitives.add(i, k), 2)),
            lambda x, i, k: _rows(x, (i + k) % 2),
            [x, rows, shift],
            sizes=[2],  # how many coordinates a row has must be known
        )
    distinct = Operand("rows", lambda x, d: lift([[0, 1], [1, 0]], int64), np.array([[0, 1], [1, 0]]))
    for x, updates in itertools.product([*PENDING, SYMBOLIC[0]], whole):
        check(primitives.scatter_nd, _scatter, [x, distinct, updates])


def test_products_of_matrices() -> None:
    whole = [operand for operand in OTHERS if operand.value.ndim >= 2 and operand.value.shape[-2:] == (2, 2)]
    for x, y in itertools.product(whole, whole):
        check(
            lambda x, y: primitives.matmul(primitives.cast(x, float32), primitives.cast(y, float32)),
            lambda x, y: np.matmul(x, y).astype(np.float32),
            [x, y],
        )


CASTS = [(float32, np.float32), (int32, np.int32), (bool_, np.bool_)]


@pytest.mark.parametrize("dtype", CASTS, ids=lambda pair: pair[0].name)
def test_another_dtype(dtype: Any) -> None:
    """A cast of a tensor of symbolic sizes to another dtype happens at run time."""
    ours, theirs = dtype
    for x, updates in itertools.product(PENDING, OTHERS):
        check(
            lambda x, y: primitives.equal(primitives.cast(x, ours), primitives.cast(y, ours)),
            lambda x, y: x.astype(theirs) == y.astype(theirs),
            [x, updates],
        )


#: What only moves or sums elements: over primitives, and in numpy.
MOVES: Dict[str, Tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "reverse": (lambda y: primitives.reverse(y, [0, 2]), lambda y: y[::-1, :, ::-1]),
    "tile": (
        lambda y: primitives.slice(primitives.tile(y, [1, 2, 1]), [0, 1, 0], [2, 3, 2], [1, 1, 1]),
        lambda y: np.tile(y, [1, 2, 1])[:, 1:3],
    ),
    "pad": (
        lambda y: primitives.slice(primitives.pad(y, [1, 0, 0], [0, 0, 0]), [0, 0, 0], [2, 2, 2], [1, 1, 1]),
        lambda y: np.pad(y, [(1, 0), (0, 0), (0, 0)], "constant")[:2],
    ),
    "cumsum": (lambda y: primitives.cumsum(y, 1), lambda y: np.cumsum(y, 1)),
    "sum": (lambda y: primitives.reduce_sum(y, [1], keepdims=True), lambda y: np.sum(y, 1, keepdims=True)),
    "max": (lambda y: primitives.reduce_max(y, [2]), lambda y: np.max(y, 2)),
}


@pytest.mark.parametrize("name", sorted(MOVES))
@pytest.mark.parametrize("perm", ORDERS)
def test_moves_of_a_tensor_of_sizes(name: str, perm: Any) -> None:
    """A tensor of symbolic sizes with a pending order is moved together with a pending operand."""
    ours, theirs = MOVES[name]
    for x in PENDING:
        check(
            lambda x, y: primitives.add(x, ours(primitives.transpose(y, perm))),
            lambda x, y: x + theirs(y.transpose(perm)),
            [x, SYMBOLIC[0]],
        )


def test_states_of_a_loop() -> None:
    """A loop, a branch and an output of the model take a tensor of symbolic sizes in logical order."""
    for x, y in itertools.product(PENDING, SYMBOLIC[:1]):
        check(
            lambda x, y: primitives.while_loop(
                lambda k, s, t: primitives.less(k, 2),
                lambda k, s, t: [primitives.add(k, 1), t, primitives.add(s, t)],
                [lift(0, int64), x, y],
            )[1:],
            lambda x, y: [x + y, x + 2 * y],
            [x, y],
        )
        check(lambda x, y: [primitives.transpose(y, [2, 0, 1]), x], lambda x, y: [y.transpose(2, 0, 1), x], [x, y])


def test_an_image_of_sizes_goes_into_a_convolution_channels_last() -> None:
    """A convolution requests physical orders for its image and its filter; here both are tensors of symbolic sizes."""
    weights = np.random.RandomState(5).uniform(-1, 1, (2, 2, 2)).astype(np.float32)
    window = Window.of((2,), pads=[(0, 1)])
    image = Operand("x", lambda x, d: x, _physical(0, range(RANK)))

    def network(x: Any, y: Any) -> List[Tensor]:
        x, y = primitives.cast(lift(x), float32), primitives.cast(lift(y), float32)
        of_sizes = primitives.conv(y, weights, window=window)
        return [
            primitives.add(primitives.conv(x, weights, window=window), y),
            of_sizes,
            primitives.conv(x, y, window=window),
        ]

    got = run(network, [image, SYMBOLIC[0]], ChannelsLast)
    for array, want in zip(got, network(image.value, SYMBOLIC[0].value)):
        np.testing.assert_allclose(array, want.value, rtol=1e-4, atol=1e-5)

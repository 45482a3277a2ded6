"""Sign analysis of integers: a tensor is called nonnegative only if that holds for every input."""

import itertools
from typing import Any, Callable, List

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import bool_, float32, int8, int16, int32, int64, uint8
from onnx_compat.reference import Reference
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.sign_analysis import is_nonnegative_tensor
from onnx_compat.tracing.values import lift

SIGNED = np.array([3, -2, 0, -128, 127], np.int8)
BYTES = np.array([3, 254, 0, 128, 127], np.uint8)
ARRAYS = [
    SIGNED,
    SIGNED.astype(np.int64),
    BYTES,
    np.array([True, False, True, False, True]),
    np.array([0.5, -1.5, 0, 2, -3], np.float32),
]
PORTS = [Port(name, dtype, ("n",)) for name, dtype in zip("abcdf", (int8, int64, uint8, bool_, float32))]


def claim(function: Callable[..., Any]) -> bool:
    """Return whether the analysis calls the result of a function of PORTS nonnegative.

    Assert that computed results agree.
    """
    claims: List[bool] = []

    def body(*tensors: Any) -> Any:
        result = function(*tensors)
        claims.append(is_nonnegative_tensor(result))
        return [result]

    program = record_program(body, PORTS, Reference())
    array = emit(program.region, Reference(), ARRAYS)[0]
    assert not claims[0] or array.size == 0 or array.min() >= 0, "a negative number was claimed to be none"
    return claims[0]


# -- known and symbolic values -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("numbers", "expected"), [([0, 1], True), ([1, -1], False), ([-1], False), ([], True), (5, True), (-5, False)]
)
def test_known_numbers(numbers: Any, expected: bool) -> None:
    assert is_nonnegative_tensor(lift(np.asarray(numbers, np.int64))) is expected


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        (lambda n: [n, 2 * n + 1], True),
        (lambda n: [n, n - 1], False),
        (lambda n: [n - 1, n], False),
        (lambda n: [3, n], True),
        (lambda n: [-3, n], False),
        (lambda n: [[n, 1], [n, -n]], False),
        (lambda n: [[n, 1], [n, n]], True),
    ],
)
def test_symbolic_sizes(sizes: Any, expected: bool) -> None:
    """All elements count: the first element proves nothing about the others."""

    def stack_sizes(a: Any, *_: Any) -> Any:
        rows = sizes(a.shape[0])
        return lift(rows, int64) if not isinstance(rows[0], list) else p.stack([lift(row, int64) for row in rows], 0)

    assert claim(stack_sizes) is expected


# -- recorded values ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b, c, d, f: a, False),
        (lambda a, b, c, d, f: c, True),
        (lambda a, b, c, d, f: d, True),
        # Floats are not integers: they may be NaN.
        (lambda a, b, c, d, f: p.abs(f), False),
        (lambda a, b, c, d, f: p.maximum(f, 0), False),
        (lambda a, b, c, d, f: p.add(p.maximum(f, 0), 1), False),
        # Sizes beside computed numbers.
        (lambda a, b, c, d, f: p.add(p.maximum(b, 0), lift(b.shape[0], int64)), True),
        (lambda a, b, c, d, f: p.add(p.maximum(b, 0), lift(b.shape[0] - 9, int64)), False),
        # Moved elements have the signs of the first argument alone.
        (lambda a, b, c, d, f: p.reshape(c, [-1, 1]), True),
        (lambda a, b, c, d, f: p.tile(p.maximum(b, 0), [2]), True),
        (lambda a, b, c, d, f: p.take(p.maximum(b, 0), p.clip(b, 0, 4), 0), True),
        (lambda a, b, c, d, f: p.take(b, p.cast(p.minimum(c, 4), int64), 0), False),
        (lambda a, b, c, d, f: p.take(np.arange(256), p.cast(c, int64), 0), True),
        (lambda a, b, c, d, f: p.take(np.arange(256) - 1, p.cast(c, int64), 0), False),
        (lambda a, b, c, d, f: p.reverse(p.maximum(b, 0), [0]), True),
        (lambda a, b, c, d, f: p.concat([p.maximum(b, 0), np.arange(3)], 0), True),
        (lambda a, b, c, d, f: p.concat([np.arange(3), b], 0), False),
        (lambda a, b, c, d, f: p.concat([p.maximum(b, 0), np.zeros(0, np.int64)], 0), True),
        # Results of arguments that are not negative.
        (lambda a, b, c, d, f: p.add(p.maximum(b, 0), 1), True),
        (lambda a, b, c, d, f: p.add(p.maximum(b, 0), -1), False),
        (lambda a, b, c, d, f: p.add(b, 128), False),
        (lambda a, b, c, d, f: p.mul(p.maximum(b, 0), p.maximum(b, 2)), True),
        (lambda a, b, c, d, f: p.mul(b, p.maximum(b, 2)), False),
        (lambda a, b, c, d, f: p.sub(p.maximum(b, 0), p.maximum(b, 0)), False),
        (lambda a, b, c, d, f: p.floordiv(p.maximum(b, 0), 3), True),
        (lambda a, b, c, d, f: p.minimum(p.maximum(b, 0), b), False),
        (lambda a, b, c, d, f: p.minimum(p.maximum(b, 0), 3), True),
        (lambda a, b, c, d, f: p.cumsum(p.maximum(b, 0), 0), True),
        (lambda a, b, c, d, f: p.reduce_sum(p.maximum(b, 0), [0]), True),
        (lambda a, b, c, d, f: p.reduce_prod(p.maximum(b, 0), [0]), True),
        (lambda a, b, c, d, f: p.reduce_prod(b, [0]), False),
        # The remainder has the sign of the divisor.
        (lambda a, b, c, d, f: p.mod(b, 3), True),
        (lambda a, b, c, d, f: p.mod(3, p.sub(b, 200)), False),
        (lambda a, b, c, d, f: p.mod(p.maximum(b, 0), -3), False),
        # One operand is enough.
        (lambda a, b, c, d, f: p.maximum(b, 0), True),
        (lambda a, b, c, d, f: p.maximum(0, b), True),
        (lambda a, b, c, d, f: p.maximum(b, -1), False),
        # The condition has no sign.
        (lambda a, b, c, d, f: p.where(p.less(b, 0), 1, p.maximum(b, 0)), True),
        (lambda a, b, c, d, f: p.where(d, b, 1), False),
        (lambda a, b, c, d, f: p.where(d, 1, b), False),
        # A range goes up from its start.
        (lambda a, b, c, d, f: p.arange(lift(0), p.reduce_max(p.maximum(b, 2), [0]), lift(1)), True),
        (lambda a, b, c, d, f: p.arange(lift(-1), p.reduce_max(p.maximum(b, 2), [0]), lift(1)), False),
        (lambda a, b, c, d, f: p.arange(lift(5), p.reduce_min(b, [0]), lift(-1)), False),
        (lambda a, b, c, d, f: p.neg(p.maximum(b, 0)), False),
    ],
)
def test_each_primitive(function: Any, expected: bool) -> None:
    assert claim(function) is expected


@pytest.mark.parametrize(
    ("narrow", "wide"), list(itertools.product([int8, int64, uint8, bool_], [int8, int16, int32, int64]))
)
def test_a_cast_keeps_the_sign_only_if_the_type_holds_all_numbers(narrow: Any, wide: Any) -> None:
    """254 in uint8 becomes -2 in int8; 3 * 2**32 - 1 in int64 becomes -1 in int32."""

    def cast_nonnegative(a: Any, b: Any, c: Any, d: Any, f: Any) -> Any:
        source = {int8: p.maximum(a, 0), int64: p.maximum(b, 0), uint8: c, bool_: d}[narrow]
        return p.add(p.cast(source, wide), lift(0, wide)) if narrow == wide else p.cast(source, wide)

    assert claim(cast_nonnegative) is (narrow == wide or wide.bits > narrow.bits)


def test_a_cast_keeps_a_negative_number() -> None:
    assert not claim(lambda a, b, c, d, f: p.cast(a, int64))
    assert not claim(lambda a, b, c, d, f: p.cast(p.maximum(f, 0), int64)), "a large float is any integer"
    assert claim(lambda a, b, c, d, f: p.cast(p.cast(a, uint8), int64)), "whatever it was, it is a byte in between"


@pytest.mark.parametrize(("length", "expected"), [(10, True), (60, True), (70, False), (200, False)])
def test_a_long_computation_is_not_analysed(length: int, expected: bool) -> None:
    """The analysis is recursive, so it stops at a depth: a model may have thousands of nodes in a row."""

    def add_repeatedly(a: Any, b: Any, *_: Any) -> Any:
        total = p.maximum(b, 0)
        for _ in range(length - 2):
            total = p.add(total, 1)
        return total

    assert claim(add_repeatedly) is expected


def test_a_value_that_is_read_twice_is_looked_at_once() -> None:
    def double_repeatedly(a: Any, b: Any, *_: Any) -> Any:
        total = p.mod(b, 2)
        for _ in range(25):  # 2**25 paths
            total = p.minimum(p.add(total, total), 1)
        return total

    assert claim(double_repeatedly)

"""Constant folding of known arguments and symbolic sizes. An expression that cannot be decided is recorded."""

from typing import Any

import numpy as np
import pytest

from onnx_compat import primitives
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir import Ref, Spec
from onnx_compat.ir.dims import Dim, is_equal, truncdiv
from onnx_compat.ir.dtypes import DType, float32, int64
from onnx_compat.reference import Reference
from onnx_compat.reference.shim import SHIM
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor, lift


def _sizes() -> Any:
    n, m = (Dim.atom("axis", Ref(Spec(int64, (None,))), 0) for _ in range(2))
    return n, m, lift([n, 3, m])


def _is(tensor: Tensor, *expected: Any) -> bool:
    assert tensor.value is not None
    return len(tensor.value) == len(expected) and all(map(is_equal, tensor.value, expected))


def test_arithmetic_of_sizes() -> None:
    n, m, shape = _sizes()
    assert _is(primitives.add(shape, 1), n + 1, 4, m + 1)
    assert _is(primitives.sub(10, shape), 10 - n, 7, 10 - m)
    assert _is(primitives.mul(shape, np.asarray([2, 0, 1])), n * 2, 0, m)
    assert _is(primitives.div(primitives.mul(shape, 4), 2), n * 2, 6, m * 2)
    assert _is(primitives.floordiv(shape, 2), n // 2, 1, m // 2)
    assert _is(primitives.div(primitives.sub(shape, 3), 4), truncdiv(n - 3, 4), 0, truncdiv(m - 3, 4))
    assert _is(primitives.mod(primitives.mul(shape, 6), 3), 0, 0, 0)
    assert _is(primitives.neg(shape), -n, -3, -m)
    assert _is(primitives.maximum(shape, 0), n, 3, m)
    assert primitives.reduce_prod(shape).value.item() == n * m * 3
    assert primitives.reduce_sum(shape, [0], keepdims=True).value[0] == n + m + 3


def test_moving_sizes() -> None:
    n, m, shape = _sizes()
    assert _is(primitives.take(shape, np.asarray([2, 0]), 0), m, n)
    assert _is(primitives.slice(shape, [1], [None], [1]), 3, m)
    assert _is(primitives.concat([shape, np.asarray([-1])], 0), n, 3, m, -1)
    assert _is(primitives.reverse(shape, [0]), m, 3, n)
    assert _is(primitives.cast(shape, DType.of("int32")), n, 3, m)
    assert _is(primitives.where(np.asarray([True, False, True]), shape, np.asarray([7, 7, 7])), n, 7, m)
    assert _is(primitives.pad(shape, [1], [0], value=lift(5)), 5, n, 3, m)
    assert _is(primitives.tile(shape, [2]), n, 3, m, n, 3, m)
    assert primitives.reshape(shape, [3, 1]).value.shape == (3, 1)
    assert primitives.broadcast_to(lift([n]), [2, 1]).value.shape == (2, 1)


def test_a_decided_comparison_is_a_known_number() -> None:
    n, _, shape = _sizes()
    result = primitives.equal(shape, lift([n, 3, -1]))
    assert result.known and result.value.dtype == bool and result.value.tolist() == [True, True, False]
    known = primitives.sub(lift([n + 2]), lift([n]))
    assert known.known and known.value.dtype == np.int64 and known.value.tolist() == [2]


def test_a_neutral_truth_value_adds_no_node() -> None:
    """`and` with a constant that is true everywhere, as masks have it, is not recorded."""

    def function(x: Any, y: Any) -> Any:
        yes, no = np.asarray(True), np.zeros((1, 1), bool)
        return [primitives.logical_and(yes, x), primitives.logical_or(x, no), primitives.logical_and(y, no)]

    ports = [Port("x", DType.of("bool"), (None, 3)), Port("y", DType.of("bool"), (3,))]
    program = record_program(function, ports, Reference())
    assert [node.primitive for node in program.region.live()] == ["logical_and"]
    x, y = np.asarray([[True, False, True]]), np.asarray([True, True, False])
    same, too, none = emit(program.region, Reference(), [x, y])
    assert same is x and too is x and none.tolist() == [[False] * 3]


def test_results_that_depend_on_values_are_computed_at_run_time() -> None:
    def function(x: Any) -> Any:
        shape = primitives.shape_of(x)
        same_lengths = primitives.equal(
            primitives.take(shape, np.asarray(0), 0), primitives.take(shape, np.asarray(1), 0)
        )
        assert not same_lengths.known
        return [same_lengths, primitives.sign(primitives.sub(shape, 3)), primitives.div(primitives.sub(shape, 5), 2)]

    program = record_program(function, [Port("x", float32, (None, None))], Reference())
    for shape in [(2, 2), (4, 3)]:
        same_lengths, signs, halves = emit(program.region, Reference(), [np.zeros(shape, np.float32)])
        assert bool(same_lengths) == (shape[0] == shape[1])
        assert signs.tolist() == [int(np.sign(size - 3)) for size in shape]
        assert halves.tolist() == [int((size - 5) / 2) for size in shape]


def test_shape_chains_leave_one_reshape() -> None:
    def function(x: Any) -> Any:
        shape = primitives.shape_of(x)
        rows = primitives.mul(primitives.take(shape, np.asarray(0), 0), primitives.take(shape, np.asarray(1), 0))
        target = primitives.concat([primitives.reshape(rows, [1]), primitives.slice(shape, [2], [None], [1])], 0)
        return [primitives.reshape(x, list(target.value))]

    program = record_program(function, [Port("x", float32, ("b", "s", 4))], Reference())
    assert [node.primitive for node in program.region.live()] == ["reshape"]
    assert SHIM.compile(program).run([np.zeros((2, 5, 4), np.float32)])[0].shape == (10, 4)


def test_folded_constants_are_copies() -> None:
    constant = np.arange(3, dtype=np.float32)
    program = record_program(
        lambda x: [x, lift(constant), primitives.transpose(x, [1, 0])], [Port("x", float32, (2, 2))], Reference()
    )
    compiled = SHIM.compile(program)
    x = np.ones((2, 2), np.float32)
    for array in compiled.run([x]):
        array[...] = -1
    assert x.min() == 1 and constant.tolist() == [0, 1, 2]


def test_carried_dtypes_are_rounded_when_they_run() -> None:
    kind = DType.of("bfloat16")
    program = record_program(lambda x, y: [primitives.add(x, y)], [Port(name, kind, ()) for name in "xy"], Reference())
    unit, small = np.asarray(1, np.float32), np.asarray(0.00390625, np.float32)
    (result,) = SHIM.compile(program).run([unit, small])
    assert result.dtype == np.float32 and result == 1


def test_impossible_values_are_errors_of_the_model() -> None:
    with pytest.raises(InvalidModelError, match="index 7 is out of range"):
        primitives.take(np.zeros(3, np.float32), np.asarray([7]), 0)
    with pytest.raises(InvalidModelError, match="cannot be reshaped"):
        primitives.reshape(np.zeros(3, np.float32), [2, 2])
    with pytest.raises(InvalidModelError, match="'INF' is no number of the type int64"):
        primitives.from_text(np.asarray(["INF"], object), int64)
    with pytest.raises(InvalidModelError, match="the primitive 'add' cannot be applied"):
        primitives.add(np.zeros(3, np.float32), np.zeros(2, np.float32))


def test_a_scan_over_no_rows() -> None:
    def body(total: Any, x: Any) -> Any:
        return [primitives.add(total, x), total]

    ports = [Port("s", float32, (2,)), Port("xs", float32, ("n", 2))]
    program = record_program(lambda s, xs: primitives.scan(body, [s], [xs], xs.shape[0]), ports, Reference())
    final, steps = SHIM.compile(program).run([np.ones(2, np.float32), np.zeros((0, 2), np.float32)])
    assert final.tolist() == [1, 1] and steps.shape == (0, 2)


@pytest.mark.parametrize("length", [3, "n"])
def test_a_scanned_state_keeps_its_static_sizes(length: Any) -> None:
    def body(total: Any, x: Any) -> Any:
        return [primitives.concat([total, x], 0), total]

    ports = [Port("s", float32, (2,)), Port("xs", float32, (length, 2))]
    with pytest.raises(InvalidModelError, match=r"a scanned state changes from .*2.* to .*4"):
        record_program(lambda s, xs: primitives.scan(body, [s], [xs], xs.shape[0]), ports, Reference())


def test_a_constant_of_two_dtypes_with_one_carrier() -> None:
    """The carrier of bfloat16 is float32."""
    array, dtypes = np.ones(2, np.float32), (float32, DType.of("bfloat16"))
    program = record_program(
        lambda x: [primitives.add(primitives.cast(x, dtype), lift(array, dtype)) for dtype in dtypes],
        [Port("x", float32, (2,))],
        Reference(),
    )
    constants = [node.args[1].spec.dtype for node in program.region.nodes if node.primitive == "add"]
    assert constants == list(dtypes)


@pytest.mark.parametrize("dtype", [float32, DType.of("float16")], ids=str)
def test_seeds(dtype: DType) -> None:
    program = record_program(
        lambda x: [primitives.random_uniform(x.shape, dtype, seed) for seed in (1.0, 1.0, None, None)],
        [Port("x", dtype, (300,))],
        Reference(),
    )
    first, again, third, fourth = SHIM.compile(program).run([np.zeros(300, dtype.numpy)])
    assert np.array_equal(first, again) and not np.array_equal(third, fourth)
    assert first.dtype == dtype.numpy and first.min() >= 0 and first.max() < 1

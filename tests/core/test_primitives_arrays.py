"""Primitives of the reference on whole arrays, compared with plain loops: shapes, indices, reductions, products,
windows.
"""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_compat import primitives
from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.window import Window
from onnx_compat.tracing.values import lift


def _numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    return np.random.RandomState(seed).randint(-9, 9, shape).astype(dtype)


# -- shapes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_padding(mode: str) -> None:
    x = np.arange(6).reshape(2, 3)
    result = primitives.pad(x, [1, 2], [1, 1], mode=mode, value=9).value
    rows = {"constant": [None, 0, 1, None], "edge": [0, 0, 1, 1], "reflect": [1, 0, 1, 0], "wrap": [1, 0, 1, 0]}[mode]
    columns = {
        "constant": [None, None, 0, 1, 2, None],
        "edge": [0, 0, 0, 1, 2, 2],
        "reflect": [2, 1, 0, 1, 2, 1],
        "wrap": [1, 2, 0, 1, 2, 0],
    }[mode]
    assert result.tolist() == [[9 if r is None or c is None else int(x[r, c]) for c in columns] for r in rows]


def test_an_empty_axis_cannot_be_padded_with_its_elements() -> None:
    with pytest.raises(InvalidModelError):
        primitives.pad(np.zeros((0, 2), np.float32), [1, 0], [0, 0], mode="edge")


def test_strings_move_like_numbers() -> None:
    x = np.asarray([["a", "b"], ["c", "d"]], object)
    assert primitives.transpose(x, [1, 0]).value.tolist() == [["a", "c"], ["b", "d"]]
    assert primitives.concat([x, x], 1).value.tolist() == [["a", "b", "a", "b"], ["c", "d", "c", "d"]]
    assert primitives.tile(x, [1, 2]).value.dtype == object
    assert primitives.pad(x, [0, 1], [0, 0], value=lift(np.asarray("", object))).value.tolist()[0] == ["", "a", "b"]
    assert primitives.take(x, np.asarray(1), 0).value.tolist() == ["c", "d"]


@given(st.integers(-5, 5), st.integers(-5, 9), st.sampled_from([-3, -1, 1, 2, 4]))
def test_ranges(start: int, stop: int, step: int) -> None:
    assert primitives.arange(start, stop, step).value.tolist() == list(range(start, stop, step))
    halves = [np.float32(n / 2) for n in (start, stop, step)]
    result = primitives.arange(*halves).value
    assert result.dtype == np.float32 and result.tolist() == [n / 2 for n in range(start, stop, step)]


_bounds = st.none() | st.integers(-6, 6)


@given(st.integers(0, 5), _bounds, _bounds, st.sampled_from([-2, -1, 1, 3]))
def test_slices_equal_pythons(size: int, start: Any, end: Any, step: int) -> None:
    x = list(range(size))
    first = start if start is not None else 0 if step > 0 else size - 1 if size else 0
    assert (
        primitives.slice(np.asarray(x, np.int64), [first], [end], [step]).value.tolist() == x[slice(first, end, step)]
    )


# -- indices ---------------------------------------------------------------------------------------------------------
def test_gathering_along_and_in_batches() -> None:
    x, indices = _numbers(2, 3, 4), np.asarray([[[0, 2], [1, 0]]])
    along = primitives.take_along(x, indices, 1).value
    assert along.tolist() == [[[x[0, indices[0, j, k], k] for k in range(2)] for j in range(2)]]
    rows = np.asarray([[[0], [2]], [[1], [1]]])
    batched = primitives.gather_nd(x, rows, 1).value
    assert batched.tolist() == [[x[b, int(rows[b, n, 0])].tolist() for n in range(2)] for b in range(2)]
    whole = primitives.gather_nd(x, np.zeros((5, 0), np.int64)).value
    assert whole.shape == (5, 2, 3, 4) and np.array_equal(whole[3], x)


@pytest.mark.parametrize(
    ("reduction", "meaning"),
    [("none", lambda _, b: b), ("add", lambda a, b: a + b), ("mul", lambda a, b: a * b), ("max", max), ("min", min)],
)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int32, np.uint8])
def test_scatter_applies_updates_in_order(reduction: str, meaning: Any, dtype: Any) -> None:
    x, rows = np.asarray([1, 2, 3, 4], dtype), np.asarray([[1], [3], [1]])
    updates = np.asarray([3, 5, 7], dtype)
    expected = x.tolist()
    for (index,), update in zip(rows.tolist(), updates.tolist()):
        expected[index] = meaning(expected[index], update)
    result = primitives.scatter_nd(x, rows, updates, reduction).value
    assert result.dtype == dtype and result.tolist() == expected and x.tolist() == [1, 2, 3, 4]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9), st.booleans(), st.data())
def test_top_k_puts_the_lower_index_first_among_equals(numbers: Any, largest: bool, data: Any) -> None:
    k = data.draw(st.integers(0, len(numbers)))
    for dtype in (np.uint8, np.int64, np.float16):
        values, indices = primitives.top_k(np.asarray(numbers, dtype), k, 0, largest)
        ranked = sorted(range(len(numbers)), key=lambda n: (-numbers[n] if largest else numbers[n], n))[:k]
        assert indices.value.tolist() == ranked and indices.value.dtype == np.int64
        assert values.value.tolist() == [numbers[n] for n in ranked] and values.value.dtype == dtype
        assert int(primitives.argmax(np.asarray(numbers, dtype), 0).value) == numbers.index(max(numbers))


def test_coordinates_of_elements_other_than_zero() -> None:
    x = np.asarray([[0.0, -0.0, math.nan], [1.0, 0.0, math.inf]], np.float32)
    assert primitives.nonzero(x).value.tolist() == [[0, 1, 1], [2, 0, 2]]
    assert primitives.nonzero(np.float32(3)).value.shape == (0, 1)


@pytest.mark.parametrize(("exclusive", "reverse"), [(False, False), (False, True), (True, False), (True, True)])
def test_running_sums(exclusive: bool, reverse: bool) -> None:
    numbers = [3, 1, 4, 1, 5]
    row = numbers[::-1] if reverse else numbers
    sums = [sum(row[: n + (not exclusive)]) for n in range(len(row))]
    result = primitives.cumsum(np.asarray([numbers], np.float16), 1, exclusive, reverse).value
    assert result.dtype == np.float16 and result[0].tolist() == (sums[::-1] if reverse else sums)
    assert primitives.cumsum(np.zeros((0, 2), np.int32), 0, exclusive, reverse).value.shape == (0, 2)


# -- reductions ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("reduce_sum", np.float32, 0),
        ("reduce_sum", np.int8, 0),
        ("reduce_prod", np.uint64, 1),
        ("reduce_max", np.float16, -math.inf),
        ("reduce_max", np.int16, -(2**15)),
        ("reduce_max", np.bool_, False),
        ("reduce_min", np.float64, math.inf),
        ("reduce_min", np.uint64, 2**64 - 1),
        ("reduce_min", np.bool_, True),
    ],
)
def test_reductions_of_no_elements(name: str, dtype: Any, expected: Any) -> None:
    result = getattr(primitives, name)(np.zeros((2, 0), dtype), [1]).value
    assert result.dtype == dtype and result.tolist() == [expected, expected]


def test_means() -> None:
    assert primitives.reduce_mean(np.asarray([-3, -4], np.int32)).value == -3
    assert primitives.reduce_mean(np.asarray([2**31 - 1] * 3, np.int32)).value == 2**31 - 1
    assert primitives.reduce_mean(np.asarray([250, 251], np.uint8)).value == 250
    assert np.isnan(primitives.reduce_mean(np.zeros((0,), np.float32)).value)
    assert primitives.reduce_mean(np.full(5000, 60000, np.float16)).value == np.float16(60000)
    assert primitives.reduce_sum(np.ones(4097, np.float16)).value == np.float16(4097)
    assert primitives.reduce_sum(np.full(3, 100, np.int8)).value == 44


def test_softmax_overflows_for_no_number() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        x = np.asarray([[np.finfo(dtype).max, 0], [-np.inf, 3], [1, 1]], dtype)
        assert primitives.softmax(x, 1).value.tolist() == [[1, 0], [0, 1], [0.5, 0.5]]
        assert primitives.log_softmax(x, 1).value[1].tolist() == [-np.inf, 0]
    assert primitives.softmax(np.zeros((2, 0), np.float32), 1).value.shape == (2, 0)


# -- products and windows --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8, np.int32, np.int64, np.complex64])
def test_products(dtype: Any) -> None:
    x, y = _numbers(2, 1, 3, 4, dtype=np.int64).astype(dtype), _numbers(5, 4, 2, seed=1, dtype=np.int64).astype(dtype)
    result = primitives.matmul(x, y, np.asarray([1, 2], dtype)).value
    with np.errstate(all="ignore"):
        expected = np.einsum("abij,bjk->abik", x.astype(np.complex128), y.astype(np.complex128)) + np.asarray([1, 2])
    if np.dtype(dtype).kind != "c":
        expected = expected.real.astype(np.int64)
    assert result.dtype == dtype and np.array_equal(result, expected.astype(dtype))
    swapped = primitives.matmul(x.swapaxes(-1, -2), y.swapaxes(-1, -2), None, True, True).value
    assert np.array_equal(swapped, result - np.asarray([1, 2], dtype))


def test_products_of_large_integers_are_exact() -> None:
    x = np.asarray([[2**62 + 1, 3]], np.int64)
    assert primitives.matmul(x, np.asarray([[1], [5]], np.int64)).value.tolist() == [[2**62 + 16]]


def _windows(draw: Any, rank: int) -> Any:
    kernel = [draw(st.integers(1, 3)) for _ in range(rank)]
    strides = [draw(st.integers(1, 3)) for _ in range(rank)]
    dilations = [draw(st.integers(1, 2)) for _ in range(rank)]
    pads = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in range(rank)]
    space = [
        max((k - 1) * d + 1 - low - high, 1) + draw(st.integers(0, 3))
        for k, d, (low, high) in zip(kernel, dilations, pads)
    ]
    return kernel, strides, dilations, pads, space


def _tap_position(position: Any, tap: Any, strides: Any, dilations: Any) -> Any:
    return [p * s + t * d for p, s, t, d in zip(position, strides, tap, dilations)]


def _all(sizes: Any) -> Any:
    return itertools.product(*map(range, sizes))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_convolutions(data: Any) -> None:
    rank = data.draw(st.integers(1, 3))
    kernel, strides, dilations, pads, space = _windows(data.draw, rank)
    groups, inner, per = (data.draw(st.integers(1, 3)) for _ in range(3))
    x, w = _numbers(2, groups * inner, *space), _numbers(groups * per, inner, *kernel, seed=1)
    window = Window.of(kernel, strides, dilations, pads)
    result = primitives.conv(x, w, np.arange(groups * per, dtype=np.float32), window=window, groups=groups).value
    wide = np.pad(x, [(0, 0), (0, 0), *pads], "constant")
    positions = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(wide.shape[2:], kernel, dilations, strides)]
    assert result.shape == (2, groups * per, *positions)
    for m, position in itertools.product(range(groups * per), _all(positions)):
        total = np.full(2, m, np.float32)
        for c, tap in itertools.product(range(inner), _all(kernel)):
            where = (slice(None), m // per * inner + c, *_tap_position(position, tap, strides, dilations))
            total += wide[where] * w[(m, c, *tap)]
        assert np.array_equal(result[(slice(None), m, *position)], total)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_transposed_convolutions(data: Any) -> None:
    rank = data.draw(st.integers(1, 3))
    kernel, strides, dilations, _, space = _windows(data.draw, rank)
    groups, inner, per = (data.draw(st.integers(1, 2)) for _ in range(3))
    x, w = _numbers(2, groups * inner, *space), _numbers(groups * inner, per, *kernel, seed=1)
    window = Window.of(kernel, strides, dilations)
    result = primitives.conv_transpose(x, w, window=window, groups=groups).value
    lengths = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(space, strides, kernel, dilations)]
    expected = np.zeros((2, groups * per, *lengths), np.float32)
    for c, m in itertools.product(range(groups * inner), range(per)):
        for position, tap in itertools.product(_all(space), _all(kernel)):
            where = (slice(None), c // inner * per + m, *_tap_position(position, tap, strides, dilations))
            expected[where] += x[(slice(None), c, *position)] * w[(c, m, *tap)]
    assert np.array_equal(result, expected)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.sampled_from([np.float32, np.float16, np.int8, np.uint8]))
def test_pools(data: Any, dtype: Any) -> None:
    rank = data.draw(st.integers(1, 3))
    kernel, strides, dilations, _, space = _windows(data.draw, rank)
    space = [n + 2 for n in space]
    pads = [(0, k - 1) for k in kernel]
    x = np.random.RandomState(0).randint(0, 99, (2, 2, *[max(n, 5) for n in space])).astype(dtype)
    low = -np.inf if dtype in (np.float32, np.float16) else np.iinfo(dtype).min
    for pool in ("max", "avg") if np.dtype(dtype).kind == "f" else ("max",):
        padding = pads if pool == "max" else [(0, 0)] * rank
        wide = np.pad(x, [(0, 0), (0, 0), *padding], "constant", constant_values=low)
        positions = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(wide.shape[2:], kernel, dilations, strides)]
        result = getattr(primitives, pool + "_pool")(x, Window.of(kernel, strides, dilations, padding)).value
        assert result.dtype == dtype and result.shape == (2, 2, *positions)
        for position in _all(positions):
            taps = np.stack(
                [wide[(Ellipsis, *_tap_position(position, tap, strides, dilations))] for tap in _all(kernel)]
            )
            expected = taps.max(0) if pool == "max" else taps.astype(np.float64).mean(0).astype(dtype)
            np.testing.assert_allclose(
                result[(Ellipsis, *position)], expected, rtol=2e-3 if dtype == np.float16 else 1e-6
            )


def test_many_rows_are_computed_in_blocks() -> None:
    x, w = _numbers(1, 32, 90, 90), _numbers(3, 32, 3, 3, seed=1)
    result = primitives.conv(x, w, window=Window.of((3, 3), pads=[(1, 1), (1, 1)])).value
    wide = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], "constant")
    expected = sum(
        np.einsum("nchw,mc->nmhw", wide[:, :, i : i + 90, j : j + 90], w[:, :, i, j])
        for i in range(3)
        for j in range(3)
    )
    assert np.array_equal(result, expected)


def test_windows_of_small_floats_are_rounded_to_their_dtype() -> None:
    kind = DType.of("bfloat16")
    x = lift(np.full((1, 1, 3), 1.0, np.float32), kind)
    w = lift(np.full((1, 1, 3), 1.0078125, np.float32), kind)
    result = primitives.conv(x, w, window=Window.of((3,)))
    assert result.dtype == kind and float(result.value.reshape(())) == 3.03125

"""Rounding of carried dtypes, which every shim uses: the results equal the tables of `minifloat`."""

import numpy as np
import pytest

from onnx_compat import primitives as p
from onnx_compat.ir import dtypes
from onnx_compat.primitives.carried import narrow, power_of_two, to_odd, to_values
from onnx_compat.reference import REFERENCE
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Emitter, Port
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

CARRIED = [carried for carried in dtypes.ALL if not carried.native]
SMALL = [carried for carried in CARRIED if carried.format is not None]


def same(left, right):
    nan = np.isnan(left)
    assert np.array_equal(nan, np.isnan(right))
    assert np.array_equal(left[~nan], right[~nan])
    assert np.array_equal(np.signbit(left[~nan]), np.signbit(right[~nan]))


def floats(seed=0):
    """Return floats of every magnitude and kind, every value of the small floats, and the numbers next to and between
    them.
    """
    random = np.random.RandomState(seed)
    values = [random.randint(0, 1 << 32, 200000, np.uint32).view(np.float32), random.randn(20000).astype(np.float32)]
    for small in SMALL:
        if small.bits <= 8:
            exact = np.unique(small.format.decode(np.arange(1 << small.bits)))
            exact = exact[np.isfinite(exact)]
            middle = (exact[1:].astype(np.float64) + exact[:-1]) / 2
            values += [exact, middle.astype(np.float32), *[np.nextafter(middle.astype(np.float32), f) for f in _ENDS]]
    return np.concatenate([*values, np.float32([0, -0.0, np.inf, -np.inf, np.nan])])


_ENDS = np.float32([-np.inf, np.inf])


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_narrowed_is_the_search_in_the_table(dtype):
    values = floats()
    with np.errstate(all="ignore"):
        same(narrow(lift(values), dtype).value, dtype.round(values, saturate=False))


@pytest.mark.parametrize("dtype", [carried for carried in CARRIED if carried.format is None], ids=str)
def test_narrowed_integers_wrap(dtype):
    values = np.arange(256).astype(np.uint8).view(dtype.numpy)
    assert np.array_equal(narrow(lift(values), dtype).value, dtype.round(values))


@pytest.mark.parametrize("mode", ["nearest", "up", "down"])
@pytest.mark.parametrize("saturate", [False, True])
def test_scales_in_every_mode(mode, saturate):
    values = floats()
    values = values[values >= -1]
    expected = dtypes.float8e8m0.round(values, saturate, mode)
    same(power_of_two(lift(values), saturate, mode).value, expected)


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_to_odd_then_nearest_rounds_once(dtype):
    exact = np.unique(dtype.format.decode(np.arange(1 << dtype.bits)))
    exact = exact[np.isfinite(exact)].astype(np.float64)
    middle = (exact[1:] + exact[:-1]) / 2
    values = np.concatenate([np.nextafter(middle, end) for end in (-np.inf, np.inf)] + [middle, exact, [1e300, -1e300]])
    with np.errstate(all="ignore"):
        same(narrow(to_odd(lift(values)), dtype).value, dtype.round(values, saturate=False))
    whole = np.int64([2**24 + 1, -(2**24) - 1, 2**53 + 1, 257 * 2**40 + 1, 0])
    same(narrow(to_odd(lift(whole)), dtype).value, dtype.round(whole, saturate=False))


class Unfinished(type(REFERENCE)):
    """The reference without rounding primitives of its own, like a shim that lacks them."""

    finish = Emitter.finish


@pytest.mark.parametrize("dtype", CARRIED, ids=str)
def test_an_emitter_gets_the_rounding(dtype):
    values = dtype.round(np.arange(1, 13, dtype=np.float32).reshape(3, 4), saturate=False)
    port = Port("x", dtype, (None, 4))
    ours = record_program(lambda x: [p.mul(x, p.add(x, x)), p.reshape(x, (-1,))], [port], Unfinished())
    product, moved = emit(ours.region, Unfinished(), [values])
    same(product, REFERENCE.finish(values * REFERENCE.finish(values + values, dtype), dtype))
    same(moved, values.reshape(-1))


def test_the_program_is_kept():
    assert to_values(dtypes.bfloat16, 2) is to_values(dtypes.bfloat16, 2)

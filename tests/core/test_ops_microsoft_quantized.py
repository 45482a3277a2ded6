"""Quantised operators of com.microsoft, compared with the kernels of onnxruntime. Integers must be equal.

`steps=1` allows a difference of one. It is for kernels whose order of additions or roundings is not specified, so that
a number halfway between two integers may round to either.
"""

from typing import Any

import numpy as np
import pytest
from against_onnxruntime import build_model, check
from onnx import TensorProto

import onnx_compat
from matrix.harness.generators import per_test

RNG = per_test(np.random.default_rng(281))
START = RNG.bit_generator.state
F = np.float32


@pytest.fixture(autouse=True)
def _from_the_start() -> None:
    """Reset the random generator before each test."""
    RNG.bit_generator.state = START


def numbers(dtype: Any, *shape: int) -> np.ndarray:
    info = np.iinfo(dtype)
    return RNG.integers(info.min, info.max + 1, shape).astype(dtype)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(F)


def scales(*shape: int) -> np.ndarray:
    return (RNG.random(shape) * 0.02 + 0.005).astype(F)


both_types = pytest.mark.parametrize("dtype", [np.uint8, np.int8])
SHAPES = [((3, 40), (3, 40)), ((3, 40), (40,)), ((3, 40), ()), ((1, 40), (3, 1))]


@both_types
@pytest.mark.parametrize("factors", [(0.02, 0.03, 0.04), (0.5, 0.25, 1.0), (0.1, 0.1, 0.3)])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_sums_and_products(dtype: Any, factors: Any, left: Any, right: Any) -> None:
    a, b, c = map(F, factors)
    x, y = numbers(dtype, *left), numbers(dtype, *right)
    check("QLinearAdd", [x, a, dtype(3), y, b, dtype(7), c, dtype(11)])
    check("QLinearMul", [x, a, dtype(3), y, b, dtype(7), F(c * 20), dtype(11)])


@both_types
def test_functions(dtype: Any) -> None:
    x, low = numbers(dtype, 3, 40), dtype(np.iinfo(dtype).min)
    for known in ([], [1, 2, 3, 4]):
        check("QLinearSigmoid", [x, F(0.05), dtype(4), F(1 / 256), low], known=known)
        check("QLinearLeakyRelu", [x, F(0.05), dtype(4), F(0.03), dtype(9)], alpha=0.2, known=known)
    check("QuantizeLinear", [floats(3, 4), F(0.02), dtype(9)])
    check("QuantizeLinear", [floats(3, 4), scales(3), numbers(dtype, 3)], axis=0)
    check("DequantizeLinear", [x, F(0.02), dtype(9)])
    check("DequantizeLinear", [x, scales(3), numbers(dtype, 3)], axis=0)


@both_types
@pytest.mark.parametrize(("axis", "version"), [(-1, 13), (1, 13), (1, 12)])
def test_softmax(dtype: Any, axis: int, version: int) -> None:
    x, low = numbers(dtype, 2, 5, 7), dtype(np.iinfo(dtype).min)
    for scale in (1 / 256, 0.00391, 0.011, 0.3):
        inputs = [x, F(0.02), dtype(4), F(scale), low]
        check("QLinearSoftmax", inputs, known=[1, 2, 3, 4], axis=axis, opset=version)
        check("QLinearSoftmax", inputs, axis=axis, opset=version)


@both_types
def test_choices(dtype: Any) -> None:
    parts = [(numbers(dtype, 2, n), F(0.02 * n), dtype(n)) for n in (3, 5, 2)]
    check("QLinearConcat", [F(0.04), dtype(5), *[item for part in parts for item in part]], axis=1)
    x, y, condition = numbers(dtype, 3, 4), numbers(dtype, 3, 4), RNG.integers(0, 2, (3, 1)).astype(bool)
    check("QLinearWhere", [condition, x, F(0.02), dtype(3), y, F(0.03), dtype(6), F(0.04), dtype(5)])


POOLS = [
    {},
    {"pads": [1, 1, 1, 1]},
    {"pads": [1, 0, 1, 1], "count_include_pad": 1, "strides": [2, 2]},
    {"ceil_mode": 1, "strides": [2, 2]},
    {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
]


@both_types
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("how", POOLS)
def test_average_pools(dtype: Any, last: int, how: Any) -> None:
    x = numbers(dtype, *((2, 7, 8, 3) if last else (2, 3, 7, 8)))
    window = dict(how, kernel_shape=[3, 2], channels_last=last)
    check("QLinearAveragePool", [x, F(np.pi / 60), dtype(4), F(0.0377), dtype(9)], **window)
    check("QLinearAveragePool", [x, F(0.05), dtype(4), F(0.04), dtype(9)], steps=1, **window)


@both_types
def test_other_pools(dtype: Any) -> None:
    image = numbers(dtype, 2, 7, 8, 3)
    parameters = [F(0.05), dtype(4), F(0.04), dtype(9)]
    check("QLinearGlobalAveragePool", [image, *parameters], channels_last=1)
    check("QLinearGlobalAveragePool", [np.moveaxis(image, -1, 1).copy(), *parameters])
    check("NhwcMaxPool", [image], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    check("NhwcMaxPool", [image], kernel_shape=[2, 2], dilations=[2, 1], ceil_mode=1)


@both_types
@pytest.mark.parametrize("keepdims", [0, 1])
def test_means(dtype: Any, keepdims: int) -> None:
    """The expected values are computed here: onnxruntime has no CPU kernel for the operator."""
    x = numbers(dtype, 2, 3, 5)
    inputs = [x, F(0.5), dtype(4), F(0.3), dtype(9)]
    proto, feed = build_model("QLinearReduceMean", inputs, unknown=True, axes=[0, 2], keepdims=keepdims)
    mine = onnx_compat.prepare(proto, shim="reference").run(feed)[0]
    mean = ((x.astype(F) - 4) * F(0.5)).mean((0, 2), keepdims=bool(keepdims))
    info = np.iinfo(dtype)
    np.testing.assert_array_equal(mine, np.clip(np.round(mean / F(0.3)) + 9, info.min, info.max))
    assert mine.dtype == dtype


@both_types
@pytest.mark.parametrize("columns", [False, True])
def test_products_of_matrices(dtype: Any, columns: bool) -> None:
    a, b = numbers(np.uint8, 2, 3, 4), numbers(dtype, 4, 5)
    b_scale, b_zero = (scales(5), numbers(dtype, 5)) if columns else (F(0.03), dtype(7))
    known = [1, 3, 5, 6]
    check("MatMulIntegerToFloat", [a, b, F(0.02), b_scale, np.uint8(3), b_zero, floats(5)], known=known)
    check("MatMulIntegerToFloat", [a, b, F(0.02), b_scale], known=known)
    check("DynamicQuantizeMatMul", [floats(2, 3, 4), b, b_scale, b_zero, floats(5)], known=[1, 2, 3, 4])
    check("DynamicQuantizeMatMul", [floats(2, 3, 4), b, b_scale], known=[1, 2])


@both_types
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(("transposed", "summand"), [((0, 0), None), ((1, 1), (5,)), ((0, 1), (3, 5))])
def test_gemm(dtype: Any, columns: bool, transposed: Any, summand: Any) -> None:
    a = numbers(np.uint8, *((4, 3) if transposed[0] else (3, 4)))
    b = numbers(dtype, *((5, 4) if transposed[1] else (4, 5)))
    b_scale, b_zero = (scales(5), numbers(dtype, 5)) if columns else (F(0.03), dtype(7))
    c = None if summand is None else RNG.integers(-500, 500, summand).astype(np.int32)
    inputs = [a, F(0.02), np.uint8(3), b, b_scale, b_zero, c]
    how = {"transA": transposed[0], "transB": transposed[1], "alpha": 0.7, "known": list(range(1, 9))}
    check("QGemm", inputs, **how)
    check("QGemm", [*inputs, F(0.3), np.uint8(100)], **how)


@both_types
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_channels_last_images(dtype: Any, groups: int) -> None:
    w, bias = numbers(dtype, 6, 4 // groups, 3, 3), RNG.integers(-500, 500, 6).astype(np.int32)
    image, known = numbers(np.uint8, 2, 7, 8, 4), list(range(1, 9))
    parameters = [F(0.05), np.uint8(4), w, F(0.02), dtype(0), F(0.3), np.uint8(100), bias]
    check("QLinearConv", [image, *parameters], channels_last=1, pads=[1, 1, 1, 1], group=groups, known=known)
    parameters[3:5] = [scales(6), np.zeros(6, dtype)]
    check("QLinearConv", [np.moveaxis(image, -1, 1).copy(), *parameters], strides=[2, 2], group=groups, known=known)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("how", [{}, {"direction": "reverse"}, {"direction": "bidirectional"}, {"clip": 0.5}])
def test_lstm(dtype: Any, columns: bool, how: Any) -> None:
    count = 2 if how.get("direction") == "bidirectional" else 1
    shape = (count, 24) if columns else (count,)
    zero = np.full(shape, 128 if dtype is np.uint8 else 0, dtype)
    weights, parameters = [numbers(dtype, count, 4, 24), numbers(dtype, count, 6, 24)], [scales(*shape), zero] * 2
    options = dict(how, outputs=3, hidden_size=6, known=[1, 2, 3, 7, 8, 9, 10, 11])

    def rest(batch: int, lengths: Any) -> Any:
        states = [floats(count, batch, 6), floats(count, batch, 6)]
        return [*weights, floats(count, 48), lengths, *states, floats(count, 18), *parameters]

    check("DynamicQuantizeLSTM", [floats(5, 3, 4), *weights, *[None] * 5, *parameters], **options)
    check("DynamicQuantizeLSTM", [floats(5, 3, 4), *rest(3, None)], **options)
    check("DynamicQuantizeLSTM", [floats(5, 1, 4), *rest(1, np.array([3], np.int32))], **options)
    # What the state of a sequence is behind its end has a share in the range that the others are quantized by.
    several = [floats(5, 3, 4), *rest(3, np.array([5, 2, 3], np.int32))]
    check("DynamicQuantizeLSTM", several, atol=0.05, **options)


def pack_weights(features: int, rows: int, block: int, bits: int, zero: str) -> Any:
    blocks = -(-features // block)
    weights = numbers(np.uint8, rows, blocks, block * bits // 8)
    zeros = {"": None, "packed": numbers(np.uint8, rows, -(-blocks * bits // 8)), "float": floats(rows, blocks)}
    return [weights, scales(rows, blocks), zeros[zero]]


SIZES = [(64, 5, 16), (64, 8, 32), (200, 5, 128), (50, 7, 16)]


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize(("features", "rows", "block"), SIZES)
@pytest.mark.parametrize("zero", ["", "packed", "float"])
def test_weights_of_few_bits(bits: int, features: int, rows: int, block: int, zero: str) -> None:
    how = {"K": features, "N": rows, "block_size": block, "bits": bits, "known": [1, 2, 3, 4, 5]}
    inputs = [floats(2, 3, features), *pack_weights(features, rows, block, bits, zero), None, floats(rows)]
    if bits == 8 and zero == "float":  # which the kernel does not have: they are what packed ones would say
        whole = np.round(RNG.random(inputs[2].shape) * 200)
        mine = [np.asarray(_run("MatMulNBits", [*inputs[:3], item, *inputs[4:]], how)) for item in _ways(whole)]
        np.testing.assert_allclose(mine[0], mine[1], rtol=1e-4, atol=1e-4)
        return
    check("MatMulNBits", inputs, rtol=1e-4, atol=1e-4, **how)
    check("MatMulNBits", inputs[:4], rtol=1e-4, atol=1e-4, accuracy_level=1, **how)


def _ways(zeros: np.ndarray) -> Any:
    return zeros.astype(F), zeros.astype(np.uint8)


def _run(operator: str, inputs: Any, how: Any) -> Any:
    proto, feed = build_model(operator, inputs, **how)
    return onnx_compat.prepare(proto, shim="reference", fallback=False).run(feed)[0]


@pytest.mark.parametrize("zero", ["", "float"])
def test_weights_whose_blocks_are_listed(zero: str) -> None:
    inputs = [floats(2, 3, 48), *pack_weights(48, 7, 16, 4, zero), np.repeat([2, 0, 1, 0, 2, 1], 8).astype(np.int32)]
    check("MatMulNBits", inputs, rtol=1e-4, atol=1e-4, K=48, N=7, block_size=16, known=[1, 2, 3, 4])


def test_weights_with_a_coarse_accuracy() -> None:
    """At accuracy level 4, the kernel of onnxruntime also quantises A to 8 bits. This library computes exactly."""
    inputs = [floats(2, 3, 64), *pack_weights(64, 8, 32, 4, "packed")]
    how = {"K": 64, "N": 8, "block_size": 32, "accuracy_level": 4, "known": [1, 2, 3]}
    check("MatMulNBits", inputs, rtol=0.05, atol=0.05, **how)


PLACES = np.array([[0, 2], [-1, 1]])


@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("given", [False, True])
def test_rows_of_packed_tables(bits: int, given: bool) -> None:
    table, zeros = numbers(np.uint8, 5, 64 * bits // 8), numbers(np.uint8, 5, -(-4 * bits // 8))
    inputs = [table, PLACES, scales(5, 4), *[zeros] * given]
    check("GatherBlockQuantized", inputs, known=[0, 2, 3], block_size=16, bits=bits)


@pytest.mark.parametrize("dtype", [TensorProto.INT4, TensorProto.UINT4])
@pytest.mark.parametrize(("gathered", "blocked"), [(0, 2), (1, 2), (2, 2), (-1, -1), (1, 0), (2, 0)])
def test_pieces_of_tables_of_nibbles(dtype: int, gathered: int, blocked: int) -> None:
    low = -8 if dtype == TensorProto.INT4 else 0
    table = RNG.integers(low, low + 16, (3, 5, 64)).astype(np.int8)
    shape = (1, 5, 64) if blocked == 0 else (3, 5, 4)
    zeros = RNG.integers(0, 8, shape).astype(np.int8)
    how = {"block_size": 16, "gather_axis": gathered, "quantize_axis": blocked, "ai_onnx": 21}
    check("GatherBlockQuantized", [table, PLACES, scales(*shape)], known=[0, 2], types={0: dtype}, **how)
    types = {0: dtype, 3: dtype}
    check("GatherBlockQuantized", [table, PLACES, scales(*shape), zeros], known=[0, 2, 3], types=types, **how)


@pytest.mark.parametrize("dtype", [TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2, TensorProto.FLOAT4E2M1])
def test_rows_of_tables_of_small_floats(dtype: int) -> None:
    how = {"known": [0, 2], "types": {0: dtype}, "ai_onnx": 23}
    check("GatherBlockQuantized", [floats(5, 64), PLACES, scales(5, 4)], block_size=16, **how)
    check("GatherBlockQuantized", [floats(5, 64), PLACES, scales(1, 1)], block_size=0, **how)


def test_an_index_beyond_the_ends_selects_zeros() -> None:
    inputs = [numbers(np.uint8, 5, 64), np.array([0, 7, -9], np.int32), scales(5, 4)]
    check("GatherBlockQuantized", inputs, known=[0, 2], block_size=16, bits=8)

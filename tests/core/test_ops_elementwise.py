"""Arithmetic, logic and activations: differences between operator versions, and edge cases."""

import math

import numpy as np
import pytest
from meanings import apply_operator, meaning, primitives, record_function

from onnx_compat.tracing.values import lift

NAN, INF = float("nan"), float("inf")


def test_old_arithmetic_aligns_from_an_axis():
    a, b = np.zeros((2, 3, 4), np.float32), np.arange(3, dtype=np.float32)
    result = apply_operator("Add", 6, a, b, axis=1, broadcast=1)
    assert result.shape == (2, 3, 4)
    assert result[1, :, 3].tolist() == [0, 1, 2]
    assert apply_operator("Mul", 1, a, np.ones(4, np.float32), broadcast=1).shape == (2, 3, 4)


def test_a_power_keeps_the_dtype_of_its_base():
    result = apply_operator("Pow", 13, np.array([4, 9], np.int32), np.array([0.5, 2], np.float32))
    assert result.dtype == np.int32 and result.tolist() == [2, 81]
    assert primitives(record_function(lambda x: meaning("Pow", 13)(x, 2.0), [None])) == ["mul"]


@pytest.mark.parametrize(("fmod", "expected"), [(0, [2, -2, 1]), (1, [-1, 1, 1])])
def test_the_sign_of_a_remainder(fmod, expected):
    assert apply_operator("Mod", 13, np.array([-4, 4, 4]), np.array([3, -3, 3]), fmod=fmod).tolist() == expected


def test_a_remainder_of_floats_has_the_sign_of_the_divisor():
    x, y = np.float32([-4.5, 7]), np.float32([2, -3])
    for opset in (10, 13, 28):
        assert apply_operator("Mod", opset, x, y).tolist() == [1.5, -2]
        assert apply_operator("Mod", opset, x, y, fmod=1).tolist() == [-0.5, 1]


def test_a_signed_number_shifts_with_its_sign():
    x, y = np.array([-8, -8, 8, 1], np.int8), np.array([1, 9, -1, 7], np.int8)
    assert apply_operator("BitShift", 28, x, y, direction="RIGHT").tolist() == [-4, -1, 0, 0]
    assert apply_operator("BitShift", 28, x, y, direction="LEFT").tolist() == [-16, 0, 0, -128]


@pytest.mark.parametrize(
    ("negative", "positive", "expected"), [(1, 1, [1, 1, 0]), (1, 0, [1, 0, 0]), (0, 0, [0, 0, 0])]
)
def test_is_inf_by_sign(negative, positive, expected):
    is_inf = apply_operator("IsInf", 20, [-INF, INF, NAN], detect_negative=negative, detect_positive=positive)
    assert is_inf.tolist() == expected


def test_clip_by_attributes_and_by_inputs():
    assert apply_operator("Clip", 6, [-9.0, 0.5, 9.0], min=-1.0, max=1.0).tolist() == [-1, 0.5, 1]
    assert apply_operator("Clip", 13, np.array([-9, 9], np.int64), None, np.array(3)).tolist() == [-9, 3]
    known = record_function(lambda x: meaning("Clip", 13)(x, 0.0, 6.0), [None, 3])
    assert primitives(known) == ["clip"]
    unknown = record_function(meaning("Clip", 13), [None], [])
    assert unknown([1.0, -2.0], np.float32(0)).tolist() == [1, 0]


def test_old_softmax_merges_all_axes_from_axis_one_on():
    x = np.log(np.arange(1, 9, dtype=np.float32).reshape(2, 2, 2))
    np.testing.assert_allclose(
        apply_operator("Softmax", 11, x, axis=1)[0].reshape(-1), np.array([1, 2, 3, 4]) / 10, rtol=1e-6
    )
    np.testing.assert_allclose(apply_operator("Softmax", 13, x)[0, 0], np.array([1, 2]) / 3, rtol=1e-6)
    assert apply_operator("Hardmax", 1, x, axis=1)[1].tolist() == [[0, 0], [0, 1]]


def test_hardmax_of_an_empty_axis_is_empty():
    for shape, axis in (((0,), 0), ((3, 0), 1), ((0, 3), 0), ((0, 3), 1)):
        assert apply_operator("Hardmax", 13, np.zeros(shape, np.float32), axis=axis).shape == shape


@pytest.mark.parametrize(
    ("name", "opset", "attributes", "x", "expected"),
    [
        ("HardSwish", 14, {}, [-4.0, 0.0, 1.5, 4.0], [0, 0, 1.125, 4]),
        ("HardSigmoid", 6, {}, [-3.0, 0.0, 1.0], [0, 0.5, 0.7]),
        ("LeakyRelu", 6, {"alpha": 0.1}, [-2.0, 3.0], [-0.2, 3]),
        ("LeakyRelu", 6, {"alpha": 2.0}, [-2.0, 3.0], [-4, 3]),
        ("Elu", 6, {"alpha": 2.0}, [-1e4, 0.0, 3.0], [-2, 0, 3]),
        ("Selu", 6, {}, [-1e4, 1.0], [-1.7580993, 1.0507010]),
        ("Celu", 12, {"alpha": 2.0}, [-1e4, 3.0], [-2, 3]),
        ("ThresholdedRelu", 10, {}, [0.5, 1.0, 1.5], [0, 0, 1.5]),
        ("Shrink", 9, {"bias": 1.0, "lambd": 1.5}, [-2.0, 0.0, 2.0], [-1, 0, 1]),
        ("Softplus", 1, {}, [-200.0, 0.0, 200.0], [0, math.log(2), 200]),
        ("Softsign", 1, {}, [-1.0, 3.0], [-0.5, 0.75]),
        ("Gelu", 20, {}, [0.0, 1.0], [0, 0.8413447]),
        ("Gelu", 20, {"approximate": "tanh"}, [1.0], [0.8411920]),
        ("Swish", 24, {}, [0.0, 1.0], [0, 0.7310586]),
        ("Mish", 18, {}, [1.0], [0.8650984]),
    ],
)
def test_activations(name, opset, attributes, x, expected):
    np.testing.assert_allclose(apply_operator(name, opset, x, **attributes), expected, rtol=1e-5, atol=1e-7)


def test_slopes_for_channels():
    x = -np.ones((1, 2, 2), np.float32)
    assert apply_operator("PRelu", 6, x, [0.5, 2.0]).tolist() == [[[-0.5, -0.5], [-2, -2]]]
    assert apply_operator("PRelu", 9, x, [0.5, 2.0]).tolist() == [[[-0.5, -2], [-0.5, -2]]]


def test_usual_activations_are_few_primitives():
    counts = {"Relu": 1, "LeakyRelu": 2, "HardSigmoid": 3, "HardSwish": 4, "Gelu": 5}
    opset = {"Gelu": 20}
    for name, count in counts.items():
        assert len(primitives(record_function(meaning(name, opset.get(name, 16)), ["n", 4]))) == count, name


def test_logarithm_of_a_sum_of_exponentials_of_extremes():
    x = np.array([[1000.0, 1000.0], [-INF, -INF], [INF, 0.0]], np.float32)
    result = apply_operator("ReduceLogSumExp", 18, x, np.array([1]), keepdims=0)
    np.testing.assert_allclose(result, [1000 + math.log(2), -INF, INF])


def test_reductions_over_no_axes():
    x = np.array([[-1.0, 2.0]], np.float32)
    assert apply_operator("ReduceSum", 13, x, None, noop_with_empty_axes=1).tolist() == [[-1, 2]]
    assert apply_operator("ReduceSumSquare", 18, x, np.zeros(0, np.int64), noop_with_empty_axes=1).tolist() == [[1, 4]]
    assert apply_operator("ReduceL1", 18, x).tolist() == [[3]]
    assert apply_operator("ReduceL2", 11, np.array([3, 4]), axes=[0], keepdims=0).tolist() == 5


def test_arg_max_selects_the_last_of_equal_elements():
    x = np.array([[2.0, 1.0, 2.0]], np.float32)
    assert apply_operator("ArgMax", 13, x, axis=1).tolist() == [[0]]
    assert apply_operator("ArgMax", 13, x, axis=1, select_last_index=1, keepdims=0).tolist() == [2]
    later = record_function(lambda x: meaning("ArgMin", 13)(x, axis=-1, select_last_index=1), [1, None])
    assert later([[0.0, 1.0, 0.0, 4.0]]).tolist() == [[2]]


def test_quantization_rounds_to_even_and_saturates():
    x, scale, zero = [0.0, 1.0, 3.0, 1000.0, -1000.0], np.float32(2), np.uint8(128)
    assert apply_operator("QuantizeLinear", 13, x, lift(scale), lift(zero)).tolist() == [128, 128, 130, 255, 0]
    back = apply_operator("DequantizeLinear", 13, np.array([0, 255], np.uint8), lift(scale), lift(zero))
    assert back.tolist() == [-256, 254]

"""Results of operators for the less usual values of their attributes and optional inputs."""

from typing import Any, Dict, List, Sequence

import numpy as np
import pytest
from meanings import apply_operator, meaning, record_function

from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.ir.dtypes import float32
from onnx_compat.tracing.values import SequenceValue, Tensor, lift


def floats(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def array(tensor: Tensor) -> Any:
    assert tensor.value is not None
    return tensor.value


# -- losses ------------------------------------------------------------------------------------------------------------
#: Log-probabilities of two classes for three samples, whose targets are 0, 1 and 1.
LOGS, TARGETS = floats([-1, -9], [-9, -2], [-9, -4]), np.array([0, 1, 1])


@pytest.mark.parametrize(
    ("attributes", "weight", "expected"),
    [
        ({"reduction": "none"}, None, [1, 2, 4]),
        ({"reduction": "sum"}, None, 7),
        ({}, None, 7 / 3),
        ({"reduction": "none"}, [3, 1], [3, 2, 4]),
        ({}, [3, 1], 9 / 5),
        ({"ignore_index": 0}, None, 3),
        ({"ignore_index": 1, "reduction": "none"}, [3, 1], [3, 0, 0]),
    ],
)
def test_a_loss_is_reduced_and_weighted(attributes: Dict[str, Any], weight: Any, expected: Any) -> None:
    inputs = [LOGS, TARGETS] + ([] if weight is None else [floats(*weight)])
    result = apply_operator("NegativeLogLikelihoodLoss", 13, *inputs, **attributes)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


# -- sums and ranges ---------------------------------------------------------------------------------------------------
def test_a_running_sum_of_unsigned_integers() -> None:
    result = apply_operator("CumSum", 14, np.array([1, 2, 3], np.uint32), np.array(0), reverse=1)
    assert result.dtype == np.uint32 and result.tolist() == [6, 5, 3]
    assert apply_operator("CumSum", 14, floats(1, 2, 3), np.array(0), exclusive=1).tolist() == [0, 1, 3]


def test_a_range_of_short_floats_is_computed_in_the_stash_type() -> None:
    """2049 is no float16, so a running sum in float16 stays at 2048."""
    result = meaning("Range", 27)(*map(np.asarray, np.float16([2046, 2052, 1])))
    assert array(result).tolist() == np.arange(2046, 2052).astype(np.float16).tolist()
    assert array(meaning("Range", 27)(*map(np.asarray, np.float32([1, 4, 2])))).tolist() == [1, 3]


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_a_step_of_an_optimizer_with_momentum(mode: str) -> None:
    """With no earlier momentum, the momentum is the gradient; Nesterov's step adds the decayed momentum to it."""
    attributes = {"alpha": 0.5, "beta": 1.0, "mode": mode, "norm_coefficient": 0.0}
    x, gradient, momentum = floats(1, 2), floats(4, -4), floats(0, 0)
    inputs = [np.array(0.25, np.float32), np.array(0), x, gradient, momentum]
    stepped, remembered = meaning("Momentum", 1, "ai.onnx.preview.training")(*inputs, **attributes)
    factor = 1.0 if mode == "standard" else 1.5
    np.testing.assert_allclose(array(stepped), x - 0.25 * factor * gradient)
    np.testing.assert_allclose(array(remembered), gradient)


# -- images ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("target", "expected"),
    [([3, 2], [[1, 2], [3, 4], [5, 6]]), ([1, 2], [[3, 4]]), ([5, 2], [[0, 0], [1, 2], [3, 4], [5, 6], [0, 0]])],
)
def test_an_image_is_cropped_or_padded_around_its_centre(target: List[int], expected: Any) -> None:
    x = floats([1, 2], [3, 4], [5, 6])
    assert apply_operator("CenterCropPad", 18, x, np.array(target)).tolist() == expected


def test_a_crop_of_some_axes() -> None:
    x = floats([1, 2, 3], [4, 5, 6])
    assert apply_operator("CenterCropPad", 18, x, np.array([1]), axes=[1]).tolist() == [[2], [5]]


def test_a_slope_for_each_channel_of_an_old_prelu() -> None:
    x = floats([[[-1], [-1]]]).reshape(1, 2, 1)
    assert apply_operator("PRelu", 6, x, floats(2, 3)).reshape(-1).tolist() == [-2, -3]
    assert apply_operator("PRelu", 6, x, floats(2)).reshape(-1).tolist() == [-2, -2]


def test_an_old_softmax_over_the_last_axis_only() -> None:
    np.testing.assert_allclose(apply_operator("Softmax", 1, floats([0, 0], [0, 0]), axis=1), np.full((2, 2), 0.5))


@pytest.mark.parametrize(("power", "divisor"), [(1, 7.0), (2, 5.0)])
def test_a_vector_is_divided_by_its_norm(power: int, divisor: float) -> None:
    x = floats([3, -4], [0, 0])
    np.testing.assert_allclose(apply_operator("LpNormalization", 22, x, p=power), x / floats([divisor], [1]), rtol=1e-6)


def test_a_fraction_is_a_power_of_an_integer() -> None:
    """The result has the dtype of the base, and the power is computed in that of the exponent."""
    result = apply_operator("Pow", 15, np.array([4, 9]), floats(0.5, 0.5))
    assert result.dtype == np.int64 and result.tolist() == [2, 3]


@pytest.mark.parametrize(("shift", "direction", "expected"), [(1, "LEFT", [-2, 6]), (1, "RIGHT", [-1, 1])])
def test_a_shift_of_signed_integers(shift: int, direction: str, expected: List[int]) -> None:
    x = np.array([-1, 3], np.int8)
    result = apply_operator("BitShift", 28, x, np.array([shift, shift], np.int8), direction=direction)
    assert result.dtype == np.int8 and result.tolist() == expected


def test_the_angles_of_a_rotary_embedding_by_position() -> None:
    """An angle of 90 degrees, at position 1, rotates (x, y) to (-y, x)."""
    x = floats(*[[[[1, 2], [1, 2]]]])
    cos, sin = floats([1], [0]), floats([0], [1])
    rotated = apply_operator("RotaryEmbedding", 23, x, cos, sin, np.array([[0, 1]]))
    np.testing.assert_allclose(rotated.reshape(-1), [1, 2, -2, 1])


def test_a_rotary_embedding_of_the_first_features() -> None:
    x = floats(*[[[[1, 2, 3, 4]]]])
    cos, sin = floats([[0, 9]]), floats([[1, 9]])
    rotated = apply_operator("RotaryEmbedding", 23, x, cos, sin, rotary_embedding_dim=2)
    np.testing.assert_allclose(rotated.reshape(-1), [-2, 1, 3, 4])


def test_a_cache_without_write_positions_is_filled_from_its_start() -> None:
    cache, update = floats([[0], [0], [9]]), floats([[1], [2]])
    assert apply_operator("TensorScatter", 24, cache, update, axis=1).reshape(-1).tolist() == [1, 2, 9]


@pytest.mark.parametrize("activation", ["none", "silu"])
def test_a_causal_convolution_with_its_state(activation: str) -> None:
    x, weight = floats([[1, 2, 3]]), floats([[1, 10]])
    y, state = meaning("CausalConvWithState", 27)(x, weight, activation=activation)
    expected = np.float32([10, 21, 32])
    expected = expected if activation == "none" else expected / (1 + np.exp(-expected))
    np.testing.assert_allclose(array(y).reshape(-1), expected, rtol=1e-5)
    assert array(state).reshape(-1).tolist() == [3]


# -- sequences ---------------------------------------------------------------------------------------------------------
PAIR = SequenceValue(float32, (lift(floats(1, 2)), lift(floats(3, 4))))


def test_the_elements_of_a_sequence_are_concatenated_or_stacked() -> None:
    assert apply_operator("ConcatFromSequence", 11, PAIR, axis=0).tolist() == [1, 2, 3, 4]
    assert apply_operator("ConcatFromSequence", 11, PAIR, axis=-1, new_axis=1).tolist() == [[1, 3], [2, 4]]


@pytest.mark.parametrize("position", [2, -3])
def test_a_position_outside_the_sequence_is_refused(position: int) -> None:
    with pytest.raises(InvalidModelError, match="position %d is out of range for a sequence of 2" % position):
        meaning("SequenceAt", 11)(PAIR, np.array(position))
    assert array(meaning("SequenceAt", 11)(PAIR, np.array(-1))).tolist() == [3, 4]


# -- sizes that are not known ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "opset", "shape", "inputs", "attributes", "text"),
    [
        ("SplitToSequence", 11, ["n"], [], {}, "the length of the sequence depends on a size that is not known"),
        ("DFT", 17, [2, 4, "n"], [], {"axis": 1}, "whether the input of a DFT is real or complex is not known"),
        (
            "CausalConvWithState",
            27,
            ["c", 1, 4],
            [],
            {},
            "the number of channels of a depthwise convolution is not known",
        ),
        (
            "Resize",
            19,
            [1, 1, "h", 4],
            [None, floats(1, 1, np.pi, 1)],
            {"mode": "linear"},
            "is not a simple fraction of it: the size must be known",
        ),
    ],
)
def test_an_operator_that_needs_a_size(
    name: str, opset: int, shape: Sequence[Any], inputs: List[Any], attributes: Dict[str, Any], text: str
) -> None:
    def body(x: Tensor) -> Any:
        arguments = [np.ones((1, 2, 8), np.float32), x] if name == "CausalConvWithState" else [x, *inputs]
        result = meaning(name, opset)(*arguments, **attributes)
        return list(result.items) if isinstance(result, SequenceValue) else result

    with pytest.raises(NeedsKnownError, match=text):
        record_function(body, shape)


def test_half_of_the_pads_of_an_odd_window() -> None:
    """SAME_LOWER puts the odd element first. A stride above the kernel needs no padding, not a negative number."""
    x, weight = floats(1, 2, 3, 4).reshape(1, 1, 4), floats(1, 10).reshape(1, 1, 2)
    assert apply_operator("Conv", 11, x, weight, auto_pad="SAME_LOWER").reshape(-1).tolist() == [10, 21, 32, 43]
    strided = apply_operator("Conv", 11, x, weight, auto_pad="SAME_UPPER", strides=[4])
    assert strided.reshape(-1).tolist() == [21]


def test_a_transposed_convolution_of_the_same_size() -> None:
    x, weight = floats(1, 2).reshape(1, 1, 2), floats(1, 1, 1).reshape(1, 1, 3)
    y = apply_operator("ConvTranspose", 11, x, weight, auto_pad="SAME_UPPER", strides=[2])
    assert y.reshape(-1).tolist() == [1, 1, 3, 2]

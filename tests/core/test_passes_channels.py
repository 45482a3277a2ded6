"""The arithmetic on channels that passes share."""

from typing import Any

import numpy as np
import pytest

from onnx_compat.passes import channel_map, channel_vector, scale_channels


@pytest.mark.parametrize(
    ("shape", "axis", "vector_length"),
    [((), 1, 1), ((1, 1), 1, 1), ((3, 1, 1), 1, 3), ((1, 3, 1, 1), 1, 3), ((3,), -1, 3), ((1, 1, 1, 3), 3, 3)],
)
def test_an_operand_of_channels_is_a_vector(shape: Any, axis: int, vector_length: int) -> None:
    vector = channel_vector(np.ones(shape, np.float32), axis, 4, 3)
    assert vector is not None and vector.shape == (vector_length,)


@pytest.mark.parametrize(
    ("shape", "axis"), [((3,), 1), ((3, 1, 1), -1), ((2, 3, 1, 1), 1), ((4, 1, 1), 1), ((1, 1, 3, 1, 1), 1)]
)
def test_an_operand_that_varies_along_another_axis_is_rejected(shape: Any, axis: int) -> None:
    assert channel_vector(np.ones(shape, np.float32), axis, 4, 3) is None


def test_weights_are_scaled_along_the_axis_of_the_channels() -> None:
    weights, factor = np.ones((2, 3), np.float32), np.asarray([2, 4], np.float32)
    assert scale_channels(weights, factor, 0).tolist() == [[2, 2, 2], [4, 4, 4]]
    assert scale_channels(weights, np.float32(2), 1).tolist() == [[2, 2, 2], [2, 2, 2]]


@pytest.mark.parametrize(
    ("operation", "wanted"), [("mul", [6, -8]), ("div", [1.5, -2]), ("add", [5, 2]), ("sub", [1, 6])]
)
def test_an_operation_with_a_constant_is_a_map_of_channels(operation: str, wanted: Any) -> None:
    x, constant = np.float32([3, 4]), np.float32([2, -2])
    change = channel_map(operation, constant)
    assert change is not None
    factor, summand = (default if part is None else part for part, default in zip(change, (1, 0)))
    np.testing.assert_array_equal(x * factor + summand, wanted)


def test_a_constant_that_is_divided_is_no_map_but_one_that_is_reduced_is() -> None:
    constant = np.float32([2, -2])
    change = channel_map("sub", constant, is_first=True)
    assert change is not None
    np.testing.assert_array_equal(np.float32([3, 4]) * change.factor + change.summand, [-1, -6])
    assert channel_map("div", constant, is_first=True) is None
    assert channel_map("div", np.float32([2, 0])) is None
    assert channel_map("max", constant) is None

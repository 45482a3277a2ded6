"""The arithmetic on channels that passes share."""

from typing import Any

import numpy as np
import pytest

from onnx_compat.passes import channel_vector, scale_channels


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

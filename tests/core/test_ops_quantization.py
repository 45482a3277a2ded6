"""Sums of products of bytes, which are exact however many there are."""

import numpy as np
import pytest
from building import model, node, value

import onnx_compat

UINT8, INT8 = 2, 3


@pytest.mark.parametrize("channels", [200, 300, 5000, 9000])
@pytest.mark.parametrize("filled", [True, False])
def test_conv_integer_is_exact(channels: int, filled: bool) -> None:
    random = np.random.RandomState(0)
    x = (
        np.full((1, channels, 2), 255, np.uint8)
        if filled
        else random.randint(0, 256, (1, channels, 2)).astype(np.uint8)
    )
    w = random.randint(-128, 128, (6, channels, 1)).astype(np.int8)
    w[0], w[1] = -128, 127
    nodes = [node("ConvInteger", ["x", "w", "x_zero_point", "w_zero_point"], ["y"])]
    inputs = [value("x", x.shape, UINT8), value("w", w.shape, INT8)]
    inputs += [value("x_zero_point", [], UINT8), value("w_zero_point", [], INT8)]
    fed = [x, w, np.uint8(0 if filled else 7), np.int8(127 if filled else -3)]
    wide = [array.astype(np.int64) for array in fed]
    expected = np.einsum("oc,bct->bot", (wide[1] - wide[3])[..., 0], wide[0] - wide[2])
    (y,) = onnx_compat.run(model(nodes, inputs, [value("y", None, 6)]), fed, shim="reference")
    np.testing.assert_array_equal(y, expected)

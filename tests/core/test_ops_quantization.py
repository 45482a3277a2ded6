"""Integer matrix products and convolutions: the sums are exact for any number of terms."""

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


@pytest.mark.parametrize("depth", [1, 200, 3000, 5000, 9000, 40000])
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("filled", [True, False])
def test_matmul_integer_is_exact(depth: int, known: bool, filled: bool) -> None:
    random = np.random.RandomState(0)
    a = np.full((2, 3, depth), 255, np.uint8) if filled else random.randint(0, 256, (2, 3, depth)).astype(np.uint8)
    b = random.randint(-128, 128, (depth, 4)).astype(np.int8)
    b[:, 0], b[:, 1] = -128, 127
    nodes = [node("MatMulInteger", ["a", "b", "a_zero_point", "b_zero_point"], ["y"])]
    inputs = [value("a", a.shape, UINT8), value("b", b.shape, INT8)]
    inputs += [value("a_zero_point", [], UINT8), value("b_zero_point", [4], INT8)]
    fed = {"a": a, "b": b, "a_zero_point": np.uint8(0 if filled else 7), "b_zero_point": np.int8([127, -3, 0, 5])}
    wide = {name: array.astype(np.int64) for name, array in fed.items()}
    expected = (wide["a"] - wide["a_zero_point"]) @ (wide["b"] - wide["b_zero_point"])
    held = {"b": fed.pop("b")} if known else {}
    proto = model(nodes, [port for port in inputs if port.name not in held], [value("y", None, 6)], held)
    (y,) = onnx_compat.run(proto, fed, shim="reference")
    np.testing.assert_array_equal(y, expected.astype(np.int32))

"""ONNX operators that become a single TFLite kernel, with the results of their composed meaning."""

from typing import Any, Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from single_node import model, operators

import onnx_compat


def agrees(content: bytes, *shape: int) -> None:
    feeds = {"x": np.random.RandomState(0).standard_normal(shape).astype(np.float32)}
    (actual,) = onnx_compat.prepare(onnx.load_from_string(content), shim="tflite").run(feeds)
    (wanted,) = onnx_compat.prepare(onnx.load_from_string(content), shim="reference").run(feeds)
    np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


def resize(*scales: float, shape: Sequence[Any] = (1, 3, 5, 7), **attributes: Any) -> bytes:
    given = {"roi": None, "scales": np.array([1, 1, *scales], np.float32)}
    return model("Resize", shape, given, **attributes)


@pytest.mark.parametrize("position", ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"])
@pytest.mark.parametrize("scales", [(2, 2), (3, 1), (0.2, 2), (1.4, 3)])
def test_linear_resizes_have_a_kernel(position: str, scales: Any, tmp_path: Any) -> None:
    content = resize(*scales, mode="linear", coordinate_transformation_mode=position)
    single = position == "pytorch_half_pixel" and 0.2 in scales  # of which only ONNX takes the first pixel
    assert ("RESIZE_BILINEAR" in operators(content, tmp_path)) is not single
    agrees(content, 1, 3, 5, 7)


@pytest.mark.parametrize("scales", [(2, 2), (3, 7), (0.6, 2)])
@pytest.mark.parametrize("rounding", ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("position", ["half_pixel", "asymmetric", "align_corners", "tf_half_pixel_for_nn"])
def test_nearest_resizes_have_a_kernel_if_all_pixels_agree(position: str, rounding: str, scales: Any) -> None:
    agrees(resize(*scales, coordinate_transformation_mode=position, nearest_mode=rounding), 1, 3, 5, 7)


def test_a_nearest_resize_by_two_is_a_kernel_for_unknown_sizes(tmp_path: Any) -> None:
    manner = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    assert operators(resize(2, 2, **manner), tmp_path) == ["RESIZE_NEAREST_NEIGHBOR"]
    for roi in (None, np.zeros(0, np.float32), np.zeros(8, np.float32)):  # as exporters write what means nothing
        given = {"roi": roi, "scales": np.array([1, 1, 2, 2], np.float32)}
        content = model("Resize", ("n", 3, "h", "w"), given, **manner)
        assert "RESIZE_NEAREST_NEIGHBOR" in operators(content, tmp_path)
        agrees(content, 2, 3, 4, 9)


@pytest.mark.parametrize("scales", [(1.5, 1.5), (2, 0.7)])
def test_a_size_that_is_rounded_down_is_composed(scales: Any, tmp_path: Any) -> None:
    content = resize(*scales, mode="linear")
    assert "RESIZE_BILINEAR" not in operators(content, tmp_path)
    agrees(content, 1, 3, 5, 7)


@pytest.mark.parametrize(("mode", "how"), [("nearest", "tf_half_pixel_for_nn"), ("linear", "half_pixel")])
@pytest.mark.parametrize("shape", [(None, 3, None, None), (None, 3, 5, None)])
def test_sizes_that_are_a_multiple_of_open_ones(mode: str, how: str, shape: Any, tmp_path: Any) -> None:
    """Exporters write a Resize to twice a symbolic size through a Shape."""
    vectors = {"one": [0], "two": [2], "factors": [2, 2]}
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Slice", ["shape", "one", "two"], ["batch"]),
        helper.make_node("Slice", ["shape", "two", "four"], ["space"]),
        helper.make_node("Mul", ["space", "factors"], ["larger"]),
        helper.make_node("Concat", ["batch", "larger"], ["sizes"], axis=0),
        helper.make_node(
            "Resize",
            ["x", "", "", "sizes"],
            ["y"],
            mode=mode,
            coordinate_transformation_mode=how,
            nearest_mode="floor",
        ),
    ]
    held = [numpy_helper.from_array(np.asarray(value), name) for name, value in {**vectors, "four": [4]}.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * 4)
    graph = helper.make_graph(nodes, "doubled", [x], [y], held)
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=8).SerializeToString()
    assert any(op.startswith("RESIZE") for op in operators(content, tmp_path))
    agrees(content, 2, 3, 5, 7)


def test_upsample(tmp_path: Any) -> None:
    for opset, given, attributes in (
        (9, {"scales": np.array([1, 1, 2, 2], np.float32)}, {}),
        (7, {}, {"scales": [1.0, 1.0, 2.0, 2.0]}),
    ):
        content = model("Upsample", (1, 3, 5, 7), given, opset, **attributes)
        assert operators(content, tmp_path, str(opset)) == ["RESIZE_NEAREST_NEIGHBOR"]
        agrees(content, 1, 3, 5, 7)


@pytest.mark.parametrize("strides", [(1, 1), (2, 2)])
def test_a_mean_without_its_padding_is_one_kernel(strides: Any, tmp_path: Any) -> None:
    content = model("AveragePool", (1, 3, 5, 7), {}, kernel_shape=[3, 3], pads=[1] * 4, strides=strides)
    assert operators(content, tmp_path) == ["AVERAGE_POOL_2D"]
    agrees(content, 1, 3, 5, 7)


@pytest.mark.parametrize("attributes", [{"count_include_pad": 1}, {"pads": [1, 0, 1, 1]}])
def test_a_mean_with_other_padding_is_composed(attributes: Any) -> None:
    content = model("AveragePool", (1, 3, 5, 7), {}, **{"kernel_shape": [3, 3], "pads": [1] * 4, **attributes})
    agrees(content, 1, 3, 5, 7)


@pytest.mark.parametrize("size", [1, 3, 5, 4])
def test_a_response_among_as_many_channels_on_either_side_is_one_kernel(size: int, tmp_path: Any) -> None:
    content = model("LRN", (2, 8, 5, 7), {}, size=size, alpha=0.5, beta=0.7, bias=1.5)
    assert (operators(content, tmp_path) == ["LOCAL_RESPONSE_NORMALIZATION"]) is (size % 2 == 1)
    agrees(content, 2, 8, 5, 7)

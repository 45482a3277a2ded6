"""Windows whose pads equal the padding SAME of TFLite, also for symbolic sizes: one kernel, with the results of
onnxruntime.
"""

import functools
from typing import Any, List, Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_compat_tflite import flatbuffer as fb
from qdq import Layers, Scheme, quantize_model
from single_node import model, operators

import onnx_compat
from matrix.harness.generators import per_test

RANDOM = per_test(np.random.RandomState(0))
OPEN = (None, 4, None, None)


def agrees(content: bytes, *shapes: Sequence[int], reference: bool = False) -> None:
    """Assert that the file of a model gives the results of onnxruntime, or of the reference if onnxruntime refuses the
    model.
    """
    loaded = onnx.load_from_string(content)
    if reference:
        wanted = onnx_compat.prepare(loaded, shim="reference").run
    else:
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
        wanted = functools.partial(session.run, None)
    prepared = onnx_compat.prepare(loaded, shim="tflite")
    for shape in shapes:
        feeds = {"x": RANDOM.standard_normal(shape).astype(np.float32)}
        np.testing.assert_allclose(prepared.run(feeds)[0], wanted(feeds)[0], rtol=1e-4, atol=1e-5)


def filters(*shape: int) -> Any:
    return {"w": RANDOM.standard_normal(shape).astype(np.float32), "b": RANDOM.standard_normal(shape[0]).astype("f")}


def same(operator: str, taps: int, stride: int, shape: Any = OPEN, apart: int = 1, **attributes: Any) -> bytes:
    rank, group = len(shape) - 2, attributes.get("group", 1)
    constants = filters(8, 4 // group, *[taps] * rank) if operator == "Conv" else {}
    if apart > 1:
        attributes["dilations"] = [apart] * rank
    attributes = {"kernel_shape": [taps] * rank, "strides": [stride] * rank, **attributes}
    return model(operator, shape, constants, **{"auto_pad": "SAME_UPPER", **attributes})


KERNELS = {"Conv": "CONV_2D", "MaxPool": "MAX_POOL_2D", "AveragePool": "AVERAGE_POOL_2D"}


@pytest.mark.parametrize("operator", list(KERNELS))
@pytest.mark.parametrize(("taps", "stride"), [(3, 1), (3, 2), (2, 2), (4, 3), (5, 2)])
def test_open_sizes_are_padded_by_the_kernel(operator: str, taps: int, stride: int, tmp_path: Any) -> None:
    content = same(operator, taps, stride)
    assert operators(content, tmp_path) == [KERNELS[operator]]
    agrees(content, (1, 4, 8, 9), (2, 4, 7, 6), (1, 4, 1, 3))


@pytest.mark.parametrize("operator", list(KERNELS))
def test_along_one_axis(operator: str, tmp_path: Any) -> None:
    content = same(operator, 3, 2, shape=(None, 4, None))
    assert KERNELS[operator] in operators(content, tmp_path) and len(operators(content, tmp_path)) <= 3
    agrees(content, (1, 4, 8), (2, 4, 7))


def test_dilations(tmp_path: Any) -> None:
    content = same("Conv", 3, 1, apart=2)
    assert operators(content, tmp_path) == ["CONV_2D"]
    agrees(content, (1, 4, 8, 9), (2, 4, 5, 6), reference=True)


def test_groups() -> None:
    agrees(same("Conv", 3, 2, group=2), (1, 4, 8, 9), (2, 4, 5, 6))


def test_depthwise(tmp_path: Any) -> None:
    content = same("Conv", 3, 2, group=4)
    assert operators(content, tmp_path) == ["DEPTHWISE_CONV_2D"]
    agrees(content, (1, 4, 8, 9), (2, 4, 5, 6))


def test_filters_that_are_computed_are_composed() -> None:
    x, w = (onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in (("x", OPEN), ("w", [2, 4, 3, 3])))
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])
    y = onnx.helper.make_tensor_value_info("y", 1, [None] * 4)
    model_spec = onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x, w], [y]), ir_version=8)
    model_spec.opset_import[0].version = 13
    feeds = {
        "x": RANDOM.standard_normal((1, 4, 7, 8)).astype("f"),
        "w": RANDOM.standard_normal((2, 4, 3, 3)).astype("f"),
    }
    (actual,) = onnx_compat.prepare(model_spec, shim="tflite").run(feeds)
    (wanted,) = onnxruntime.InferenceSession(model_spec.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, feeds
    )
    np.testing.assert_allclose(actual, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operator", list(KERNELS))
@pytest.mark.parametrize("shape", [OPEN, (1, 4, 8, 9)])
def test_a_stride_beyond_the_kernel(operator: str, shape: Any) -> None:
    agrees(same(operator, 2, 3, shape), (1, 4, 8, 9), reference=True)
    agrees(same(operator, 1, 2, shape), (1, 4, 8, 9), reference=True)


@pytest.mark.parametrize("operator", list(KERNELS))
def test_the_greater_half_at_the_beginning_is_composed(operator: str) -> None:
    agrees(same(operator, 3, 2, auto_pad="SAME_LOWER"), (1, 4, 8, 9), (2, 4, 5, 6))


def test_means_that_count_their_padding_are_composed() -> None:
    agrees(same("AveragePool", 3, 1, count_include_pad=1), (1, 4, 8, 9))


def test_a_mean_of_open_sizes_with_the_same_pads_for_all(tmp_path: Any) -> None:
    content = model("AveragePool", OPEN, {}, kernel_shape=[3, 3], pads=[1] * 4)
    assert operators(content, tmp_path) == ["AVERAGE_POOL_2D"]
    agrees(content, (1, 4, 8, 9), (2, 4, 5, 1))


def test_indices_of_max_pools_are_composed() -> None:
    content = onnx.load_from_string(same("MaxPool", 3, 2))
    content.graph.node[0].output.append("places")
    content.graph.output.append(onnx.helper.make_tensor_value_info("places", 7, [None] * 4))
    feeds = {"x": RANDOM.standard_normal((1, 4, 7, 8)).astype(np.float32)}
    actual = onnx_compat.prepare(content, shim="tflite").run(feeds)
    wanted = onnxruntime.InferenceSession(content.SerializeToString(), providers=["CPUExecutionProvider"]).run(
        None, feeds
    )
    for item, operand in zip(actual, wanted):
        np.testing.assert_allclose(item, operand, rtol=1e-5)


def test_a_quantised_layer_of_open_sizes_computes_with_integers(tmp_path: Any) -> None:
    layers = Layers([1, 4, 8, 9])
    float_model = layers.model(layers.conv("x", 4, 6, pads=[0, 0, 1, 1], strides=[2, 2]))
    model_spec = quantize_model(float_model, layers.input(), Scheme(per_channel=True))
    for size in model_spec.graph.input[0].type.tensor_type.shape.dim[2:]:
        size.Clear()
    (node,) = (node for node in model_spec.graph.node if node.op_type == "Conv")
    kept = [attribute for attribute in node.attribute if attribute.name != "pads"]
    del node.attribute[:]
    node.attribute.extend([*kept, onnx.helper.make_attribute("auto_pad", "SAME_UPPER")])
    path = onnx_compat.convert(model_spec, tmp_path / "q.tflite", shim="tflite")
    spec = fb.read(str(path)).subgraphs[0]
    types: List[str] = [spec.tensors[op.inputs[0] or 0].dtype for op in spec.operators if op.builtin == "CONV_2D"]
    assert types == ["int8"]

"""QDQ models become files of integers: their kernels and scales, and results compared with onnxruntime."""

import itertools
from pathlib import Path
from typing import Callable, Dict, Sequence

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper
from qdq import Case, Layers, Scheme, quantize_model

import onnx_compat

IMAGE = [1, 4, 9, 9]
SCHEMES = [
    Scheme(activations, "int8", per_channel, symmetric)
    for activations, per_channel, symmetric in itertools.product(("int8", "uint8"), (False, True), (False, True))
]


def conv(layers: Layers) -> str:
    return layers.conv("x", 4, 6)


def conv_relu(layers: Layers) -> str:
    return layers.node("Relu", layers.conv("x", 4, 6, strides=[2, 2]))


def pointwise(layers: Layers) -> str:
    return layers.conv("x", 4, 7, taps=1, bias=False)


def depthwise(layers: Layers) -> str:
    return layers.conv("x", 4, 4, group=4)


def dilate(layers: Layers) -> str:
    return layers.conv("x", 4, 5, dilations=[2, 2], pads=[2, 2, 2, 2])


def relu6(layers: Layers) -> str:
    low, high = layers.constant(np.float32(0)), layers.constant(np.float32(6))
    return layers.node("Clip", layers.conv("x", 4, 6), low, high)


def max_pool(layers: Layers) -> str:
    return layers.node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def average_pool(layers: Layers) -> str:
    return layers.node("AveragePool", "x", kernel_shape=[3, 3], strides=[3, 3])


def padded_average_pool(layers: Layers) -> str:
    return layers.node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)


def clip(layers: Layers) -> str:
    low, high = layers.constant(np.float32(-2)), layers.constant(np.float32(2))
    return layers.node("Clip", layers.conv("x", 4, 6), low, high)


def global_pool(layers: Layers) -> str:
    return layers.node("GlobalAveragePool", "x")


def transpose(layers: Layers) -> str:
    weights = layers.weight(4, 3, 3, 3)
    return layers.node("ConvTranspose", "x", weights, layers.weight(3), strides=[2, 2], pads=[1, 1, 1, 1])


def gemm(layers: Layers) -> str:
    return layers.gemm(layers.node("Flatten", "x"), 4 * 81, 10)


def matmul(layers: Layers) -> str:
    return layers.node("MatMul", "x", layers.weight(9, 5))


def add(layers: Layers) -> str:
    return layers.node("Add", "x", layers.weight(1, 4, 1, 1))


def subtract(layers: Layers) -> str:
    return layers.node("Sub", "x", layers.weight(4, 9, 9))


def multiply(layers: Layers) -> str:
    return layers.node("Mul", "x", layers.weight(9))


def divide(layers: Layers) -> str:
    return layers.node("Div", "x", layers.constant(np.float32(2.83)))


def relu(layers: Layers) -> str:
    return layers.node("Relu", "x")


def leaky_relu(layers: Layers) -> str:
    return layers.node("LeakyRelu", "x", alpha=0.2)


def sigmoid(layers: Layers) -> str:
    return layers.node("Sigmoid", layers.node("Mul", "x", layers.constant(np.float32(12))))


def tanh(layers: Layers) -> str:
    return layers.node("Tanh", layers.node("Mul", "x", layers.constant(np.float32(12))))


def softmax(layers: Layers) -> str:
    return layers.node("Softmax", layers.node("Mul", "x", layers.constant(np.float32(30))), axis=-1)


def hard_sigmoid(layers: Layers) -> str:
    return layers.node("HardSigmoid", layers.node("Mul", "x", layers.constant(np.float32(4))), alpha=1 / 6)


def hard_sigmoid_of_fifths(layers: Layers) -> str:
    return layers.node("HardSigmoid", layers.node("Mul", "x", layers.constant(np.float32(4))))


def hard_swish(layers: Layers) -> str:
    return layers.node("HardSwish", layers.node("Mul", "x", layers.constant(np.float32(5))))


def nearest(layers: Layers) -> str:
    scales = layers.constant(np.asarray([1, 1, 2, 2], np.float32))
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return layers.node("Resize", "x", "", scales, **how)


def bilinear(layers: Layers) -> str:
    scales = layers.constant(np.asarray([1, 1, 2, 2], np.float32))
    return layers.node("Resize", "x", "", scales, mode="linear", coordinate_transformation_mode="half_pixel")


def bilinear_aligned(layers: Layers) -> str:
    sizes = layers.constant(np.asarray([1, 4, 17, 33], np.int64))
    return layers.node("Resize", "x", "", "", sizes, mode="linear", coordinate_transformation_mode="align_corners")


def concatenate(layers: Layers) -> str:
    return layers.node("Concat", "x", layers.node("Relu", "x"), axis=1)


def of_both(layers: Layers) -> str:
    return layers.node("MatMul", "x", layers.node("Transpose", "x", perm=[0, 1, 3, 2]))


def move(layers: Layers) -> str:
    return layers.node("Transpose", "x", perm=[0, 2, 1, 3])


#: A layer, and the kernels that it is on integers, in one order or another.
LAYERS: Dict[Callable[[Layers], str], str] = {
    conv: "CONV_2D",
    conv_relu: "CONV_2D",
    pointwise: "CONV_2D",
    depthwise: "DEPTHWISE_CONV_2D",
    dilate: "CONV_2D",
    relu6: "CONV_2D",
    max_pool: "MAX_POOL_2D",
    clip: "CONV_2D",
    average_pool: "DEPTHWISE_CONV_2D",
    padded_average_pool: "PAD",
    global_pool: "MEAN",
    transpose: "TRANSPOSE_CONV",
    gemm: "FULLY_CONNECTED",
    matmul: "FULLY_CONNECTED",
    add: "ADD",
    subtract: "SUB",
    multiply: "MUL",
    divide: "MUL",
    relu: "RELU",
    leaky_relu: "LEAKY_RELU",
    sigmoid: "LOGISTIC",
    tanh: "TANH",
    softmax: "SOFTMAX",
    hard_sigmoid: "ADD",
    hard_sigmoid_of_fifths: "ADD",
    hard_swish: "HARD_SWISH",
    nearest: "RESIZE_NEAREST_NEIGHBOR",
    bilinear: "RESIZE_BILINEAR",
    bilinear_aligned: "RESIZE_BILINEAR",
    concatenate: "CONCATENATION",
    move: "TRANSPOSE",
    of_both: "BATCH_MATMUL",
}
#: Those that have kernels of 16 bits, too.
SIXTEEN = [
    conv_relu,
    depthwise,
    gemm,
    move,
    add,
    multiply,
    divide,
    global_pool,
    average_pool,
    leaky_relu,
    transpose,
]
SIXTEEN += [of_both, bilinear, max_pool, concatenate]


def case_of(layer: Callable[[Layers], str], scheme: Scheme, folder: Path, shape: Sequence[int] = IMAGE) -> Case:
    layers = Layers(shape)
    x = layers.input()
    return Case(quantize_model(layers.model(layer(layers), opset=14), x, scheme), x, folder)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: "-".join(map(str, scheme)))
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_a_layer_is_a_kernel_of_integers(layer: Callable[[Layers], str], scheme: Scheme, tmp_path: Path) -> None:
    case = case_of(layer, scheme, tmp_path)
    wanted = LAYERS[layer]
    if wanted == "FULLY_CONNECTED" and scheme.per_channel:
        wanted = "CONV_2D"
    assert case.floats() == [] and wanted in case.names
    assert case.steps() < 1.001
    # onnxruntime's optimizations may change the numbers themselves: two pairs in a row become one of the outer scale
    assert case.steps(optimized=True) < 1.001 + case.theirs_apart()


@pytest.mark.parametrize("mode", ["align_corners", "half_pixel", "asymmetric"])
def test_a_resize_that_the_kernel_of_integers_rounds_stays_in_floats(mode: str, tmp_path: Path) -> None:
    layers = Layers([1, 3, 7, 5])
    x, sizes = layers.input(), layers.constant(np.asarray([1, 3, 20, 31], np.int64))
    resized = layers.node("Resize", "x", "", "", sizes, mode="linear", coordinate_transformation_mode=mode)
    case = Case(quantize_model(layers.model(resized), x, Scheme()), x, tmp_path)
    assert case.floats() and case.steps() < 1.001


@pytest.mark.parametrize("activations", ["int8", "uint8"])
@pytest.mark.parametrize("layer", [conv_relu, depthwise, gemm, transpose], ids=lambda layer: layer.__name__)
def test_weights_with_a_zero_point_have_kernels_of_uint8(
    layer: Callable[[Layers], str], activations: str, tmp_path: Path
) -> None:
    case = case_of(layer, Scheme(activations, "uint8"), tmp_path)
    (operator,) = [op for op in case.graph.operators if op.builtin == LAYERS[layer]]
    assert {case.graph.tensors[operator.inputs[position] or 0].dtype for position in (0, 1)} <= {"uint8", "int32"}
    assert case.floats() == [] and case.steps() < 1.001


@pytest.mark.parametrize("layer", [gemm, add, move, max_pool, concatenate], ids=lambda layer: layer.__name__)
def test_no_kernel_has_sixteen_bits_with_a_zero_point(layer: Callable[[Layers], str], tmp_path: Path) -> None:
    layers = Layers(IMAGE)
    x = layers.input()
    model = quantize_model(layers.model(layer(layers), opset=14), x, Scheme("int16", "int8"))
    for held in model.graph.initializer:
        if held.name.endswith("_zero") and held.data_type == TensorProto.INT16:
            held.CopyFrom(numpy_helper.from_array(np.int16(34), held.name))
    case = Case(model, x, tmp_path)
    theirs = onnx_compat.prepare(case.model, shim="reference").run([case.x])
    assert case.apart(case.ours(), theirs) < 1.01


@pytest.mark.parametrize("layer", SIXTEEN, ids=lambda layer: layer.__name__)
def test_sixteen_bits(layer: Callable[[Layers], str], tmp_path: Path) -> None:
    """The result is compared with the reference, because few releases of onnxruntime quantise to int16."""
    case = case_of(layer, Scheme("int16", "int8", per_channel=True), tmp_path)
    assert case.floats() == []
    theirs = onnx_compat.prepare(case.model, shim="reference").run([case.x])
    assert case.apart(case.ours(), theirs) < 1.01  # float32 has few digits more
    assert "int16" in [tensor.dtype for tensor in case.graph.tensors]


def test_a_mean_of_more_than_a_sum_holds_stays_in_floats(tmp_path: Path) -> None:
    layers = Layers([1, 1, 300, 300])
    x = np.abs(layers.input()) / 8 + np.float32(0.9)
    case = Case(quantize_model(layers.model(global_pool(layers)), x, Scheme("int16")), x, tmp_path)
    theirs = onnx_compat.prepare(case.model, shim="reference").run([case.x])
    assert case.floats() and case.apart(case.ours(), theirs) < 1.01


@pytest.mark.parametrize("activations", ["int8", "uint8"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_scales_and_zero_points_are_the_models(activations: str, per_channel: bool, tmp_path: Path) -> None:
    case = case_of(conv, Scheme(activations, "int8", per_channel), tmp_path)
    held = {initializer.name: numpy_helper.to_array(initializer) for initializer in case.model.graph.initializer}
    (operator,) = [op for op in case.graph.operators if op.builtin == "CONV_2D"]
    x, w, b = (case.graph.tensors[index or 0] for index in operator.inputs)
    y = case.graph.tensors[operator.outputs[0]]
    shift = 128 if activations == "uint8" else 0
    for tensor, name in ((x, "x"), (y, "t0")):
        assert tensor.dtype == "int8" and tensor.quantization is not None
        np.testing.assert_array_equal(tensor.quantization.scale, held[name + "_scale"])
        assert tensor.quantization.zero_point == [int(held[name + "_zero"]) - shift]
    assert w.dtype == "int8" and w.quantization is not None and b.quantization is not None
    np.testing.assert_allclose(w.quantization.scale, np.atleast_1d(held["w0_scale"]), rtol=1e-6)
    np.testing.assert_array_equal(np.moveaxis(w.buffer, -1, 1), held["w0_q"])
    np.testing.assert_array_equal(b.buffer, held["w1_q"])

"""QDQ models as flatbuffers of integers: which kernels, which scales, and the numbers beside onnxruntime's."""

import itertools
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx_compat_tflite import SHIM
from onnx_compat_tflite import flatbuffer as fb
from qdq import Layers, Scheme, quantized

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


def dilated(layers: Layers) -> str:
    return layers.conv("x", 4, 5, dilations=[2, 2], pads=[2, 2, 2, 2])


def relu6(layers: Layers) -> str:
    low, high = layers.constant(np.float32(0)), layers.constant(np.float32(6))
    return layers.node("Clip", layers.conv("x", 4, 6), low, high)


def max_pool(layers: Layers) -> str:
    return layers.node("MaxPool", "x", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def average_pool(layers: Layers) -> str:
    return layers.node("AveragePool", "x", kernel_shape=[3, 3], strides=[3, 3])


def clipped(layers: Layers) -> str:
    low, high = layers.constant(np.float32(-2)), layers.constant(np.float32(2))
    return layers.node("Clip", layers.conv("x", 4, 6), low, high)


def global_pool(layers: Layers) -> str:
    return layers.node("GlobalAveragePool", "x")


def transposed(layers: Layers) -> str:
    weights = layers.weight(4, 3, 3, 3)
    return layers.node("ConvTranspose", "x", weights, layers.weight(3), strides=[2, 2], pads=[1, 1, 1, 1])


def gemm(layers: Layers) -> str:
    return layers.gemm(layers.node("Flatten", "x"), 4 * 81, 10)


def matmul(layers: Layers) -> str:
    return layers.node("MatMul", "x", layers.weight(9, 5))


def added(layers: Layers) -> str:
    return layers.node("Add", "x", layers.weight(1, 4, 1, 1))


def subtracted(layers: Layers) -> str:
    return layers.node("Sub", "x", layers.weight(4, 9, 9))


def multiplied(layers: Layers) -> str:
    return layers.node("Mul", "x", layers.weight(9))


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


def joined(layers: Layers) -> str:
    return layers.node("Concat", "x", layers.node("Relu", "x"), axis=1)


def moved(layers: Layers) -> str:
    return layers.node("Transpose", "x", perm=[0, 2, 1, 3])


#: A layer, and the kernels that it is on integers, in one order or another.
LAYERS: Dict[Callable[[Layers], str], str] = {
    conv: "CONV_2D",
    conv_relu: "CONV_2D",
    pointwise: "CONV_2D",
    depthwise: "DEPTHWISE_CONV_2D",
    dilated: "CONV_2D",
    relu6: "CONV_2D",
    max_pool: "MAX_POOL_2D",
    clipped: "CONV_2D",
    average_pool: "DEPTHWISE_CONV_2D",
    global_pool: "MEAN",
    transposed: "TRANSPOSE_CONV",
    gemm: "FULLY_CONNECTED",
    matmul: "FULLY_CONNECTED",
    added: "ADD",
    subtracted: "SUB",
    multiplied: "MUL",
    relu: "RELU",
    leaky_relu: "LEAKY_RELU",
    sigmoid: "LOGISTIC",
    tanh: "TANH",
    softmax: "SOFTMAX",
    joined: "CONCATENATION",
    moved: "TRANSPOSE",
}


class Case:
    """A QDQ model, the file that it becomes, and what both give for an input."""

    def __init__(self, model: Any, x: Any, folder: Path) -> None:
        self.model, self.x = model, x
        onnx.save(model, str(folder / "model.onnx"))
        onnx_compat.convert(str(folder / "model.onnx"), str(folder / "model.tflite"), shim="tflite")
        self.graph = fb.read(str(folder / "model.tflite")).subgraphs[0]
        self.compiled = SHIM.load_converted(str(folder / "model.tflite"), "tflite")[0]

    def ours(self) -> List[Any]:
        return self.compiled.run([self.x])

    def theirs(self, optimized: bool) -> List[Any]:
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        options.graph_optimization_level = level.ORT_ENABLE_ALL if optimized else level.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(
            self.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        found: List[Any] = session.run(None, {session.get_inputs()[0].name: self.x})
        return found

    @property
    def names(self) -> List[str]:
        return [operator.builtin for operator in self.graph.operators]

    def floats(self) -> List[str]:
        """The operators that compute with floats."""
        return [
            operator.builtin
            for operator in self.graph.operators
            if operator.builtin not in ("QUANTIZE", "DEQUANTIZE")
            and "float32" in [self.graph.tensors[index].dtype for index in operator.outputs]
        ]

    def steps(self, optimized: bool = False) -> float:
        """How many steps of the last scale ours are from theirs, at most."""
        scales = {node.output[0]: node.input[1] for node in self.model.graph.node if "Linear" in node.op_type}
        held = {one.name: onnx.numpy_helper.to_array(one) for one in self.model.graph.initializer}
        found = []
        for one, ours, theirs in zip(self.model.graph.output, self.ours(), self.theirs(optimized)):
            assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
            scale = 1.0 if theirs.dtype.kind != "f" else float(held[scales[one.name]])
            found.append(np.abs(ours.astype(np.float64) - theirs).max() / scale)
        return float(max(found))


def case_of(layer: Callable[[Layers], str], scheme: Scheme, folder: Path, shape: Sequence[int] = IMAGE) -> Case:
    layers = Layers(shape)
    x = layers.input()
    return Case(quantized(layers.model(layer(layers)), x, scheme), x, folder)


def scale_of(graph: fb.SubGraph, index: Any) -> Tuple[str, List[float], List[int]]:
    tensor = graph.tensors[index]
    assert tensor.quantization is not None
    return tensor.dtype, list(tensor.quantization.scale), list(tensor.quantization.zero_point)


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda one: "-".join(map(str, one)))
@pytest.mark.parametrize("layer", LAYERS, ids=lambda one: one.__name__)
def test_a_layer_is_a_kernel_of_integers(layer: Callable[[Layers], str], scheme: Scheme, tmp_path: Path) -> None:
    case = case_of(layer, scheme, tmp_path)
    wanted = LAYERS[layer]
    if wanted == "FULLY_CONNECTED" and scheme.per_channel:
        wanted = "CONV_2D"
    assert case.floats() == [] and wanted in case.names
    for optimized in (False, True):
        assert case.steps(optimized) < 1.001

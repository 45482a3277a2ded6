"""Generated networks of opset 17 with random weights: ResNet-50, a BERT of 12 layers, and a chain of large MatMuls."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["MODELS", "OPSET", "bert", "chain", "resnet50", "write"]

OPSET = 17


class _Graph:
    """Builds a model node by node.

    - add: append a node, and return the name of its output.
    - weight, constant: append an initializer, of random numbers or of an array, and return its name.
    - model: return the ModelProto with these inputs, and with the tensor `result` of this shape as its output.
    """

    def __init__(self) -> None:
        self.nodes: List[Any] = []
        self.weights: List[Any] = []
        self.random = np.random.default_rng(0)

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = "%s_%d" % (operator, len(self.nodes))
        self.nodes.append(helper.make_node(operator, inputs, [name], name="n_" + name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        array = self.random.standard_normal(shape, dtype=np.float32) * np.float32(0.02)
        return self.constant(array)

    def constant(self, array: Any) -> str:
        name = "w_%d" % len(self.weights)
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def model(self, inputs: Sequence[Any], result: str, shape: Sequence[Any]) -> Any:
        output = helper.make_tensor_value_info(result, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "generated", list(inputs), [output], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)


def resnet50(layers: Sequence[int] = (3, 4, 6, 3), width: int = 64) -> Any:
    """Return ResNet-50 with random weights, or a network of its form.

    `layers`: the number of blocks of each stage. `width`: the channels of the first convolution.
    """
    graph = _Graph()

    def convolve(x: str, before: int, after: int, kernel: int, stride: int = 1) -> str:
        pads = [kernel // 2] * 4
        y = graph.add("Conv", x, graph.weight(after, before, kernel, kernel), strides=[stride] * 2, pads=pads)
        units, zeros = np.ones(after, np.float32), np.zeros(after, np.float32)
        parameters = [graph.constant(array) for array in (units, zeros, zeros, units)]
        return graph.add("BatchNormalization", y, *parameters)

    x = graph.add("Relu", convolve("image", 3, width, 7, 2))
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = width
    for stage, count in enumerate(layers):
        inner = width << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            y = graph.add("Relu", convolve(x, channels, inner, 1))
            y = graph.add("Relu", convolve(y, inner, inner, 3, stride))
            y = convolve(y, inner, 4 * inner, 1)
            x = x if block else convolve(x, channels, 4 * inner, 1, stride)
            x, channels = graph.add("Relu", graph.add("Add", x, y)), 4 * inner
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    x = graph.add("Gemm", x, graph.weight(1000, channels), graph.weight(1000), transB=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, 224, 224])
    return graph.model([image], x, ["batch", 1000])


def bert(layers: int = 12, width: int = 768, heads: int = 12, words: int = 30522) -> Any:
    """Return an encoder of the form of BERT with random weights, with LayerNormalization, and Gelu composed of Erf.

    `width`: the size of a hidden vector. `words`: the size of the vocabulary.
    """
    graph = _Graph()

    def dense(x: str, before: int, after: int) -> str:
        return graph.add("Add", graph.add("MatMul", x, graph.weight(before, after)), graph.weight(after))

    def normalise(x: str) -> str:
        factors, terms = graph.constant(np.ones(width, np.float32)), graph.constant(np.zeros(width, np.float32))
        return graph.add("LayerNormalization", x, factors, terms, axis=-1, epsilon=1e-12)

    split = graph.constant(np.asarray([0, 0, heads, width // heads]))
    merge = graph.constant(np.asarray([0, 0, width]))
    scale, half, unit, root = (graph.constant(np.float32(n)) for n in ((width / heads) ** 0.5, 0.5, 1, 2**0.5))
    x = normalise(graph.add("Gather", graph.weight(words, width), "tokens"))
    for _ in range(layers):
        parts = [graph.add("Reshape", dense(x, width, width), split) for _ in range(3)]
        query, value = (graph.add("Transpose", parts[k], perm=[0, 2, 1, 3]) for k in (0, 2))
        key = graph.add("Transpose", parts[1], perm=[0, 2, 3, 1])
        scores = graph.add("Softmax", graph.add("Div", graph.add("MatMul", query, key), scale), axis=-1)
        mixed = graph.add("Transpose", graph.add("MatMul", scores, value), perm=[0, 2, 1, 3])
        x = normalise(graph.add("Add", x, dense(graph.add("Reshape", mixed, merge), width, width)))
        y = dense(x, width, 4 * width)
        y = graph.add(
            "Mul", graph.add("Mul", y, half), graph.add("Add", graph.add("Erf", graph.add("Div", y, root)), unit)
        )
        x = normalise(graph.add("Add", x, dense(y, 4 * width, width)))
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "length"])
    return graph.model([tokens], x, ["batch", "length", width])


def chain(layers: int = 16, width: int = 4096) -> Any:
    """Return a chain of `layers` MatMuls with random weights of [width, width], and a LayerNormalization at its end."""
    graph = _Graph()
    x = "x"
    for _ in range(layers):
        x = graph.add("MatMul", x, graph.weight(width, width))
    x = graph.add("LayerNormalization", x, graph.weight(width))
    port = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])
    return graph.model([port], x, ["batch", width])


MODELS: Dict[str, Callable[[], Any]] = {"ResNet-50": resnet50, "BERT, 12 layers": bert, "weights of 1 GB": chain}


def write(name: str, path: Path) -> None:
    """Generate the network `name`, a key of `MODELS`, and write it to `path`."""
    onnx.save(MODELS[name](), str(path))

"""Example: write a small image classifier with random weights, as a model to convert.

python examples/make_model.py digits.onnx

The model has convolutions (one of them depthwise), batch normalisation, a residual, pooling and a softmax. Its input is
a batch of any number of 28x28 images.
"""

import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

CLASSES = 10


def make_model(seed: int = 0) -> onnx.ModelProto:
    """Return the classifier as a ModelProto. The same seed gives the same weights."""
    random = np.random.RandomState(seed)
    nodes, weights = [], []

    def weight(name, *shape):
        scale = np.sqrt(2 / max(1, np.prod(shape[1:])))
        weights.append(numpy_helper.from_array((random.standard_normal(shape) * scale).astype(np.float32), name))
        return name

    def node(operator, inputs, output, **attributes):
        nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def conv(x, name, inputs, outputs, size, group=1):
        filters = weight(name + ".filters", outputs, inputs // group, size, size)
        pads = [size // 2] * 4
        return node("Conv", [x, filters, weight(name + ".bias", outputs)], name, pads=pads, group=group)

    def norm(x, name, channels):
        scale, shift, mean = (weight(name + part, channels) for part in (".scale", ".shift", ".mean"))
        weights.append(numpy_helper.from_array(random.uniform(0.5, 2, channels).astype(np.float32), name + ".variance"))
        return node("BatchNormalization", [x, scale, shift, mean, name + ".variance"], name)

    x = node("Relu", [norm(conv("image", "stem", 1, 8, 3), "stem.norm", 8)], "stem.out")
    x = node("MaxPool", [x], "pool", kernel_shape=[2, 2], strides=[2, 2])
    y = node("Relu", [conv(x, "depthwise", 8, 8, 3, group=8)], "depthwise.out")
    x = node("Add", [x, conv(y, "pointwise", 8, 8, 1)], "residual")
    x = node("Flatten", [node("GlobalAveragePool", [x], "average")], "features")
    x = node("Gemm", [x, weight("head.weights", CLASSES, 8), weight("head.bias", CLASSES)], "head", transB=1)
    node("Softmax", [x], "scores", axis=-1)

    def floats(name, *shape):
        return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)

    image, scores = floats("image", "batch", 1, 28, 28), floats("scores", "batch", CLASSES)
    graph = helper.make_graph(nodes, "digits", [image], [scores], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="onnx-compat example")
    model.ir_version = 8  # the IR version of opset 17: every onnx that knows the opset reads it
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    onnx.save(make_model(), sys.argv[1])
    print("wrote " + sys.argv[1])

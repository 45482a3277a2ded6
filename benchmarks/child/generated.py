"""Write networks that no cache has, with random weights: a detector with a feature pyramid, an image generator, and
LSTMs.
"""

from typing import Any, List

_SIZE, _STEPS, _CELLS = 256, 32, 128


class _Net:
    """Builder of a graph: `node`, `weight` and `conv` append to it, and return the name of the result."""

    def __init__(self) -> None:
        import numpy as np

        self.nodes: List[Any] = []
        self.weights: List[Any] = []
        self.random = np.random.RandomState(0)

    def node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Append a node with one output, and return the name of the output."""
        from onnx import helper

        result = "%s_%d" % (operator.lower(), len(self.nodes))
        self.nodes.append(helper.make_node(operator, list(inputs), [result], **attributes))
        return result

    def weight(self, *shape: int, value: Any = None) -> str:
        """Append an initializer, and return its name. Without `value`, it has random numbers in this shape."""
        import numpy as np
        from onnx import numpy_helper

        name = "weight_%d" % len(self.weights)
        fan_in = int(np.prod(shape[1:])) or 1
        array = self.random.standard_normal(shape).astype(np.float32) / np.sqrt(fan_in).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array if value is None else np.asarray(value), name))
        return name

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 3, stride: int = 1, active: bool = True) -> str:
        """Append a convolution that keeps the size at stride 1, and return the name of its result.

        `inputs`, `outputs`: the numbers of channels. `active`: multiply the result by its sigmoid.
        """
        attributes = {"strides": [stride] * 2, "pads": [kernel // 2] * 4, "kernel_shape": [kernel] * 2}
        y = self.node("Conv", x, self.weight(outputs, inputs, kernel, kernel), self.weight(outputs), **attributes)
        return self.node("Mul", y, self.node("Sigmoid", y)) if active else y


def detector(path: str) -> None:
    """Write an object detector to `path`: features of three scales, a top-down pyramid, and one table of boxes and of
    scores.
    """
    import numpy as np

    net = _Net()
    x = net.conv("x", 3, 16, stride=2)
    levels, channels = [], 16
    for _ in range(4):
        x = net.conv(x, channels, 2 * channels, stride=2)
        channels *= 2
        x = net.node("Add", x, net.conv(net.conv(x, channels, channels // 2, 1), channels // 2, channels))
        levels.append((x, channels))
    top, width = levels.pop()
    top = net.node("Concat", top, net.node("MaxPool", top, kernel_shape=[5, 5], pads=[2] * 4), axis=1)
    top = net.conv(top, 2 * width, 64, 1)
    heads = [top]
    scales = net.weight(4, value=np.array([1, 1, 2, 2], np.float32))
    for side, width in (levels.pop(), levels.pop()):
        attributes = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        up = net.node("Resize", top, "", scales, **attributes)
        top = net.conv(net.node("Concat", up, side, axis=1), 64 + width, 64)
        heads.append(top)
    rows = net.weight(3, value=np.array([1, 24, -1], np.int64))
    tables = [net.node("Reshape", net.conv(head, 64, 24, 1, active=False), rows) for head in heads]
    whole = net.node("Transpose", net.node("Concat", *tables, axis=2), perm=[0, 2, 1])
    parts = [net.weight(2, value=np.array([4, 20], np.int64))]
    from onnx import helper

    net.nodes.append(helper.make_node("Split", [whole, *parts], ["box", "score"], axis=2))
    net.nodes.append(helper.make_node("Sigmoid", ["score"], ["scores"]))
    net.nodes.append(helper.make_node("Exp", [net.node("Mul", "box", net.weight(1))], ["boxes"]))
    _save(net, path, (1, 3, _SIZE, _SIZE), ["boxes", "scores"])


def generator(path: str) -> None:
    """Write an image generator to `path`: transposed convolutions from 100 numbers to an image of 64x64."""
    net = _Net()
    x, inputs = "x", 100
    for outputs, stride in ((256, 1), (128, 2), (64, 2), (32, 2), (3, 2)):
        attributes = {"strides": [stride] * 2, "pads": [stride // 2] * 4, "kernel_shape": [4, 4]}
        x = net.node("ConvTranspose", x, net.weight(inputs, outputs, 4, 4), **attributes)
        if outputs > 3:
            parts = [net.weight(outputs) for _ in range(3)]
            variance = net.weight(outputs, value=net.random.uniform(0.5, 2, outputs).astype("float32"))
            x = net.node("Relu", net.node("BatchNormalization", x, *parts, variance))
        inputs = outputs
    from onnx import helper

    net.nodes.append(helper.make_node("Tanh", [x], ["image"]))
    _save(net, path, (1, 100, 1, 1), ["image"])


def recurrent(path: str) -> None:
    """Write a network of two LSTM layers and a MatMul to `path`."""
    net = _Net()
    x = "x"
    for _ in range(2):
        weights = [net.weight(1, 4 * _CELLS, _CELLS), net.weight(1, 4 * _CELLS, _CELLS), net.weight(1, 8 * _CELLS)]
        x = net.node("LSTM", x, *weights, hidden_size=_CELLS)
        x = net.node("Squeeze", x, net.weight(1, value=[1]))
    from onnx import helper

    net.nodes.append(helper.make_node("MatMul", [x, net.weight(_CELLS, 32)], ["y"]))
    _save(net, path, (_STEPS, 1, _CELLS), ["y"])


def _save(net: _Net, path: str, shape: Any, outputs: List[str]) -> None:
    """Write the network to `path`. Its input "x" has this shape."""
    import onnx
    from onnx import TensorProto, helper

    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(net.nodes, "made", inputs, results, net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)

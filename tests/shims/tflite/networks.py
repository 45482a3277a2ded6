"""Small networks of several kinds (CNN, MLP, LSTM, GRU, attention), with random weights."""

from typing import Any, Dict, List

import numpy as np
from onnx import TensorProto, helper, numpy_helper

__all__ = ["NETWORKS", "network"]


class _Builder:
    def __init__(self) -> None:
        self.random = np.random.RandomState(0)
        self.nodes: List[Any] = []
        self.constants: List[Any] = []

    def weight(self, *shape: int) -> str:
        scale = 1 / np.sqrt(max(1, np.prod(shape[1:])))
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, array: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(array), "c%d" % len(self.constants)))
        return str(self.constants[-1].name)

    def node(self, operator: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        names = ["n%d.%d" % (len(self.nodes), position) for position in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, **attributes))
        return names[0]

    def model(self, result: str, *shape: Any) -> Any:
        self.nodes.append(helper.make_node("Identity", [result], ["y"]))
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "network", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _cnn() -> Any:
    b = _Builder()
    x = b.node("Relu", b.node("Conv", "x", b.weight(16, 3, 3, 3), b.weight(16), pads=[1, 1, 1, 1], strides=[2, 2]))
    x = b.node("Relu", b.node("Conv", x, b.weight(16, 1, 3, 3), b.weight(16), pads=[1, 1, 1, 1], group=16))
    y = b.node("Conv", x, b.weight(16, 16, 1, 1), b.weight(16))
    x = b.node("GlobalAveragePool", b.node("Add", x, y))
    return b.model(b.node("Gemm", b.node("Flatten", x), b.weight(16, 10), b.weight(10)), "n", 3, 16, 16)


def _mlp() -> Any:
    b = _Builder()
    x = b.node("Relu", b.node("Gemm", "x", b.weight(64, 32), b.weight(64), transB=1))
    return b.model(b.node("Softmax", b.node("Gemm", x, b.weight(10, 64), b.weight(10), transB=1), axis=-1), "n", 32)


def _attention(mask: float = 0) -> Any:
    """Return a model with self-attention.

    With a `mask` value, each position attends only to itself and earlier positions.
    """
    b = _Builder()
    q, k, v = (b.node("MatMul", "x", b.weight(32, 32)) for _ in range(3))
    scores = b.node("Mul", b.node("MatMul", q, b.node("Transpose", k, perm=[0, 2, 1])), b.constant(np.float32(0.2)))
    if mask:
        before = b.constant(np.tril(np.ones((6, 6), bool)))
        scores = b.node("Where", before, scores, b.constant(np.float32(mask)))
    x = b.node("Add", "x", b.node("MatMul", b.node("Softmax", scores, axis=-1), v))
    return b.model(b.node("MatMul", b.node("Tanh", x), b.weight(32, 16)), 2, 6, 32)


def _recurrent(operator: str, gates: int) -> Any:
    b = _Builder()
    weights = [b.weight(1, 32 * gates, 16), b.weight(1, 32 * gates, 32), b.weight(1, 64 * gates)]
    y = b.node(operator, "x", *weights, hidden_size=32)
    last = b.node("Squeeze", y, b.constant(np.asarray([1])))
    return b.model(b.node("MatMul", last, b.weight(32, 16)), "steps", 2, 16)


def _mask_values() -> Any:
    return _attention(-np.inf)


def _nearly_masked() -> Any:
    return _attention(-10000)


NETWORKS = {
    "cnn": _cnn,
    "mlp": _mlp,
    "attention": _attention,
    "masked": _mask_values,
    "nearly masked": _nearly_masked,
    "lstm": lambda: _recurrent("LSTM", 4),  # one kernel
    "gru": lambda: _recurrent("GRU", 3),  # a loop
}


def network(name: str) -> Any:
    return NETWORKS[name]()


def feeds(name: str, seed: int, steps: int = 5) -> Dict[str, np.ndarray]:
    """Return random normal inputs of the network `name`, by input name. `steps`: the length for a recurrent network."""
    shape = {"cnn": (2, 3, 16, 16), "mlp": (2, 32), "lstm": (steps, 2, 16), "gru": (steps, 2, 16)}.get(name, (2, 6, 32))
    return {"x": np.random.RandomState(seed).standard_normal(shape).astype(np.float32)}

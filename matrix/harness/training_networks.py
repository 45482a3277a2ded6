"""Small networks as ONNX models, with the same computation over the functions of torch, for loss curves."""

from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
from onnx import TensorProto, helper, numpy_helper

__all__ = ["NETWORKS", "Network", "batches"]

CLASSES, HIDDEN, STEPS = 3, 8, 5


class Network(NamedTuple):
    """A network: its ONNX model, and `forward(torch, weights, x)`, which returns the scores in training mode.

    - weights: initializer -> array, of the parameters. shape: the shape of an example.
    """

    model: Any
    weights: Dict[str, np.ndarray]
    forward: Callable[[Any, Dict[str, Any], Any], Any]
    shape: Tuple[int, ...]


class _Builder:
    """Collects the nodes and the weights of a network."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.RandomState(seed)
        self.nodes: List[Any] = []
        self.weights: Dict[str, np.ndarray] = {}
        self.constants: Dict[str, np.ndarray] = {}

    def weight(self, name: str, *shape: int, scale: float = 0.4) -> str:
        self.weights[name] = (self.random.standard_normal(shape) * scale).astype(np.float32)
        return name

    def constant(self, name: str, value: Any) -> str:
        self.constants[name] = np.asarray(value)
        return name

    def call(self, operator: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> str:
        name = "%s_%d" % (operator.lower(), len(self.nodes))
        names = [name, *("%s.%d" % (name, k) for k in range(1, outputs))]
        self.nodes.append(helper.make_node(operator, list(inputs), names, name=name, **attributes))
        return names[-1]

    def network(self, scores: str, forward: Callable[..., Any], shape: Tuple[int, ...], opset: int = 17) -> Network:
        self.nodes.append(helper.make_node("Identity", [scores], ["scores"]))
        stored = {**self.weights, **self.constants}
        graph = helper.make_graph(
            self.nodes,
            "network",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *shape])],
            [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["n", CLASSES])],
            [numpy_helper.from_array(array, name) for name, array in stored.items()],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        return Network(model, self.weights, forward, shape)

    def dense(self, x: str, name: str, inputs: int, outputs: int) -> str:
        weight, bias = self.weight(name + ".weight", inputs, outputs), self.weight(name + ".bias", outputs)
        return self.call("Add", [self.call("MatMul", [x, weight]), bias])


def _dense(weights: Dict[str, Any], x: Any, name: str) -> Any:
    return x @ weights[name + ".weight"] + weights[name + ".bias"]


def make_mlp() -> Network:
    """Return two dense layers with a Tanh between them."""
    build = _Builder(1)
    hidden = build.call("Tanh", [build.dense("x", "first", 6, HIDDEN)])

    def forward(torch: Any, weights: Dict[str, Any], x: Any) -> Any:
        return _dense(weights, torch.tanh(_dense(weights, x, "first")), "second")

    return build.network(build.dense(hidden, "second", HIDDEN, CLASSES), forward, (6,))


def make_cnn() -> Network:
    """Return a convolution with BatchNormalization, a MaxPool, a Dropout of ratio 0, a second convolution, and a mean."""
    build = _Builder(2)
    x = build.call("Conv", ["x", build.weight("conv", 4, 2, 3, 3), build.weight("conv.bias", 4)], pads=[1] * 4)
    scale, shift = build.weight("scale", 4), build.weight("shift", 4)
    build.weights["scale"] += 1
    statistics = [build.constant("mean", np.zeros(4, np.float32)), build.constant("variance", np.ones(4, np.float32))]
    x = build.call("Sigmoid", [build.call("BatchNormalization", [x, scale, shift, *statistics])])
    x = build.call("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = build.call("Dropout", [x, build.constant("ratio", np.float32(0))])
    x = build.call("Conv", [x, build.weight("depthwise", 4, 1, 3, 3)], pads=[0] * 4, group=4)
    features = build.call("Flatten", [build.call("GlobalAveragePool", [x])])

    def forward(torch: Any, weights: Dict[str, Any], x: Any) -> Any:
        functional = torch.nn.functional
        x = functional.conv2d(x, weights["conv"], weights["conv.bias"], padding=1)
        running = torch.zeros(4), torch.ones(4)
        x = functional.batch_norm(x, *running, weights["scale"], weights["shift"], training=True, eps=1e-5)
        x = functional.max_pool2d(torch.sigmoid(x), 2)
        x = functional.conv2d(x, weights["depthwise"], groups=4)
        return _dense(weights, x.mean((2, 3)), "head")

    return build.network(build.dense(features, "head", 4, CLASSES), forward, (2, 8, 8))


def make_lstm() -> Network:
    """Return an LSTM over 5 steps, and a dense layer on its last state."""
    build = _Builder(3)
    steps = build.call("Transpose", ["x"], perm=[1, 0, 2])
    weights = [build.weight("lstm.input", 1, 4 * HIDDEN, 6), build.weight("lstm.state", 1, 4 * HIDDEN, HIDDEN)]
    last = build.call("LSTM", [steps, *weights, build.weight("lstm.bias", 1, 8 * HIDDEN)], 2, hidden_size=HIDDEN)
    state = build.call("Squeeze", [last, build.constant("axis", np.array([0], np.int64))])

    def forward(torch: Any, weights: Dict[str, Any], x: Any) -> Any:
        bias = weights["lstm.bias"][0].reshape(2, -1).sum(0)
        hidden = cell = torch.zeros(x.shape[0], HIDDEN)
        for step in range(STEPS):
            gates = x[:, step] @ weights["lstm.input"][0].T + hidden @ weights["lstm.state"][0].T + bias
            i, o, f, c = gates.chunk(4, 1)
            cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(c)
            hidden = torch.sigmoid(o) * torch.tanh(cell)
        return _dense(weights, hidden, "head")

    return build.network(build.dense(state, "head", HIDDEN, CLASSES), forward, (STEPS, 6))


def make_transformer() -> Network:
    """Return a block of attention with two heads, layer normalizations and a feed-forward layer, and a mean."""
    build = _Builder(4)
    split = build.constant("split", np.array([0, STEPS, 2, HIDDEN // 2], np.int64))
    join = build.constant("join", np.array([0, STEPS, HIDDEN], np.int64))

    def heads(name: str, perm: Sequence[int]) -> str:
        return build.call(
            "Transpose", [build.call("Reshape", [build.dense("x", name, HIDDEN, HIDDEN), split])], perm=perm
        )

    query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
    scores = build.call("Mul", [build.call("MatMul", [query, key]), build.constant("root", np.float32(0.5))])
    mixed = build.call("MatMul", [build.call("Softmax", [scores], axis=-1), value])
    joined = build.call("Reshape", [build.call("Transpose", [mixed], perm=[0, 2, 1, 3]), join])

    def normalize(x: str, name: str) -> str:
        build.weight(name + ".scale", HIDDEN, scale=0.1)
        build.weights[name + ".scale"] += 1
        return build.call("LayerNormalization", [x, name + ".scale", build.weight(name + ".shift", HIDDEN)], axis=-1)

    x = normalize(build.call("Add", ["x", joined]), "norm")
    inner = build.call("Tanh", [build.dense(x, "up", HIDDEN, 2 * HIDDEN)])
    x = normalize(build.call("Add", [x, build.dense(inner, "down", 2 * HIDDEN, HIDDEN)]), "last")
    pooled = build.call("ReduceMean", [x], axes=[1], keepdims=0)

    def forward(torch: Any, weights: Dict[str, Any], x: Any) -> Any:
        functional = torch.nn.functional
        parts = [
            _dense(weights, x, name).reshape(-1, STEPS, 2, HIDDEN // 2).transpose(1, 2)
            for name in ("query", "key", "value")
        ]
        mixed = torch.softmax(parts[0] @ parts[1].transpose(2, 3) * 0.5, -1) @ parts[2]
        x = x + mixed.transpose(1, 2).reshape(-1, STEPS, HIDDEN)
        x = functional.layer_norm(x, [HIDDEN], weights["norm.scale"], weights["norm.shift"], 1e-5)
        x = x + _dense(weights, torch.tanh(_dense(weights, x, "up")), "down")
        x = functional.layer_norm(x, [HIDDEN], weights["last.scale"], weights["last.shift"], 1e-5)
        return _dense(weights, x.mean(1), "head")

    return build.network(build.dense(pooled, "head", HIDDEN, CLASSES), forward, (STEPS, HIDDEN))


#: Name -> function that makes the network.
NETWORKS = {"mlp": make_mlp, "cnn": make_cnn, "lstm": make_lstm, "transformer": make_transformer}


def batches(network: Network, count: int, examples: int = 8) -> List[Dict[str, np.ndarray]]:
    """Return `count` batches of random examples with random labels."""
    random = np.random.RandomState(9)
    return [
        {
            "x": random.standard_normal((examples, *network.shape)).astype(np.float32),
            "labels": random.randint(0, CLASSES, examples).astype(np.int64),
        }
        for _ in range(count)
    ]

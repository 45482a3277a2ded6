"""Build small training models for tests, by hand and by `make_trainable`, and run them."""

from typing import Any, Dict, Optional, Sequence

import numpy as np
from building import FLOAT, model, node, value
from onnx import StringStringEntryProto, TensorProto, helper, numpy_helper

from onnx_compat.training import prepare_training

LOSS = "softmax_cross_entropy"
FORMS = ("gradient", "expanded")
PREVIEW = helper.make_opsetid("ai.onnx.preview.training", 1)


def entries(bindings: Dict[str, str]) -> Any:
    """Return bindings as messages."""
    pairs = bindings.items()
    return [StringStringEntryProto(key=key, value=value) for key, value in pairs]


def add_info(
    proto: Any,
    nodes: Sequence[Any],
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    states: Dict[str, Any],
    updates: Dict[str, str],
    initial: Optional[Dict[str, str]] = None,
    initialization: Optional[Any] = None,
) -> Any:
    """Add an entry of training information to a model. Return the model."""
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in states.items()]
    info = proto.training_info.add(
        algorithm=helper.make_graph(list(nodes), "algorithm", list(inputs), list(outputs), tensors)
    )
    if initialization is not None:
        info.initialization.CopyFrom(initialization)
    info.update_binding.extend(entries(updates))
    info.initialization_binding.extend(entries(initial or {}))
    return proto


def line(opset: int = 13) -> Any:
    """Return a model y = x * w with a step of gradient descent of the mean squared error, and a counter of steps."""
    main = model(
        [node("MatMul", ["x", "w"], ["y"])],
        [value("x", ["n", 2])],
        [value("y", ["n", 1])],
        {"w": np.array([[1.0], [-1.0]], np.float32)},
        opset,
        [PREVIEW],
    )
    nodes = [
        node("Sub", ["y", "t"], ["distance"]),
        node("Mul", ["distance", "distance"], ["square"]),
        node("ReduceMean", ["square"], ["loss"], keepdims=0),
        node("Gradient", ["w", "x", "t"], ["slope"], domain=PREVIEW.domain, xs=["w"], zs=["x", "t"], y="loss"),
        node("Mul", ["slope", "rate"], ["change"]),
        node("Sub", ["w", "change"], ["w_next"]),
        node("Add", ["steps", "one"], ["steps_next"]),
    ]
    outputs = [value("loss", []), value("w_next", [2, 1]), value("steps_next", [], TensorProto.INT64)]
    states = {"rate": np.float32(0.1), "steps": np.int64(0), "one": np.int64(1)}
    initialization = helper.make_graph(
        [
            node("RandomUniform", [], ["w_random"], shape=[2, 1], low=-1.0, high=1.0),
            node("Constant", [], ["steps_zero"], value=numpy_helper.from_array(np.int64(0))),
        ],
        "initialization",
        [],
        [value("w_random", [2, 1]), value("steps_zero", [], TensorProto.INT64)],
    )
    initial = {"w": "w_random", "steps": "steps_zero"}
    updates = {"w": "w_next", "steps": "steps_next"}
    return add_info(main, nodes, [value("t", ["n", 1], FLOAT)], outputs, states, updates, initial, initialization)


def line_batch(examples: int = 4) -> Dict[str, np.ndarray]:
    """Return a batch for `line`: t = 2 x0 + 3 x1."""
    x = np.random.RandomState(examples).randn(examples, 2).astype(np.float32)
    return {"x": x, "t": (x @ np.array([[2.0], [3.0]], np.float32))}


def classifier(
    opset: int = 13, normalized: bool = False, ratio: Optional[float] = None, dtype: Any = np.float32
) -> Any:
    """Return a model of two dense layers: x [n, 4] -> scores [n, 3].

    - normalized: whether the hidden layer has a BatchNormalization. ratio: the ratio of its Dropout; None: it has none.
    - dtype: the dtype of all tensors.
    """
    random = np.random.RandomState(0)
    weights = {
        "w0": random.randn(4, 8) / 2,
        "b0": np.zeros(8),
        "w1": random.randn(8, 3) / 2,
        "b1": np.zeros(3),
    }
    nodes = [node("MatMul", ["x", "w0"], ["product"]), node("Add", ["product", "b0"], ["hidden"])]
    last = "hidden"
    if normalized:
        weights.update(scale=np.ones(8), shift=np.zeros(8), mean=np.zeros(8), variance=np.ones(8))
        nodes.append(node("BatchNormalization", [last, "scale", "shift", "mean", "variance"], ["normalized"]))
        last = "normalized"
    nodes.append(node("Relu", [last], ["active"]))
    last = "active"
    stored = {name: array.astype(dtype) for name, array in weights.items()}
    if ratio is not None:
        stored["ratio"] = np.float32(ratio)
        nodes.append(node("Dropout", [last, "ratio"], ["dropped"]))
        last = "dropped"
    nodes += [node("MatMul", [last, "w1"], ["product1"]), node("Add", ["product1", "b1"], ["scores"])]
    kind = {np.float32: FLOAT, np.float16: TensorProto.FLOAT16}[dtype]
    ports = [value("x", ["n", 4], kind)], [value("scores", ["n", 3], kind)]
    return model(nodes, *ports, stored, opset)


def classifier_batch(examples: int = 16, dtype: Any = np.float32) -> Dict[str, np.ndarray]:
    """Return a batch for `classifier`: the label is the largest of the first three features."""
    x = np.random.RandomState(examples).randn(examples, 4)
    return {"x": x.astype(dtype), "labels": x[:, :3].argmax(1)}


def curve(training: Any, batch: Any, steps: int = 6, shim: str = "reference") -> Any:
    """Return (the losses of some steps, the states after them)."""
    trainer = prepare_training(training, shim=shim)
    return [trainer.step(batch)["loss"] for _ in range(steps)], trainer.state()


def parameters_of(training: Any) -> Any:
    """Return the parameters: the states of the main graph."""
    stored = {tensor.name for tensor in training.graph.initializer}
    return [binding.key for binding in training.training_info[0].update_binding if binding.key in stored]

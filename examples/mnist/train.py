"""Example: train a small CNN on handwritten digits, on any shim.

python examples/mnist/train.py --shim reference
python examples/mnist/train.py --shim onnx --form expanded

The model has convolutions, batch normalisation, pooling, dropout and a dense layer, with random weights.
"""

import argparse
import os
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

CLASSES = 10
HELD_OUT = 360
BATCH = 48
Data = Dict[str, np.ndarray]


def make_model(seed: int = 0) -> onnx.ModelProto:
    """Return the classifier as a ModelProto. The same seed gives the same weights."""
    random = np.random.RandomState(seed)
    nodes: List[Any] = []
    weights: List[Any] = []

    def weight(name: str, *shape: int) -> str:
        scale = np.sqrt(2 / np.prod(shape[1:]))
        weights.append(numpy_helper.from_array((random.standard_normal(shape) * scale).astype(np.float32), name))
        return name

    def constant(name: str, array: Any) -> str:
        weights.append(numpy_helper.from_array(np.asarray(array, np.float32), name))
        return name

    def node(operator: str, inputs: List[str], output: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def block(x: str, name: str, inputs: int, outputs: int) -> str:
        bias = constant(name + ".bias", np.zeros(outputs))
        x = node("Conv", [x, weight(name + ".filters", outputs, inputs, 3, 3), bias], name, pads=[1] * 4)
        first = {"scale": np.ones(outputs), "shift": np.zeros(outputs), "mean": np.zeros(outputs)}
        names = [constant("%s.%s" % (name, part), array) for part, array in first.items()]
        names.append(constant(name + ".variance", np.ones(outputs)))
        return node("Relu", [node("BatchNormalization", [x, *names], name + ".norm")], name + ".out")

    x = node("MaxPool", [block("image", "first", 1, 12)], "pool", kernel_shape=[2, 2], strides=[2, 2])
    x = node("Flatten", [block(x, "second", 12, 24)], "features")
    x = node("Dropout", [x, constant("ratio", 0.2)], "dropped")
    head = [weight("head.weights", CLASSES, 384), constant("head.bias", np.zeros(CLASSES))]
    node("Gemm", [x, *head], "scores", transB=1)
    ports = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("image", ["batch", 1, 8, 8]), ("scores", ["batch", CLASSES]))
    ]
    graph = helper.make_graph(nodes, "digits", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def load_data() -> Tuple[Data, Data]:
    """Return the data for training and for validation."""
    with np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), "digits.npz")) as stored:
        arrays = {"image": stored["image"].astype(np.float32) / 16, "labels": stored["labels"].astype(np.int64)}
    order = np.random.RandomState(0).permutation(len(arrays["labels"]))
    parts = order[HELD_OUT:], order[:HELD_OUT]
    training, validation = ({name: array[part] for name, array in arrays.items()} for part in parts)
    return training, validation


def train(shim: Optional[str], form: str, epochs: int) -> float:
    """Train the model on a shim. Print the results of each epoch, and return the last accuracy of the validation."""
    from onnx_compat.training import make_trainable, optimizer, prepare_training, schedule

    loss = "softmax_cross_entropy"
    training, validation = load_data()
    steps = epochs * -(-len(training["labels"]) // BATCH)
    rate = schedule("cosine_decay", initial_learning_rate=1e-2, decay_steps=steps)
    model = make_trainable(make_model(), loss, optimizer("adam", rate), metrics=["accuracy"], form=form)
    trainer = prepare_training(model, shim=shim)
    for progress in trainer.fit(training, epochs, batch_size=BATCH, validation=validation):
        assert progress.validation is not None
        print(
            "epoch %d: loss %.4f, accuracy %.4f"
            % (progress.epoch, progress.results["loss"], progress.validation["accuracy"])
        )
    return trainer.evaluate(validation)["accuracy"]


def main() -> None:
    """Read the command line, and train."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shim", help="the shim; default: the first that works")
    parser.add_argument("--form", default="gradient", choices=("gradient", "expanded"))
    parser.add_argument("--epochs", type=int, default=10)
    arguments = parser.parse_args()
    print("accuracy on held-out images: %.4f" % train(arguments.shim, arguments.form, arguments.epochs))


if __name__ == "__main__":
    main()

"""`support` predicts what `convert` does: a sample of the node cases, in every format of the shim under test."""

import json
import os
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from matrix.suites.cache import Case
from onnx_compat.conversion.bundle import read_manifest
from onnx_compat.discovery.selection import find
from onnx_compat.model.protos import operator_name, walk

#: Each STEP-th case is converted; with --sample, half of them. Each GROUPS-th case is in a group; a test runs one group, so
#: that several workers share the cases.
STEP, GROUPS = 16, 4
#: Operations of a graph that TensorFlow adds and removes when it stores a function.
STORED_OTHERWISE = ("Placeholder", "Identity", "NoOp", "ReadVariableOp", "Const")


class Outcome(NamedTuple):
    """The outcome that is predicted, or of a conversion: file, bundle or refused, or the type of an error; ops; parts; fallback."""

    outcome: str
    ops: Dict[str, int] = {}
    parts: List[Tuple[str, int]] = []
    fallback: Dict[str, str] = {}


@pytest.mark.parametrize("group", range(GROUPS))
def test_support_predicts_what_convert_does(
    rows: List[Case], shim: str, group: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    step = 2 * STEP if request.config.getoption("sample", False) else STEP
    newest = sorted({row.id.rpartition("/")[2]: row for row in rows if row.suite == "node"}.items())
    sample = [row for _, row in newest[group::GROUPS]][:: step // GROUPS]
    assert sample or not newest
    wrong = {}
    for number, row in enumerate(sample):
        for form in find(shim).formats:
            predicted = predict(str(row.model), shim, form)
            folder = tmp_path / ("%d-%s" % (number, form))
            folder.mkdir()
            done = convert(str(row.model), shim, form, folder)
            if predicted != done:
                wrong[row.id, form] = (predicted, done)
    assert not wrong, "%d of %d differ: %s" % (len(wrong), len(sample), wrong)


#: Node -> the op, operation or layer that does its work, for each shim.
TARGETS: Dict[str, Dict[str, str]] = {
    "tflite": {
        "conv": "CONV_2D + RELU", "pool": "MAX_POOL_2D", "dense": "FULLY_CONNECTED", "scores": "SOFTMAX",
    },
    "keras": {
        "conv": "keras.layers.Conv2D", "relu": "keras.layers.ReLU", "pool": "keras.layers.MaxPooling2D",
        "dense": "keras.layers.Dense", "scores": "keras.layers.Softmax",
    },
    "tf1": {"conv": "Conv2D", "relu": "Relu", "pool": "MaxPool", "dense": "MatMul", "scores": "Softmax"},
    "tf2": {"conv": "Conv2D", "relu": "Relu", "pool": "MaxPool", "dense": "MatMul", "scores": "Softmax"},
    "onnx": {"conv": "Conv", "relu": "Relu", "pool": "MaxPool", "dense": "Gemm", "scores": "Softmax"},
}  # fmt: skip


def network(kind: str) -> Any:
    """Return a network of images, a recurrent one, or one with text, which most formats hold only in a bundle."""
    random = np.random.RandomState(0)
    node, port = helper.make_node, helper.make_tensor_value_info
    if kind == "recurrent":
        shapes = {"w": (1, 16, 3), "r": (1, 16, 4)}
        nodes = [
            node("LSTM", ["x", "w", "r"], ["h"], name="lstm", hidden_size=4),
            node("Squeeze", ["h", "axes"], ["s"], name="squeeze"),
            node("Tanh", ["s"], ["y"], name="tanh"),
        ]
        ports = [port("x", TensorProto.FLOAT, [5, 2, 3]), port("y", TensorProto.FLOAT, [5, 2, 4])]
    elif kind == "text":
        shapes = {}
        nodes = [
            node("Neg", ["x"], ["y"], name="neg"),
            node("StringNormalizer", ["t"], ["u"], name="text", case_change_action="UPPER"),
        ]
        ports = [port("x", TensorProto.FLOAT, [2]), port("y", TensorProto.FLOAT, [2])]
    else:
        shapes = {"k": (4, 3, 3, 3), "b": (4,), "m": (16, 5), "o": (5,)}
        nodes = [
            node("Conv", ["x", "k", "b"], ["c"], name="conv", pads=[1] * 4),
            node("Relu", ["c"], ["r"], name="relu"),
            node("MaxPool", ["r"], ["p"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
            node("Flatten", ["p"], ["f"], name="flatten"),
            node("Gemm", ["f", "m", "o"], ["g"], name="dense"),
            node("Softmax", ["g"], ["y"], name="scores", axis=-1),
        ]
        ports = [port("x", TensorProto.FLOAT, [1, 3, 4, 4]), port("y", TensorProto.FLOAT, [1, 5])]
    arrays = {name: random.rand(*shape).astype(np.float32) for name, shape in shapes.items()}
    weights = [numpy_helper.from_array(array, name) for name, array in {**arrays, "axes": np.array([1])}.items()]
    graph = helper.make_graph(nodes, kind, ports[:1], ports[1:], weights)
    if kind == "text":
        graph.input.append(port("t", TensorProto.STRING, [2]))
        graph.output.append(port("u", TensorProto.STRING, [2]))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


@pytest.mark.parametrize("kind", ["images", "recurrent", "text"])
def test_support_predicts_the_conversion_of_networks(kind: str, shim: str, tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    onnx.save(network(kind), path)
    for form in find(shim).formats:
        folder = tmp_path / form
        folder.mkdir()
        predicted = predict(path, shim, form)
        assert predicted.outcome in ("file", "bundle"), (form, predicted)
        assert predicted == convert(path, shim, form, folder), form


def test_support_names_the_targets_of_the_nodes(shim: str, tmp_path: Path) -> None:
    path = str(tmp_path / "m.onnx")
    onnx.save(network("images"), path)
    for form in find(shim).formats:
        ops = {entry.node: entry.ops for entry in onnx_compat.support(path, shim=shim, to=form)}
        assert all(target in ops[name] for name, target in TARGETS[shim].items()), (form, ops)


def predict(path: str, shim: str, form: str) -> Outcome:
    try:
        support = onnx_compat.support(path, shim=shim, to=form)
    except onnx_compat.OnnxCompatError as error:
        return Outcome(type(error).__name__)
    if support.outcome == "refused":
        assert support.reason
        return Outcome("refused")
    listed = [op for node in support if node.status != "fallback" for op in node.ops]
    assert {op.partition(" + ")[0] for op in listed} <= set(support.ops) or has_bodies(path)
    parts = [(part.kind, len(part.nodes)) for part in support.parts]
    fallback = {name: reason for part in support.parts for name, reason in part.reasons.items()}
    # A bundle of .onnx files does not say which of them the fallback runs: their operators are not compared.
    ops = {} if support.outcome == "bundle" and shim == "onnx" else select_ops(support.ops, shim)
    return Outcome(support.outcome, ops, parts, fallback)


def has_bodies(path: str) -> bool:
    """Whether a node of the model has subgraphs, whose ops are those of nested graphs."""
    return any(any(node.subgraphs()) for node in onnx_compat.load(path).graph.nodes)


def convert(path: str, shim: str, form: str, folder: Path) -> Outcome:
    """Convert a case to a file, or else to a bundle, and return what was written."""
    target = str(folder / ("converted" + find(shim).formats[form][0]))
    try:
        onnx_compat.convert(path, target, to=form, shim=shim)
    except (onnx_compat.ConversionError, onnx_compat.UnsupportedError):
        assert os.listdir(str(folder)) == []
    except onnx_compat.OnnxCompatError as error:
        return Outcome(type(error).__name__)
    else:
        return Outcome("file", select_ops(count_ops(target, shim, form), shim))
    try:
        written = onnx_compat.convert(path, target, to=form, shim=shim, allow_fallback=True)
    except (onnx_compat.ConversionError, onnx_compat.UnsupportedError):
        return Outcome("refused")
    assert written.suffix == ".zip"
    manifest = read_manifest(written)
    ops: Counter[str] = Counter()
    with zipfile.ZipFile(str(written)) as archive:
        archive.extractall(str(folder / "parts"))
    for part in manifest.parts:
        if part.kind != "onnx":
            ops.update(count_ops(str(folder / "parts" / part.path), shim, form))
    parts = [(part.kind, part.nodes) for part in manifest.parts]
    return Outcome("bundle", select_ops(ops, shim), parts, {node.node: node.reason for node in manifest.fallback})


def select_ops(ops: Mapping[str, int], shim: str) -> Dict[str, int]:
    """Return the ops to compare: for TensorFlow, without those that it adds and removes.

    For Keras, "keras.ops.get_item" and the class name "GetItem" become "getitem".
    """
    if shim != "keras":
        return {name: count for name, count in ops.items() if shim == "tflite" or name not in STORED_OTHERWISE}
    counts: Counter[str] = Counter()
    for name, count in ops.items():
        counts[name.rpartition(".")[2].replace("_", "").lower()] += count
    return dict(counts)


def count_ops(path: str, shim: str, form: str) -> Dict[str, int]:
    """Return op -> number for a written file or folder, read from the file itself."""
    if form == "tflite":
        from onnx_compat_tflite import flatbuffer as fb

        return Counter(operator.builtin for graph in fb.read(path).subgraphs for operator in graph.operators)
    if form == "keras":
        with zipfile.ZipFile(path) as archive:
            layers = json.loads(archive.read("config.json").decode("utf-8"))["config"]["layers"]
        return Counter(layer["class_name"] for layer in layers if layer["class_name"] != "InputLayer")
    if form == "onnx":
        return Counter(operator_name(node) for node in walk(onnx.load(path).graph.node))
    return Counter(node.op for node in graph_nodes(path, shim, form))


def graph_nodes(path: str, shim: str, form: str) -> Any:
    """Return the nodes of the graph of a .pb file or a SavedModel folder; on tf2, those of the model's function."""
    from tensorflow.core.framework import graph_pb2
    from tensorflow.core.protobuf import saved_model_pb2

    content: Optional[Any] = graph_pb2.GraphDef() if form == "graphdef" else saved_model_pb2.SavedModel()
    with open(path if form == "graphdef" else os.path.join(path, "saved_model.pb"), "rb") as file:
        content.ParseFromString(file.read())
    if form == "graphdef":
        return content.node
    graph = content.meta_graphs[0].graph_def
    if shim == "tf1":
        return graph.node
    functions = [item for item in graph.library.function if item.signature.name.startswith("__inference_run_")]
    assert len(functions) == 1
    return functions[0].node_def

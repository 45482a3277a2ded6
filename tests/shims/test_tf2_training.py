"""tf2: the native object and the SavedModel have the weights of the model as trainable variables, with its names."""

import os
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
import pytest
import tensorflow as tf
from onnx import helper, numpy_helper

import onnx_compat

FLOAT, INT, BOOL = 1, 7, 9
BATCH = {"image": np.random.RandomState(1).rand(6, 3, 8, 8).astype(np.float32), "kind": np.arange(6) % 4}
LABELS = np.arange(6) % 5


def weights(*shape: int) -> np.ndarray:
    return (np.random.RandomState(sum(shape)).randn(*shape) * 0.3).astype(np.float32)


WEIGHTS: Dict[str, np.ndarray] = {
    "conv.weight": weights(8, 3, 3, 3),
    "bn.weight": np.abs(weights(8)) + 0.5,
    "bn.bias": weights(8),
    "bn.running_mean": weights(8),
    "bn.running_var": np.abs(weights(8)) + 0.5,
    "norm::scale": np.abs(weights(8)) + 0.5,
    "kind.table": weights(4, 8),
    "head/weight:0": weights(5, 8),
    "head/bias:0": weights(5),
    "large": weights(8, 20000),
    "back": weights(20000, 8) / 100,
}
#: What are no weights: numbers, integers, shapes, masks.
OTHERS: Dict[str, np.ndarray] = {
    "half": np.array(0.5, np.float32),
    "order": np.arange(8)[::-1].copy(),
    "shape": np.array([0, -1]),
    "mask": np.array([0, 0, 0, 0, 0, 0, 0, -np.inf], np.float32),
    "floor": np.array([np.finfo(np.float32).min] * 7 + [0], np.float32),
}
#: The names of the variables: those of the model, with the characters that TensorFlow accepts.
NAMES = {
    "conv.weight", "bn.bias", "norm__scale", "kind.table", "head/weight_0", "head/bias_0", "large", "back",
}  # fmt: skip


def classifier() -> Any:
    """Return a model with folded and free normalisation, an embedding, masks, and a linear layer."""
    nodes = [
        ("Conv", ["image", "conv.weight"], "c", {"pads": [1, 1, 1, 1]}),
        ("BatchNormalization", ["c", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"], "n", {}),
        ("Relu", ["n"], "r", {}),
        ("GlobalAveragePool", ["r"], "g", {}),
        ("Reshape", ["g", "shape"], "flat", {}),
        ("Gather", ["flat", "order"], "turned", {"axis": 1}),
        ("Mul", ["turned", "norm::scale"], "scaled", {}),
        ("Gather", ["kind.table", "kind"], "embedded", {}),
        ("Add", ["scaled", "embedded"], "sum", {}),
        ("Mul", ["sum", "half"], "halved", {}),
        ("MatMul", ["halved", "large"], "wide", {}),
        ("MatMul", ["wide", "back"], "narrow", {}),
        ("Add", ["halved", "narrow"], "both", {}),
        ("Add", ["both", "mask"], "masked", {}),
        ("Max", ["masked", "floor"], "clipped", {}),
        ("Relu", ["clipped"], "positive", {}),
        ("Gemm", ["positive", "head/weight:0", "head/bias:0"], "scores", {"transB": 1}),
    ]
    return graph_model(
        [helper.make_node(op, inputs, [output], name="node " + output, **rest) for op, inputs, output, rest in nodes],
        [("image", FLOAT, ["n", 3, 8, 8]), ("kind", INT, ["n"])],
        [("scores", FLOAT, ["n", 5])],
        dict(WEIGHTS, **OTHERS),
    )


def graph_model(nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], stored: Dict[str, Any]) -> Any:
    ends = [[helper.make_tensor_value_info(*port) for port in side] for side in (inputs, outputs)]
    initializers = [numpy_helper.from_array(array, name) for name, array in stored.items()]
    graph = helper.make_graph(nodes, "trainable", ends[0], ends[1], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module", name="runnable")
def _runnable() -> Any:
    return onnx_compat.prepare(classifier(), shim="tf2")


def names(variables: Sequence[Any]) -> List[str]:
    return [variable.name.rpartition(":")[0] for variable in variables]


def train(call: Callable[[], Any], variables: Sequence[Any], rate: float = 0.002, steps: int = 4) -> List[float]:
    """Train by plain SGD. Return the losses. Assert that the loss depends on each variable."""
    losses = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            scores = call()
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=scores))
        gradients = tape.gradient(loss, variables)
        assert [name for name, value in zip(names(variables), gradients) if value is None] == []
        for variable, gradient in zip(variables, gradients):
            variable.assign_sub(rate * tf.convert_to_tensor(gradient))
        losses.append(float(loss))
    return losses


def feeds() -> List[Any]:
    return [tf.constant(array) for array in BATCH.values()]


def test_the_weights_are_trainable_variables_with_the_names_of_the_model(runnable: Any) -> None:
    native = runnable.native
    assert isinstance(native, tf.Module)
    assert set(names(native.trainable_variables)) == NAMES and len(native.trainable_variables) == len(NAMES)
    assert set(names(native.variables)) == NAMES
    values = {variable.name: variable.numpy() for variable in native.trainable_variables}
    np.testing.assert_array_equal(values["kind.table:0"], WEIGHTS["kind.table"])
    np.testing.assert_array_equal(values["head/weight_0:0"], WEIGHTS["head/weight:0"])
    kinds = {operation.type for operation in native.function.graph.get_operations()}
    assert "ReadVariableOp" in kinds


def test_a_module_that_holds_it_finds_its_variables_once(runnable: Any) -> None:
    class Outer(tf.Module):  # type: ignore[misc]  # TensorFlow ships no types
        def __init__(self) -> None:
            super().__init__()
            self.inner = runnable.native
            self.own = tf.Variable(1.0)

    assert len(Outer().trainable_variables) == len(NAMES) + 1


def test_training_changes_native_and_not_run(runnable: Any) -> None:
    before = runnable.run(BATCH)[0]
    np.testing.assert_allclose(runnable.native(*feeds())[0].numpy(), before, rtol=1e-4, atol=1e-5)
    losses = train(lambda: runnable.native(*feeds())[0], runnable.native.trainable_variables)
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    assert np.abs(runnable.native(*feeds())[0].numpy() - before).max() > 1e-4
    np.testing.assert_array_equal(runnable.run(BATCH)[0], before)


def test_a_function_of_the_user_may_call_native(runnable: Any) -> None:
    native = runnable.native

    @tf.function
    def gradients(image: Any, kind: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(native(image, kind=kind)[0])
        return tape.gradient(loss, native.trainable_variables)

    assert all(gradient is not None for gradient in gradients(*feeds()))


def sizes(folder: Path) -> Dict[str, int]:
    return {
        os.path.relpath(os.path.join(root, name), str(folder)): os.path.getsize(os.path.join(root, name))
        for root, _, files in os.walk(str(folder))
        for name in files
    }


def test_a_saved_model_is_trained_and_saved_again(tmp_path: Path) -> None:
    path = tmp_path / "saved"
    onnx_compat.convert(classifier(), path, shim="tf2")
    stored = sum(array.nbytes for name, array in WEIGHTS.items() if not name.startswith("bn.running"))
    content = sizes(path)
    assert content["saved_model.pb"] < 200_000 < stored, "the weights are in the checkpoint alone"
    assert sum(content.values()) < stored + 300_000
    loaded = tf.saved_model.load(str(path))
    assert set(names(loaded.trainable_variables)) == NAMES and len(loaded.variables) == len(NAMES)
    serve = loaded.signatures["serving_default"]
    call = lambda: serve(**dict(zip(BATCH, feeds())))["scores"]  # noqa: E731
    before = call().numpy()
    np.testing.assert_allclose(loaded(*feeds())[0].numpy(), before, rtol=1e-5)
    np.testing.assert_allclose(onnx_compat.run(classifier(), BATCH, shim="tf2")[0], before, rtol=1e-4, atol=1e-5)
    losses = train(call, loaded.trainable_variables)
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]
    again = tmp_path / "again"
    tf.saved_model.save(loaded, str(again), signatures=loaded.signatures)
    tuned = onnx_compat.load_converted(again, shim="tf2").run(BATCH)["scores"]
    np.testing.assert_allclose(tuned, call().numpy(), rtol=1e-5, atol=1e-6)
    assert np.abs(tuned - before).max() > 1e-4


def test_a_trained_native_object_is_saved_with_its_signatures(runnable: Any, tmp_path: Path) -> None:
    native = runnable.native
    scores = native.signatures["serving_default"](**dict(zip(BATCH, feeds())))["scores"]
    np.testing.assert_allclose(scores.numpy(), native(*feeds())[0].numpy(), rtol=1e-5)
    tf.saved_model.save(native, str(tmp_path), signatures=native.signatures)
    np.testing.assert_allclose(
        onnx_compat.load_converted(tmp_path, shim="tf2").run(BATCH)["scores"], scores.numpy(), rtol=1e-5
    )
    assert set(names(tf.saved_model.load(str(tmp_path)).trainable_variables)) == NAMES


def test_weights_of_branches_and_loops_are_trained() -> None:
    """A Loop multiplies by `w` three times; a branch adds `b`, the other one `c`."""
    branches = [
        helper.make_graph(
            [helper.make_node("Add", ["looped", name], ["out_" + name], name="add " + name)],
            "branch_" + name,
            [],
            [helper.make_tensor_value_info("out_" + name, FLOAT, None)],
            [numpy_helper.from_array(weights(5), name)],
        )
        for name in "bc"
    ]
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "w"], ["next"], name="product"),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", INT, []),
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("state", FLOAT, ["n", 5]),
        ],
        [helper.make_tensor_value_info("on", BOOL, []), helper.make_tensor_value_info("next", FLOAT, ["n", 5])],
    )
    nodes = [
        helper.make_node("Loop", ["rounds", "", "x"], ["looped"], body=body, name="loop"),
        helper.make_node("If", ["flag"], ["scores"], then_branch=branches[0], else_branch=branches[1], name="either"),
    ]
    inputs = [("x", FLOAT, ["n", 5]), ("rounds", INT, []), ("flag", BOOL, [])]
    proto = graph_model(nodes, inputs, [("scores", FLOAT, ["n", 5])], {"w": weights(5, 5)})
    native = onnx_compat.prepare(proto, shim="tf2").native
    assert set(names(native.trainable_variables)) == {"w", "b", "c"}
    x = tf.constant(weights(6, 5))

    def call(flag: bool) -> Any:
        return native(x, tf.constant(3, tf.int64), tf.constant(flag))[0]

    losses = train(lambda: call(True) + 0 * call(False), native.trainable_variables)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(("axes", "groups"), [(1, 1), (2, 1), (2, 2), (3, 1)])
def test_filters_of_transposed_convolutions_are_stored_as_the_kernel_reads_them(axes: int, groups: int) -> None:
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], name="up", strides=[2] * axes, group=groups)
    image = weights(2, 4, *[5] * axes)
    proto = graph_model(
        [node],
        [("x", FLOAT, list(image.shape))],
        [("y", FLOAT, None)],
        {"w": weights(4, 6 // groups, *[2] * axes), "b": weights(6)},
    )
    runnable = onnx_compat.prepare(proto, shim="tf2")
    native = runnable.native
    assert names(native.trainable_variables) == ["w", "b"]
    kernel = native.trainable_variables[0]
    np.testing.assert_allclose(native(image)[0].numpy(), runnable.run([image])[0], rtol=1e-4, atol=1e-5)
    assert groups > 1 or axes == 1 or kernel.shape[-2:] == (6, 4)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(native(image)[0] ** 2)
    assert tape.gradient(loss, kernel).shape == kernel.shape


def test_parts_of_a_weight_have_numbered_names() -> None:
    nodes = [
        helper.make_node("Split", ["w"], ["q", "k"], axis=1, name="split"),
        helper.make_node("MatMul", ["x", "q"], ["a"], name="first"),
        helper.make_node("MatMul", ["a", "k"], ["scores"], name="second"),
    ]
    proto = graph_model(nodes, [("x", FLOAT, ["n", 5])], [("scores", FLOAT, ["n", 5])], {"w": weights(5, 10)})
    native = onnx_compat.prepare(proto, shim="tf2").native
    assert names(native.trainable_variables) == ["w", "w_1"]


@pytest.mark.parametrize("limit", [None, 1000])
def test_other_large_constants_are_variables_beyond_the_limit_alone(
    limit: Optional[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of integers is never trainable. Beyond the limit of a graph it is a variable."""
    import onnx_compat_tf2.module as limited

    if limit is not None:
        monkeypatch.setattr(limited, "GRAPH_LIMIT", limit)
    table = np.arange(40000).reshape(-1, 5)
    nodes = [
        helper.make_node("Gather", ["table", "x"], ["rows"], name="gather"),
        helper.make_node("Cast", ["rows"], ["floats"], to=1, name="cast"),
        helper.make_node("MatMul", ["floats", "w"], ["y"], name="product"),
    ]
    proto = graph_model(nodes, [("x", INT, ["n"])], [("y", FLOAT, ["n", 3])], {"table": table, "w": weights(5, 3)})
    runnable = onnx_compat.prepare(proto, shim="tf2")
    native = runnable.native
    assert names(native.trainable_variables) == ["w"]
    assert len(native.variables) == (1 if limit is None else 2)
    rows = np.array([3, 7999])
    np.testing.assert_allclose(runnable.run([rows])[0], table[rows].astype(np.float32) @ weights(5, 3), rtol=1e-4)

"""The probe of the TensorFlow shims, their feature detection, and the names in their graphs."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnx_compat.discovery import selection


@pytest.fixture(scope="module")
def shim(request: Any) -> Any:
    return selection.find(request.getfixturevalue("shim_name"))


def test_the_probe_names_version_and_features(shim: Any) -> None:
    probe = shim.probe()
    assert probe.available and probe.framework == "tensorflow" and probe.version
    assert all(isinstance(value, (bool, str)) for value in probe.features.values())


def test_the_other_shim_names_the_right_shim(shim: Any) -> None:
    pytest.importorskip("onnx_compat_tf1" if shim.name == "tf2" else "onnx_compat_tf2")
    package = {"tf1": "onnx_compat_tf2", "tf2": "onnx_compat_tf1"}[shim.name]
    probe = __import__(package).SHIM.probe()
    assert not probe.available and "shim " + shim.name in probe.reason


def test_a_graph_of_the_caller_does_not_change_the_shim(shim: Any) -> None:
    """The result of a probe is kept for the process."""
    import onnx_compat
    from onnx_compat.errors import ShimError

    tf = shim.features.tf
    port = helper.make_tensor_value_info
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [port("x", 1, [2])], [port("y", 1, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    feed = {"x": np.ones(2, np.float32)}
    with tf.Graph().as_default():
        assert shim.find_obstacle(tf) is None
        runnable = onnx_compat.prepare(model, shim=shim.name)
        if shim.name == "tf2":
            with pytest.raises(ShimError, match="TensorFlow builds a graph here"):
                runnable.run(feed)
        else:
            assert runnable.run(feed)[0].tolist() == [-1, -1]
    assert runnable.run(feed)[0].tolist() == [-1, -1]


def test_loading_the_shim_imports_no_tensorflow_and_probing_prints_nothing(shim_name: str) -> None:
    code = (
        "import sys, onnx_compat_%s as shim; assert 'tensorflow' not in sys.modules;"
        "assert shim.SHIM.probe().available" % shim_name
    )
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=-1, stderr=-1, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert not done.stdout.strip() and not done.stderr.strip(), done.stderr.decode()


def test_a_missing_kernel_is_replaced_or_an_error(shim: Any) -> None:
    from onnx_compat.errors import UnsupportedError

    features = shim.features
    assert features.route("AddV2", "float32", 2) is None
    assert features.route("MatMul", "uint8", 2).dtype in ("int32", "int64")
    assert not features.can_run("Conv2D", "string", 2)
    with pytest.raises(UnsupportedError, match="no kernel of Conv2D for string"):
        features.route("Conv2D", "string", 2)


@pytest.mark.parametrize("name", ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"])
def test_a_comparison_in_another_dtype_stays_a_boolean(name: str, shim: Any, monkeypatch: Any) -> None:
    from onnx_compat_tensorflow.emitter import GraphEmitter
    from onnx_compat_tensorflow.kernels import Route

    monkeypatch.setattr(type(shim.features), "route", lambda *about: Route("int64", "cast"))
    tf = shim.features.tf
    with tf.Graph().as_default():
        x = tf.constant([1, 2], tf.int32)
        assert GraphEmitter(shim.features).op(name, x, x).dtype == tf.bool


def test_a_scattered_sum_without_a_kernel_is_refused(shim: Any) -> None:
    from onnx_compat_tensorflow.emitter import GraphEmitter

    from onnx_compat.errors import UnsupportedError

    tf = shim.features.tf
    with tf.Graph().as_default():
        x = tf.constant([b"a"])
        with pytest.raises(UnsupportedError, match="no kernel of TensorScatterAdd for string"):
            GraphEmitter(shim.features).scatter_nd(x, tf.constant([[0]]), x, "add")


@pytest.mark.parametrize("size", [7, 8])
@pytest.mark.parametrize(("rank", "group"), [(1, 4), (2, 4), (3, 1), (3, 4)])
def test_a_dilated_convolution_without_a_kernel_sums_its_taps(
    rank: int, group: int, size: int, shim: Any, monkeypatch: Any
) -> None:
    """The shim computes it with stride 1 and subsamples the result. SAME has other pads for stride 1."""
    from onnx_compat import primitives
    from onnx_compat.ir import dtypes
    from onnx_compat.ir.window import Window
    from onnx_compat.shim.interface import Port
    from onnx_compat.tracing.recording import record_program

    holds = type(shim.features).holds
    questions = []

    def lacking(self: Any, name: str, *about: Any) -> Any:
        questions.append(name)
        return not name.startswith("dilated") and holds(self, name, *about)

    monkeypatch.setattr(type(shim.features), "holds", lacking)
    w = np.random.RandomState(0).uniform(-1, 1, (4, 4 // group, *(3,) * rank)).astype(np.float32)
    x = np.random.RandomState(1).uniform(-1, 1, (2, 4, *(size,) * rank)).astype(np.float32)
    beyond = max((-(-size // 2) - 1) * 2 + 5 - size, 0)
    for pads in ([(beyond // 2, beyond - beyond // 2)] * rank, [(2, 2)] * rank, [(0, 1)] * rank):
        how = {"window": Window.of((3,) * rank, [2] * rank, [2] * rank, pads), "groups": group}
        ports = [Port("x", dtypes.float32, x.shape)]
        program = record_program(lambda x, how=how: [primitives.conv(x, w, **how)], ports, shim.emitter())
        want = primitives.conv(x, w, **how).value
        np.testing.assert_allclose(shim.compile(program).run([x])[0], want, rtol=1e-3, atol=1e-4, err_msg=str(pads))
    assert any(name.startswith("dilated") for name in questions)


def test_a_question_does_not_disturb_the_graph_that_is_being_built(shim: Any) -> None:
    import tensorflow as tf
    from onnx_compat_tensorflow.features import Features

    with tf.Graph().as_default() as graph:
        assert Features(tf).holds("explicit Conv2D")
        assert tf.compat.v1.get_default_graph() is graph and not graph.get_operations()


def test_the_module_is_called_by_position_or_by_name(shim: Any) -> None:
    if shim.name != "tf2":
        pytest.skip("a tf.Module is what tf2 gives")
    from onnx_compat.ir import dtypes
    from onnx_compat.shim.interface import Port
    from onnx_compat.tracing.recording import record_program

    ports = [Port("a.b", dtypes.float32, (None,)), Port("c", dtypes.float32, (None,))]
    module = shim.compile(record_program(lambda a, c: [a - c], ports, shim.emitter())).native
    two, unit = np.full(3, 2, np.float32), np.ones(3, np.float32)
    for outputs in (module(two, unit), module(two, c=unit), module(**{"a.b": two, "c": unit})):
        np.testing.assert_array_equal(outputs[0].numpy(), unit)


def test_names_stay_if_tensorflow_accepts_them() -> None:
    from onnx_compat_tensorflow.names import argument_names, operation_names, scope

    assert scope("/layer.0/conv//Conv") == "layer.0/conv/Conv" and scope("::") == "node__"
    assert operation_names(["x", "layer/y.1", "a:0"]) == {"x": "x", "layer/y.1": "layer/y.1", "a:0": "a_0"}
    given = operation_names(["x:0", "x_0", "X_0"])
    assert given["x_0"] == "x_0" and len({name.lower() for name in given.values()}) == 3
    assert argument_names(["input.1", "2"]) == {"input.1": "input_1", "2": "input_2"}

"""The arrays of a result belong to the caller: to change them changes no input, no other output and no later run."""

import pickle
from typing import Any, Dict

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import onnx_compat
from onnx_compat.discovery.selection import find

X = np.arange(6, dtype=np.float32).reshape(2, 3)
W = np.float32([10, 20, 30])


def ports() -> Any:
    """Return a model whose outputs are an input, views of an input, stored and folded constants, and one value twice."""
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Transpose", ["x"], ["turned"]),
        helper.make_node("Reshape", ["x", "six"], ["flat"]),
        helper.make_node("Identity", ["w"], ["stored"]),
        helper.make_node("Add", ["w", "w"], ["folded"]),
        helper.make_node("Add", ["x", "w"], ["sum"]),
        helper.make_node("Identity", ["sum"], ["again"]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Shape", ["x"], ["shape"]),
    ]
    shapes: Dict[str, Any] = {"same": [2, 3], "turned": [3, 2], "flat": [6], "stored": [3], "folded": [3]}
    shapes.update(sum=[2, 3], again=[2, 3], total=[])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    outputs.append(helper.make_tensor_value_info("shape", TensorProto.INT64, [2]))
    constants = [numpy_helper.from_array(W, "w"), numpy_helper.from_array(np.array([6]), "six")]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    graph = helper.make_graph(nodes, "ports", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def check(runnable: Any) -> None:
    given = X.copy()
    expected = {name: np.array(array) for name, array in runnable.run({"x": given}).as_dict().items()}
    outputs = runnable.run({"x": given}).as_dict()
    for name, array in outputs.items():
        assert isinstance(array, np.ndarray) and array.flags.writeable, name
        array[...] = 99
        np.testing.assert_array_equal(given, X, err_msg="%s is the input" % name)
        for other_name, values in list(expected.items())[list(expected).index(name) + 1 :]:
            np.testing.assert_array_equal(outputs[other_name], values, err_msg="%s is %s" % (name, other_name))
    for name, array in runnable.run({"x": given}).as_dict().items():
        np.testing.assert_array_equal(array, expected[name], err_msg="%s was cached" % name)


def test_outputs_of_a_runnable(shim_name: str) -> None:
    check(onnx_compat.prepare(ports(), shim=shim_name))


def test_outputs_of_a_model_without_computation(shim_name: str) -> None:
    """All outputs are inputs or constants, so that nothing need be compiled."""
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("y", [2, 3]), ("c", [3]))
    ]
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Identity", ["w"], ["c"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    graph = helper.make_graph(nodes, "ports", inputs, outputs, [numpy_helper.from_array(W, "w")])
    check(onnx_compat.prepare(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), shim=shim_name))


def test_outputs_of_a_model_that_runs_without_compiling(shim_name: str, monkeypatch: Any) -> None:
    """The shim refuses to compile, so that a model is executed, or runs in the fallback."""
    from onnx_compat.errors import UnsupportedError

    def refuse(self: Any, program: Any, device: Any = None) -> Any:
        raise UnsupportedError("not here")

    if shim_name != "reference":  # which is the fallback itself
        monkeypatch.setattr(type(find(shim_name)), "compile", refuse)
    check(onnx_compat.prepare(ports(), shim=shim_name))


def test_outputs_of_a_file(shim_name: str, tmp_path: Any) -> None:
    for form, (suffix, _) in find(shim_name).formats.items():
        path = onnx_compat.convert(ports(), tmp_path / (form + suffix), to=form, shim=shim_name)
        check(onnx_compat.load_converted(path, shim_name))


def test_a_runnable_is_pickled(shim_name: str) -> None:
    runnable = pickle.loads(pickle.dumps(onnx_compat.prepare(ports(), shim=shim_name)))  # noqa: S301 (its own pickle)
    assert runnable.shim == shim_name
    np.testing.assert_array_equal(runnable.run(X)["sum"], X + W)
    assert repr(runnable).startswith("<Runnable 'ports' on %s" % shim_name)

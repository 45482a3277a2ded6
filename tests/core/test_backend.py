"""The ONNX Backend API (`onnx.backend.base`), as this library implements it."""

import numpy as np
from building import model, node, value
from onnx import helper

from onnx_compat import backend

X = np.array([[-1.0, 2.0]], np.float32)


def test_prepare_and_run() -> None:
    rep = backend.prepare(model([node("Relu", ["x"], ["y"])], [value("x", ["n", 2])], [value("y")]), shim="reference")
    (y,) = rep.run([X])
    np.testing.assert_array_equal(y, [[0, 2]])


def test_run_model_and_run_node() -> None:
    proto = model([node("Neg", ["x"], ["y"])], [value("x", ["n", 2])], [value("y")])
    np.testing.assert_array_equal(backend.run_model(proto, [X], shim="reference")[0], -X)
    add = helper.make_node("Add", ["a", "b"], ["c"])
    np.testing.assert_array_equal(backend.run_node(add, [X, X], shim="reference", opset_version=14)[0], X + X)


def test_the_backend_has_a_name_and_devices() -> None:
    supported = [
        name for name in ("CPU", "CUDA:1", "TPU") if backend.OnnxCompatBackend.supports_device(name, "reference")
    ]
    assert supported == ["CPU"]
    proto = model([node("Neg", ["x"], ["y"])], [value("x", ["n", 2])], [value("y")])
    assert backend.is_compatible(proto, shim="reference")
    foreign = model(
        [node("Nope", ["x"], ["y"], domain="d")],
        [value("x", [2])],
        [value("y")],
        extra_opsets=[helper.make_opsetid("d", 1)],
    )
    assert not backend.is_compatible(foreign, shim="reference")

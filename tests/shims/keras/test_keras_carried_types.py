"""Types that numpy lacks, as `.keras` files: Keras has their carriers, and the file the types of the model."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper

import onnx_compat
from onnx_compat.inspection.foreign.keras_file import describe_keras_file
from onnx_compat.ir.dtypes import DType, from_public

#: Type -> numbers that are no values of it, with the carrier of the type as their dtype.
NUMBERS = {
    "bfloat16": np.array([1.00390625, -3.3, 1e30, 0], np.float32),
    "float8e4m3fn": np.array([1.06, -3.3, 250, 0], np.float32),
    "float8e5m2": np.array([1.1, -3.3, 1e5, 0], np.float32),
    "float4e2m1": np.array([1.1, -3.3, 6, 0], np.float32),
    "int4": np.array([7, -8, 3, 0], np.int8),
    "uint2": np.array([3, 1, 2, 0], np.uint8),
}


def model(name: str) -> ModelProto:
    """Return a model whose input and output have a type. It halves the input."""
    ports = [helper.make_tensor_value_info(port, DType.of(name).onnx, ["n"]) for port in "xy"]
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "half"], ["h"]),
        helper.make_node("Cast", ["h"], ["y"], to=DType.of(name).onnx),
    ]
    half = helper.make_tensor("half", TensorProto.FLOAT, [], [0.5])
    graph = helper.make_graph(nodes, "model", ports[:1], ports[1:], [half])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_file_computes_in_the_type(name: str, tmp_path: Path) -> None:
    source, path, dtype = model(name), tmp_path / "m.keras", DType.of(name)
    if not hasattr(keras.ops, "view" if dtype.kind == "f" else "bitwise_and"):
        with pytest.raises(onnx_compat.UnsupportedError, match=r"this Keras has no ops"):
            onnx_compat.convert(source, path)
        return
    onnx_compat.convert(source, path)
    converted = onnx_compat.load_converted(path)
    assert [port.type.dtype.name for port in (*converted.inputs, *converted.outputs)] == [name, name]
    wanted = onnx_compat.prepare(source, shim="reference").run([NUMBERS[name]])[0]
    got = converted.run([NUMBERS[name]])[0]
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(from_public(got)[0], from_public(wanted)[0])
    assert [row["type"] for row in describe_keras_file(str(path)).tables["inputs_and_outputs"]] == [name, name]

    loaded: Any = keras.saving.load_model(path)
    assert [tensor.dtype for tensor in (*loaded.inputs, *loaded.outputs)] == [dtype.numpy.name] * 2
    by_keras = keras.ops.convert_to_numpy(loaded(NUMBERS[name]))
    np.testing.assert_array_equal(by_keras, from_public(wanted)[0])


@pytest.mark.skipif(not hasattr(keras.ops, "view"), reason="this Keras cannot round to bfloat16")
def test_weights_and_products_of_bfloat16(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    x, w = (random.standard_normal(shape).astype(np.float32) for shape in ((2, 40), (40, 3)))
    ports = [helper.make_tensor_value_info(*port) for port in (("x", 1, ["n", 40]), ("y", 1, ["n", 3]))]
    weights = helper.make_tensor("w", TensorProto.BFLOAT16, w.shape, w.reshape(-1))
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.BFLOAT16),
        helper.make_node("MatMul", ["h", "w"], ["p"], name="dense"),
        helper.make_node("Softmax", ["p"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(nodes, "model", ports[:1], ports[1:], [weights])
    source = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "m.keras"
    onnx_compat.convert(source, path)
    wanted = onnx_compat.prepare(source, shim="reference").run([x])[0]
    np.testing.assert_allclose(onnx_compat.load_converted(path).run([x])[0], wanted, 2**-7, 1e-6)
    loaded: Any = keras.saving.load_model(path)
    assert type(loaded.get_layer("dense")).__name__ == "Dense"

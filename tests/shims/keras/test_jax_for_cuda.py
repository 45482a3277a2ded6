"""Models on the JAX back end lower for CUDA. `jax.export` needs no GPU for that; it proves no result on one."""

import os

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat

if os.environ.get("KERAS_BACKEND") != "jax":
    pytest.skip("JAX alone exports for a platform that is absent", allow_module_level=True)

FLOAT = TensorProto.FLOAT


def make_model(*nodes, shape=(1, 4, 8, 8)):
    weight = helper.make_tensor("w", FLOAT, [4, 4, 3, 3], np.ones(144, np.float32).tobytes(), raw=True)
    ports = [helper.make_tensor_value_info(name, FLOAT, sizes) for name, sizes in (("x", shape), ("y", None))]
    graph = helper.make_graph(list(nodes), "lowered", ports[:1], ports[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


MODELS = {
    "Conv": make_model(helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])),
    "MatMul": make_model(helper.make_node("MatMul", ["x", "x"], ["y"])),
    "MaxPool": make_model(helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])),
    "Softmax": make_model(helper.make_node("Softmax", ["x"], ["y"], axis=-1)),
    "ReduceSum and Erf": make_model(
        helper.make_node("Erf", ["x"], ["e"]), helper.make_node("ReduceSum", ["e"], ["y"], keepdims=0)
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_model_lowers_for_cuda(name):
    import jax
    from jax import export

    native = onnx_compat.prepare(MODELS[name], shim="keras", fallback=False).native
    argument = jax.ShapeDtypeStruct((1, 4, 8, 8), np.float32)
    lowered = export.export(jax.jit(native), platforms=["cuda"])(argument)
    assert lowered.platforms == ("cuda",)
    assert "stablehlo" in lowered.mlir_module()

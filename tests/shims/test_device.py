"""A GPU cell computes on the GPU, and a CPU cell on the CPU."""

import os

import numpy as np
from onnx import TensorProto, helper

import onnx_compat

SHIM = os.environ["ONNX_COMPAT_SHIM"]
DEVICE = os.environ["ONNX_COMPAT_DEVICE"]
X = np.arange(64, dtype=np.float32).reshape(8, 8) / 64


def prepare_model():
    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Softplus", ["z"], ["y"])]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 8]) for name in "xy"]
    weights = [helper.make_tensor("w", TensorProto.FLOAT, [8, 8], X.tobytes(), raw=True)]
    graph = helper.make_graph(nodes, "computed", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    return onnx_compat.prepare(model, shim=SHIM, fallback=False)


def devices_of_graph(graph):
    """Return the devices on which TensorFlow 1 placed the matrix product."""
    import tensorflow as tf

    compat = tf.compat.v1
    options, seen = compat.RunOptions(trace_level=compat.RunOptions.FULL_TRACE), compat.RunMetadata()
    with compat.Session(graph=graph) as session:
        session.run("y:0", {"x:0": X}, options=options, run_metadata=seen)
    return [
        device.device
        for device in seen.step_stats.dev_stats
        if any("MatMul" in stats.node_name for stats in device.node_stats)
    ]


def devices_of_output(native):
    """Return the devices that hold the results of `Runnable.native`."""
    results = native(X)
    (output,) = results if isinstance(results, (list, tuple)) else [results]
    return [getattr(output, "backing_device", None) or output.device]


def test_the_computation_is_on_the_device_of_the_cell():
    runnable = prepare_model()
    np.testing.assert_allclose(runnable.run({"x": X})[0], np.log1p(np.exp(X @ X)), rtol=1e-3)
    native = runnable.native
    devices = devices_of_graph(native) if SHIM == "tf1" else devices_of_output(native)
    kinds = {"gpu" if any(word in str(device).lower() for word in ("gpu", "cuda")) else "cpu" for device in devices}
    assert kinds == {DEVICE}, devices

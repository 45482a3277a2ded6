"""Script that runs models on one of several devices, and prints as JSON on which devices they were computed.

python on_device.py <shim> <device>

It runs in a process of its own, because a framework must configure its logical devices before any other call.
"""

import json
import os
import sys
import warnings
from contextlib import nullcontext

import numpy as np
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.discovery import selection
from onnx_compat.execution.plan import ImmediatePlan
from onnx_compat.ir.dtypes import float32

COUNT = 3
X = np.arange(64, dtype=np.float32).reshape(8, 8) / 64
MANY = np.tile(X, (100, 1))  # too many for the values to become part of a program
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def split_tensorflow():
    """Configure several logical CPU devices in TensorFlow."""
    import tensorflow as tf

    config = tf.config.experimental
    parts = [config.VirtualDeviceConfiguration() for _ in range(COUNT)]
    config.set_virtual_device_configuration(config.list_physical_devices("CPU")[0], parts)


def model(nodes, shape, **weights):
    ports = [helper.make_tensor_value_info(name, FLOAT, shape if name == "x" else None) for name in "xy"]
    stored = [
        helper.make_tensor(name, FLOAT if array.dtype == np.float32 else INT64, array.shape, array.tobytes(), raw=True)
        for name, array in weights.items()
    ]
    graph = helper.make_graph(nodes, "placed", ports[:1], ports[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def layers():
    """Return a model with a matrix product with weights, and a loop that contains another product."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["h", "w"], ["g"]), helper.make_node("Identity", ["c"], ["d"])],
        "round",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("c", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", FLOAT, ["n", 8]),
        ],
        [helper.make_tensor_value_info("d", TensorProto.BOOL, []), helper.make_tensor_value_info("g", FLOAT, ["n", 8])],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        helper.make_node("Cast", ["total"], ["whole"], to=INT64),
        helper.make_node("Mod", ["whole", "three"], ["rounds"]),
        helper.make_node("Loop", ["rounds", "", "z"], ["y"], body=body),
    ]
    return model(nodes, ["n", 8], w=X, three=np.array(3))


def expected_output():
    y = X @ X
    for _ in range(int(X.sum()) % 3):
        y = y @ X
    return y


def plain():
    """Return a model that every framework can express with its stock layers."""
    return model(
        [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("Softplus", ["z"], ["y"])], [8, 8], w=X
    )


def made_at_run_time():
    """Return a model that creates tensors at run time: one from a size, and one of random numbers."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Cast", ["shape"], ["sizes"], to=FLOAT),
        helper.make_node("ReduceSum", ["sizes"], ["total"], keepdims=0),
        helper.make_node("RandomUniformLike", ["x"], ["noise"], high=1e-6, low=0.0),
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("Add", ["z", "noise"], ["noisy"]),
        helper.make_node("Mul", ["noisy", "total"], ["y"]),
    ]
    return model(nodes, ["n", 8], w=X)


def axis_from_data():
    """Return a model that is executed eagerly, because an axis depends on the data."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["z"]),
        helper.make_node("ReduceMin", ["x"], ["least"], keepdims=0),
        helper.make_node("Cast", ["least"], ["whole"], to=INT64),
        helper.make_node("Unsqueeze", ["whole", "zero"], ["axes"]),
        helper.make_node("ReduceSum", ["z", "axes"], ["y"], keepdims=0),
    ]
    return model(nodes, None, w=X, zero=np.array([0]))


def device_of(handle):
    """Return the device of a tensor, under the name that the core gives it."""
    if hasattr(handle, "devices"):  # JAX
        (device,) = handle.devices()
        return "%s:%d" % (device.platform, device.id)
    text = str(getattr(handle, "backing_device", None) or handle.device).lower()
    return text.rpartition("device:")[2] if "device:" in text else text


def flat(results):
    return list(results) if isinstance(results, (list, tuple)) else [results]


def graph_places(graph):
    """Return the devices that are set on the matrix products of a TensorFlow graph, including those inside functions."""
    proto = graph.as_graph_def()
    nodes = [*proto.node, *(node for function in proto.library.function for node in function.node_def)]
    return [node.device.lower().rpartition("device:")[2] for node in nodes if "MatMul" in node.op]


def session_places(graph):
    """Return the devices on which TensorFlow 1 computed the matrix products of a graph."""
    import tensorflow as tf

    compat = tf.compat.v1
    options, seen = compat.RunOptions(trace_level=compat.RunOptions.FULL_TRACE), compat.RunMetadata()
    with compat.Session(graph=graph, config=compat.ConfigProto(device_count={"CPU": COUNT})) as session:
        session.run("y:0", {"x:0": X}, options=options, run_metadata=seen)
    nodes = [
        (device_stats.device, stats.node_name)
        for device_stats in seen.step_stats.dev_stats
        for stats in device_stats.node_stats
    ]
    # What is listed as "/host:CPU" are the same operations, as the thread pool saw them.
    return [
        device.lower().rpartition("device:")[2] for device, name in nodes if "MatMul" in name and "device:" in device
    ]


def run_places(runnable, array):
    """Return the devices on which `Runnable.run` computes."""
    if isinstance(runnable._latest, ImmediatePlan):
        return executed_places(runnable, array)
    compiled = runnable._latest.compiled
    if runnable.shim == "tf1":
        return session_places(compiled.native)
    if not hasattr(compiled, "_function"):  # torch: the emitter gives what `run` takes the values of
        inputs = [compiled._io.array(array, float32)]
        return [device_of(output) for output in compiled.body.compute(compiled.body.weights(), inputs, None)]
    seen = []
    function = compiled._function

    def watch(*args):
        results = function(*args)
        seen.extend(map(device_of, flat(results)))
        return results

    compiled._function = watch
    runnable.run([array])
    compiled._function = function
    return seen + (graph_places(function.graph) if hasattr(function, "graph") else [])


def executed_places(runnable, array):
    """Return the devices on which an eagerly executed model computes."""
    seen = []
    make_executor = runnable._latest.executor

    def watched_executor():
        executor = make_executor()
        fetch = executor.fetch

        def watch(handle):
            seen.append(device_of(handle))
            return fetch(handle)

        executor.fetch = watch
        return executor

    runnable._latest.executor = watched_executor
    runnable.run([array])
    runnable._latest.executor = make_executor
    return seen


def with_values():
    """Return a context for Keras on torch. The default device of this script, "meta", has no values to read."""
    if os.environ.get("KERAS_BACKEND") != "torch":
        return nullcontext()
    import keras

    return keras.device("cpu")


def native_places(runnable, array):
    """Return the devices of the results and of the weights of `Runnable.native`, the framework's own object."""
    native = runnable.native
    if runnable.shim == "tf1":
        return session_places(native)
    devices = [device_of(output) for output in flat(native(array))]
    if runnable.shim != "keras":
        return devices
    if os.environ["KERAS_BACKEND"] == "jax":  # as `fit` and `predict` compile it
        import jax

        values = [
            [output.value for output in kind] for kind in (native.trainable_variables, native.non_trainable_variables)
        ]
        devices.append(device_of(jax.jit(native.stateless_call)(*values, array)[0]))
    with with_values():
        return devices + [device_of(variable.value) for variable in native.variables]


def whole_places(runnable, array):
    """Return the devices on which `Runnable.native` computes a model that stock layers cannot express."""
    if runnable.shim == "tf1":
        return session_places(runnable.native)
    with with_values():  # Keras converts the input before it calls the model
        return [device_of(output) for output in flat(runnable.native(array))]


def variable_places(shim, device):
    """Return the devices of weights that are too large for a graph of TensorFlow 2, and so are variables."""
    from onnx_compat_tf2 import module

    module.GRAPH_LIMIT = module._SMALL = 0
    runnable = onnx_compat.prepare(plain(), shim, device, fallback=False)
    return native_places(runnable, X) + [device_of(variable) for variable in runnable.native.variables]


def prepare_and_check(proto, shim, device, array, expected_output):
    """Prepare a model on the device, assert that its outputs are right, and return the Runnable."""
    runnable = onnx_compat.prepare(proto, shim, device, fallback=False)
    np.testing.assert_allclose(runnable.run([array])[0], expected_output, rtol=1e-4, atol=1e-4)
    return runnable


def configure(shim):
    back_end = os.environ["KERAS_BACKEND"] if shim == "keras" else ""
    if shim in ("tf1", "tf2") or back_end == "tensorflow":
        split_tensorflow()
    if back_end == "torch":
        import torch

        torch.set_default_device("meta")


def main(shim, device):
    configure(shim)
    stock = prepare_and_check(plain(), shim, device, X, np.log1p(np.exp(X @ X)))
    looped = prepare_and_check(layers(), shim, device, X, expected_output())
    drawn = prepare_and_check(made_at_run_time(), shim, device, X, X @ X * 16)
    devices_by_kind = {
        "run": run_places(stock, X),
        "native": native_places(stock, X),
        "loop": run_places(looped, X),
        "made": run_places(drawn, X),
        "whole": whole_places(drawn, X),
    }
    if selection.find(shim).executor() is not None:
        eager = prepare_and_check(axis_from_data(), shim, device, MANY, (MANY @ X).sum(0))
        devices_by_kind["executed"] = executed_places(eager, MANY)
    if shim == "tf2":
        devices_by_kind["variables"] = variable_places(shim, device)
    report = {"devices": list(selection.find(shim).devices()), "device": stock.device, "places": devices_by_kind}
    print("\n" + json.dumps(report))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "The structure of `inputs`")  # Keras wants a dict by name
    main(*sys.argv[1:])

"""Memory stays flat over many prepared models, also on JAX, whose compiled functions are cached."""

import gc
import os
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import onnx_compat

PREPARED = 200
#: Models after which the caches of the framework are full, and the megabytes that may be added later.
WARM, MEGABYTES = 60, 15


def _convolution() -> Any:
    weights = np.ones((64, 16, 3, 3), np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)
    ports = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", size, 8, 8])
        for name, size in (("x", 16), ("y", 64))
    ]
    graph = helper.make_graph([node], "graph", ports[:1], ports[1:], [numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)


def _megabytes() -> float:
    """Return the resident memory of this process, without what the garbage collector frees."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def test_memory_is_flat_over_many_prepared_models() -> None:
    model, x = onnx_compat.load(_convolution()), np.zeros((1, 16, 8, 8), np.float32)
    warm = 0.0
    for number in range(PREPARED):
        onnx_compat.prepare(model, shim="keras").run(x)
        if number == WARM:
            warm = _megabytes()
    grown = _megabytes() - warm
    assert grown < MEGABYTES, "%.1f MB more after %d models" % (grown, PREPARED - WARM)

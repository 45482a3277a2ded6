"""Script that runs with the Python of the tested environment: it runs the steps in its arguments, and prints their
answers.

The steps: `import MODULE`; `decide [SHIM]`; `run [SHIM]` runs a small model; `offer` lists the modules that `import
onnx_compat` imports.
"""

import importlib
import json
import sys
import warnings


def decide(shim=None):
    from onnx_compat.discovery import selection
    from onnx_compat.errors import OnnxCompatError

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            name, reason, passed = selection.decide(shim)
        except OnnxCompatError as error:
            return {"error": type(error).__name__, "reason": error.reason, "hint": error.hint, "shim": error.shim}
    warned = [str(warning.message) for warning in caught if str(warning.message).startswith("onnx-compat")]
    return {"name": name, "reason": reason, "passed": dict(passed), "warned": warned}


def run(shim=None):
    import numpy as np
    from onnx import TensorProto, helper

    import onnx_compat

    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "double", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
    runnable = onnx_compat.prepare(model, shim)
    return {"shim": runnable.shim, "y": runnable.run([np.float32([1, 2])])["y"].tolist()}


def offer():
    import onnx_compat

    brought = ["tensorflow", "keras", "jax", "torch", "ai_edge_litert", "tflite_runtime", "onnx_compat_tf2"]
    return {"version": onnx_compat.__version__, "brought": [name for name in brought if name in sys.modules]}


def bring(module):
    importlib.import_module(module)


STEPS = {"decide": decide, "run": run, "offer": offer, "import": bring}

for step in sys.argv[1:]:
    name, *rest = step.split()
    answer = STEPS[name](*rest)
    if answer is not None:
        print("\n> " + json.dumps(answer), flush=True)

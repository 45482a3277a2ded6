"""A size that is known at run time only, and that no process can address, is an error: kernels of 1.15 end the process."""

import subprocess
import sys
from typing import Any, List

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnx_compat

COUNTS = {"Tile": 2, "Pad": 4, "Expand": 2, "ConstantOfShape": 2}
CODE = """
import sys, numpy as np, onnx_compat
for path in sys.argv[2:]:
    runnable = onnx_compat.prepare(path, shim=sys.argv[1])
    for size in (2**40, 2**62):
        feeds = {port.name: np.full(port.type.shape, size if port.name == "counts" else 1, port.type.dtype.numpy)
                 for port in runnable.inputs}
        try:
            runnable.run(feeds)
        except onnx_compat.OnnxCompatError as error:
            print("typed:", path, size, error.reason)
"""


def model(operator: str) -> bytes:
    """Return a model of a node whose sizes are an input."""
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])] if operator != "ConstantOfShape" else []
    ports.append(helper.make_tensor_value_info("counts", TensorProto.INT64, [COUNTS[operator]]))
    node = helper.make_node(operator, [port.name for port in ports], ["y"])
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )


def test_giants_are_errors(tmp_path: Any, shim_name: str) -> None:
    """All cases run in one child process, which a CHECK of TensorFlow would end."""
    paths: List[str] = []
    for operator in COUNTS:
        paths.append(str(tmp_path / (operator + ".onnx")))
        (tmp_path / (operator + ".onnx")).write_bytes(model(operator))
    result = subprocess.run(
        [sys.executable, "-c", CODE, shim_name, *paths], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.count("typed:") == 2 * len(paths), result.stdout


@pytest.mark.parametrize(
    ("operator", "counts", "shape"),
    [
        ("Tile", [2, 3], (2, 3)),
        ("Tile", [0, 2**20], (0, 2**20)),
        ("Pad", [1, 0, 2, 3], (4, 4)),
        ("Pad", [0] * 4, (1, 1)),
    ],
)
def test_other_sizes_stay(operator: str, counts: List[int], shape: Any, shim_name: str) -> None:
    runnable = onnx_compat.prepare(model(operator), shim=shim_name)
    result = runnable.run({"x": np.ones((1, 1), np.float32), "counts": np.array(counts)})[0]
    assert result.shape == shape and not runnable.fallbacks
    if result.size:
        assert result.reshape(-1)[0] == (0 if counts[0] == 1 else 1)

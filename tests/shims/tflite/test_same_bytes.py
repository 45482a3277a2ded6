"""A model gives the same .tflite bytes in every process, although hashes and addresses differ between processes."""

import os
import subprocess
import sys
from typing import List

_SCRIPT = """
import hashlib, os, sys, tempfile
import onnx
from onnx import TensorProto, helper
import onnx_compat

geometry = {
    "dilations": {"dilations": [1, 5]},
    "pads": {"pads": [0, 1, 0, 1]},
    "strides": {"strides": [2, 2]},
    "plain": {},
}
for name, attributes in geometry.items():
    ports = [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["n", "c", "l"])]
    ports += [helper.make_tensor_value_info(port, TensorProto.INT64, [2]) for port in ("image", "block")]
    node = helper.make_node("Col2Im", [port.name for port in ports], ["output"], **attributes)
    outputs = [helper.make_tensor_value_info("output", TensorProto.FLOAT, [None] * 4)]
    graph = helper.make_graph([node], "graph", ports, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.tflite")
        onnx_compat.convert(model, path, shim="tflite")
        with open(path, "rb") as file:
            print(name, hashlib.sha256(file.read()).hexdigest())
"""


def _digests(seed: str) -> List[str]:
    result = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env=dict(os.environ, PYTHONHASHSEED=seed),
        stdout=subprocess.PIPE,
        check=True,
    )
    return result.stdout.decode().split("\n")


def test_sizes_are_computed_in_one_order() -> None:
    first = _digests("0")
    assert len(first) == 5
    for seed in "12":
        assert _digests(seed) == first

"""A model file is read in blocks, and not mapped: a file that becomes shorter meanwhile is an error, not a SIGBUS."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnx_compat.errors import InvalidModelError
from onnx_compat.model import load, wire
from onnx_compat.model.schema import MODEL
from onnx_compat.model.wire import FileSource, parse


def model_with_weights(count: int) -> onnx.ModelProto:
    sizes = [1 << (3 * index % 17) for index in range(count)]
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y%d" % (count - 1))]
    nodes = [helper.make_node("Add", ["x" if not k else "y%d" % (k - 1), "w%d" % k], ["y%d" % k]) for k in range(count)]
    weights = [numpy_helper.from_array(np.full(size, k, np.float32), "w%d" % k) for k, size in enumerate(sizes)]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(("block", "read"), [(wire._BLOCK, wire.READ), (1 << 12, 1 << 10), (64, 64)])
def test_a_file_gives_what_its_bytes_give(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int, read: int
) -> None:
    monkeypatch.setattr(wire, "_BLOCK", block)
    monkeypatch.setattr(wire, "READ", read)
    data = model_with_weights(40).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    from_file, from_bytes = load(tmp_path / "m.onnx").graph, load(data).graph
    assert [str(node) for node in from_file.nodes] == [str(node) for node in from_bytes.nodes]
    for name, initializer in from_bytes.initializers.items():
        np.testing.assert_array_equal(from_file.initializers[name].array(), initializer.array())


@pytest.mark.parametrize("length", [0, 10, 4096, 1 << 16, (1 << 20) - 1])
def test_a_file_that_becomes_shorter(tmp_path: Path, length: int) -> None:
    path = str(tmp_path / "m.onnx")
    Path(path).write_bytes(model_with_weights(60).SerializeToString())
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        os.truncate(path, length)
        with pytest.raises(InvalidModelError, match="became shorter"):
            parse(FileSource(file, size), MODEL)

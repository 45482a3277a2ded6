"""A file is written in steps in proportion to the nodes of the model: asserted by counts of lines, not by clocks."""

import sys
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper

import onnx_compat

FLOAT = TensorProto.FLOAT


def chain(operator: str, count: int) -> bytes:
    """Return a chain of nodes with two outputs, each with a node that reads both."""
    nodes = []
    for k in range(count):
        outputs = ["a%d" % k, "b%d" % k]
        if operator == "TopK":
            nodes.append(helper.make_node("TopK", ["v%d" % k, "four"], ["a%d" % k, "i%d" % k]))
            nodes.append(helper.make_node("Cast", ["i%d" % k], ["b%d" % k], to=FLOAT))
        else:
            nodes.append(helper.make_node("Split", ["v%d" % k], outputs, axis=1, num_outputs=2))
        nodes.append(helper.make_node("Sub", outputs, ["s%d" % k]))
        tail = ["s%d" % k] * (1 if operator == "TopK" else 2)
        nodes.append(helper.make_node("Concat", tail, ["v%d" % (k + 1)], axis=1))
    ports = [helper.make_tensor_value_info(name, FLOAT, [2, 4]) for name in ("v0", "v%d" % count)]
    four = helper.make_tensor("four", TensorProto.INT64, [1], [4])
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [four])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(model.SerializeToString())


def count_lines(function: Any, *arguments: Any) -> int:
    """Call a function, and return the number of lines of Python that it executes."""
    lines = 0

    def count(_: Any, event: str, __: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        function(*arguments)
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.parametrize("operator", ["Split", "TopK"])
def test_nodes_with_two_outputs(operator: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    onnx_compat.convert(chain(operator, 2), path)  # what is computed once is not counted
    few, many = (count_lines(onnx_compat.convert, chain(operator, count), path) for count in (20, 80))
    assert few < many < 4.4 * few, (few, many)  # a quadratic search takes sixteen times as many

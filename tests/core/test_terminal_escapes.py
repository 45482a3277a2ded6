"""Names of a model that hold terminal escapes and marks of text direction are escaped on every output."""

from pathlib import Path
from typing import List

import onnx
import pytest
from onnx import TensorProto, helper

import onnx_compat
from onnx_compat.cli import main

ATTACK = "\x1b]0;title\x07\x1b[31m\u202e\u2066\x9b\x08\r"
SIGNS = {sign for sign in ATTACK if not sign.isprintable()}


def write(path: Path, operator: str) -> str:
    nodes = [
        helper.make_node("Relu", ["i" + ATTACK], ["m" + ATTACK], "n" + ATTACK),
        helper.make_node(operator, ["m" + ATTACK], ["o" + ATTACK], "b" + ATTACK),
    ]
    ports = [
        helper.make_tensor_value_info("i" + ATTACK, TensorProto.FLOAT, ["d" + ATTACK, 2]),
        helper.make_tensor_value_info("o" + ATTACK, TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph(nodes, "g" + ATTACK, ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 18)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="p" + ATTACK)
    onnx.save(model, str(path))
    return str(path)


COMMANDS: List[List[str]] = [
    ["inspect"],
    ["inspect", "--no-shims"],
    ["inspect", "--program", "--shim", "reference"],
    ["run", "--shim", "reference"],
    ["run", "--shim", "reference", "--dim", "d\x1b=0x"],
    ["run", "--shim", "reference", "--debug", "--dim", "nope=1"],
    ["support", "--shim", "reference"],
    ["verify", "--shim", "reference", "--oracle", "reference"],
    ["verify", "--shim", "reference", "--oracle", "reference", "--layers"],
    ["verify", "--nonsense" + ATTACK],
]


@pytest.mark.parametrize("operator", ["Neg", "NoSuch" + ATTACK], ids=["known", "unknown"])
@pytest.mark.parametrize("command", COMMANDS, ids=range(len(COMMANDS)))
def test_no_command_prints_an_escape(
    command: List[str], operator: str, tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    main([command[0], write(tmp_path / "m.onnx", operator), *command[1:]])
    for text in capfd.readouterr():
        assert not SIGNS & set(text), repr(text)


def test_an_error_is_escaped_and_keeps_its_fields(tmp_path: Path) -> None:
    with pytest.raises(onnx_compat.OnnxCompatError) as raised:
        onnx_compat.run(write(tmp_path / "m.onnx", "NoSuch" + ATTACK), [[[1.0, 2.0]]], shim="reference")
    assert raised.value.node == "b" + ATTACK
    assert not SIGNS & set(str(raised.value))
    assert "\\x1b]0;title\\x07" in str(raised.value)

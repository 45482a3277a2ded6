"""The printed text of programs: sizes by name, constants, regions, layouts, and the ONNX nodes of each line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from building import model, node, value
from channels_last import ChannelsLast
from click.testing import CliRunner
from onnx import TensorProto

from onnx_compat import primitives as p
from onnx_compat.cli.app import cli
from onnx_compat.cli.options import Settings
from onnx_compat.execution.support import program_of
from onnx_compat.ir.dtypes import DType, float32, int64
from onnx_compat.ir.window import Window
from onnx_compat.reference import Reference
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.recording import record_program


def text(function: Any, *ports: Port, emitter: Any = None) -> str:
    return str(record_program(function, ports, emitter or Reference()))


def network() -> Any:
    nodes = [
        node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"], name="relu"),
        node("Shape", ["r"], ["s"], name="shape"),
        node("Gather", ["s", "first"], ["n"], name="gather"),
        node("Concat", ["n", "rest"], ["sizes"], name="sizes", axis=0),
        node("Reshape", ["r", "sizes"], ["y"], name="flat"),
    ]
    constants = {"w": np.ones((4, 3, 3, 3), np.float32), "first": np.array([0]), "rest": np.array([-1])}
    return model(nodes, [value("x", ["N", 3, "H", "W"])], [value("y", ["N", "K"])], constants)


NETWORK = """\
program graph for channels_first, filters OIHW
input %0 "x": float32[N, 3, H, W]
%1: float32[N, 4, H, W] = conv(%0, const float32[4, 3, 3, 3]) \
{dilations=(1, 1), groups=1, kernel=(3, 3), pads=((1, 1), (1, 1)), strides=(1, 1)}  # Conv 'conv' -> 'c'
%2: float32[N, 4, H, W] = clip(%1) {high=None, low=0}  # Relu 'relu' -> 'r'
%3: float32[N, 4*H*W] = reshape(%2, [N, 4*H*W])  # Reshape 'flat' -> 'y'
output "y" = %3"""


def test_a_model_with_symbolic_sizes() -> None:
    assert str(program_of(network().SerializeToString(), "reference")) == NETWORK


def test_the_command_line_prints_the_program(tmp_path: Path) -> None:
    onnx.save(network(), str(tmp_path / "m.onnx"))
    arguments = ["inspect", str(tmp_path / "m.onnx"), "--program", "--shim", "reference"]
    assert CliRunner().invoke(cli, arguments, obj=Settings()).output.strip() == NETWORK
    output = json.loads(CliRunner().invoke(cli, [*arguments, "--json"], obj=Settings()).output)
    assert output == {"ok": True, "program": NETWORK}


@pytest.mark.parametrize("arguments", [["--shim", "reference"], ["--program", "x.tflite"]])
def test_the_command_line_refuses_a_model_without_a_program(tmp_path: Path, arguments: Any) -> None:
    onnx.save(network(), str(tmp_path / "m.onnx"))
    (tmp_path / "x.tflite").write_bytes(b"\0\0\0\0TFL3")
    given = [str(tmp_path / argument) if "." in argument else argument for argument in arguments]
    assert (
        CliRunner()
        .invoke(cli, ["inspect", *given, *([] if "." in given[-1] else [str(tmp_path / "m.onnx")])])
        .exit_code
        == 2
    )


def test_an_input_of_unknown_rank_is_refused_by_name() -> None:
    network = model([node("Neg", ["x"], ["y"])], [value("x")], [value("y")])
    with pytest.raises(Exception, match="which rank the input 'x' has"):
        program_of(network.SerializeToString(), "reference")


def test_control_flow_is_indented() -> None:
    then = onnx.helper.make_graph([node("Neg", ["x"], ["a"], name="minus")], "then", [], [value("a", [2])])
    otherwise = onnx.helper.make_graph([node("Add", ["x", "one"], ["b"], name="plus")], "else", [], [value("b", [2])])
    network = model(
        [node("If", ["p"], ["y"], name="if", then_branch=then, else_branch=otherwise)],
        [value("p", [], TensorProto.BOOL), value("x", [2])],
        [value("y", [2])],
        {"one": np.float32(1)},
    )
    assert (
        str(program_of(network.SerializeToString(), "reference"))
        == """\
program graph for channels_first, filters OIHW
input %0 "p": bool[]
input %1 "x": float32[2]
%2: float32[2] = cond(%0)  # If 'if' -> 'y'
  region 0 ():
    %3: float32[2] = neg(%1)  # Neg 'minus'
    return %3
  region 1 ():
    %4: float32[2] = add(%1, const float32 1.0)  # Add 'plus'
    return %4
output "y" = %2"""
    )


def test_a_loop_over_a_scanned_axis() -> None:
    def function(x: Any) -> Any:
        return p.scan(
            lambda total, row: [p.add(total, row), p.reduce_sum(row, [0], True)],
            [np.zeros(3, np.float32)],
            [x],
            x.shape[0],
        )

    assert (
        text(function, Port("x", float32, ("n", 3)))
        == """\
program model for channels_first, filters OIHW
input %0 "x": float32[n, 3]
%1: float32[3], %2: float32[n, 1] = scan((const float32 [0.0, 0.0, 0.0]), (%0), [n]) {reverse=False}
  region 0 (%3: float32[3], %4: float32[3]):
    %5: float32[3] = add(%3, %4)
    %6: float32[1] = reduce_sum(%4) {axes=(0,), keepdims=True}
    return %5, %6
output "output_0" = %1
output "output_1" = %2"""
    )


def test_sizes_of_values_and_arithmetic() -> None:
    def function(x: Any, k: Any) -> Any:
        from onnx_compat.tracing.values import as_sizes

        half = p.slice_axis(x, 0, 0, x.shape[0] // 2)
        (count,) = as_sizes(k)
        return [p.nonzero(x), half, p.broadcast_to(np.float32(2), [count + 1, x.shape[1] * 3 - 1])]

    assert (
        text(function, Port("x", float32, ("n", "m")), Port("k", int64, (1,)))
        == """\
program model for channels_first, filters OIHW
input %0 "x": float32[n, m]
input %1 "k": int64[1]
%2: float32[min((n // 2), n), m] = slice(%0, [0, 0], [(n // 2), m]) {steps=(1, 1)}
%3: int64[2, %3.shape[1]] = nonzero(%0)
%4: float32[%1[0] + 1, 3*m - 1] = broadcast_to(const float32 2.0, [%1[0] + 1, 3*m - 1])
output "output_0" = %3
output "output_1" = %2
output "output_2" = %4"""
    )


def test_pending_layouts_are_carried_out_where_the_target_asks_for_them() -> None:
    w = np.ones((5, 3, 1, 1), np.float32)
    pixel = Window.of((1, 1))
    port = Port("x", float32, (1, 3, 8, 6))
    printed = text(lambda x: [p.relu(p.conv(x, w, window=pixel))], port, emitter=ChannelsLast())
    assert (
        printed
        == """\
program model for channels_last, filters HWIO
input %0 "x": float32[1, 3, 8, 6]
%1: float32[1, 8, 6, 3] = transpose(%0) {perm=(0, 2, 3, 1)}
%2: float32[1, 8, 6, 5] = conv(%1, const float32[1, 1, 3, 5]) \
{dilations=(1, 1), groups=1, kernel=(1, 1), pads=((0, 0), (0, 0)), strides=(1, 1)}
%3: float32[1, 8, 6, 5] = clip(%2) {high=None, low=0}
%4: float32[1, 5, 8, 6] = transpose(%3) {perm=(0, 3, 1, 2)}
output "output_0" = %4"""
    )


def test_small_constants_are_written_out() -> None:
    printed = text(
        lambda x: [p.where(p.less(x, np.array([[1.0, 2.0]])), DType.of("float64").numpy.type(0), x)],
        Port("x", DType.of("float64"), (3, 2)),
    )
    assert "less(%0, const float64 [1.0, 2.0] in [1, 2])" in printed
    assert "where(%1, const float64 0.0, %0)" in printed

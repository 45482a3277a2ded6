"""A damaged .tflite file raises a typed error before the interpreter reads it: kernels check their operands incompletely."""

import contextlib
import copy
import os
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np
import pytest
from onnx_compat_tflite import file_trial
from onnx_compat_tflite import flatbuffer as fb
from onnx_compat_tflite.file_validation import validate_file
from onnx_compat_tflite.graph_verifier import verify_graph
from onnx_compat_tflite.shim import SHIM

import onnx_compat
from onnx_compat.discovery.child_process import ChildResult
from onnx_compat.errors import InvalidModelError, OnnxCompatError

F = "float32"


def network() -> fb.ModelSpec:
    """Return a model with a convolution, a transpose, a reshape and a pool."""
    graph = fb.SubGraph(name="main")
    x = graph.add(fb.TensorSpec("x", F, (1, 4, 4, 2)))
    filters = graph.add(fb.TensorSpec("filters", F, (3, 1, 1, 2), np.ones((3, 1, 1, 2), np.float32)))
    order = graph.add(fb.TensorSpec("order", "int32", (4,), np.array([0, 2, 1, 3], np.int32)))
    shape = graph.add(fb.TensorSpec("shape", "int32", (2,), np.array([1, 12], np.int32)))
    convolved = graph.add(fb.TensorSpec("convolved", F, (1, 4, 4, 3)))
    transposed = graph.add(fb.TensorSpec("transposed", F, (1, 4, 4, 3)))
    pooled = graph.add(fb.TensorSpec("pooled", F, (1, 2, 2, 3)))
    flat = graph.add(fb.TensorSpec("flat", F, (1, 12)))
    bias = graph.add(fb.TensorSpec("bias", F, (3,), np.zeros(3, np.float32)))
    steps = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    windows = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
    graph.operators = [
        fb.OperatorSpec("CONV_2D", [x, filters, bias], [convolved], steps),
        fb.OperatorSpec("TRANSPOSE", [convolved, order], [transposed]),
        fb.OperatorSpec("MAX_POOL_2D", [transposed], [pooled], windows),
        fb.OperatorSpec("RESHAPE", [pooled, shape], [flat]),
    ]
    graph.inputs, graph.outputs = [x], [flat]
    return fb.ModelSpec([graph], [fb.Signature({"x": x}, {"y": flat})])


def omit(position: int, index: int) -> Callable[[Any], None]:
    def change(graph: Any) -> None:
        graph.operators[position].inputs[index] = None

    return change


def drop_inputs(graph: Any) -> None:
    graph.operators[2].inputs = []


def drop_outputs(graph: Any) -> None:
    graph.operators[2].outputs = []


def read_too_early(graph: Any) -> None:
    graph.operators[0].inputs[0] = graph.outputs[0]


def write_a_constant(graph: Any) -> None:
    graph.operators[1].outputs = [1]


def write_an_input(graph: Any) -> None:
    graph.operators[1].outputs = [0]


def set_option(name: str, value: int) -> Callable[[Any], None]:
    def change(graph: Any) -> None:
        graph.operators[2].options[name] = value

    return change


def repeat_an_axis(graph: Any) -> None:
    graph.tensors[2].buffer = np.array([0, 0, 3, 1], np.int32)


def name_no_text(graph: Any) -> None:
    graph.tensors[4].name = "\udcc9"


DAMAGES: List[Any] = [
    omit(0, 1), omit(1, 1), omit(3, 1), drop_inputs, drop_outputs, read_too_early, write_a_constant, write_an_input,
    set_option("stride_w", 0), set_option("filter_height", 0), set_option("stride_h", -1), repeat_an_axis, name_no_text,
]  # fmt: skip


def test_a_valid_file_is_accepted(tmp_path: Path) -> None:
    fb.write(network(), tmp_path / "a.tflite")
    validate_file(fb.read(tmp_path / "a.tflite"))
    outputs = onnx_compat.load_converted(tmp_path / "a.tflite").run([np.ones((1, 4, 4, 2), np.float32)])
    np.testing.assert_array_equal(outputs[0], np.full((1, 12), 2, np.float32))


@pytest.mark.parametrize("damage", DAMAGES, ids=range(len(DAMAGES)))
def test_a_damaged_file_is_refused(damage: Callable[[Any], None], tmp_path: Path) -> None:
    model = copy.deepcopy(network())
    damage(model.subgraphs[0])
    fb.write(model, tmp_path / "a.tflite")
    with pytest.raises(InvalidModelError, match="is not valid") as raised:
        onnx_compat.load_converted(tmp_path / "a.tflite")
    assert raised.value.hint


def test_subgraphs_that_call_themselves(tmp_path: Path) -> None:
    model = network()
    graph = model.subgraphs[0]
    flag = graph.add(fb.TensorSpec("flag", "bool", (), np.array(True)))
    options = {"then_subgraph_index": 0, "else_subgraph_index": 0}
    graph.operators.append(fb.OperatorSpec("IF", [flag, 0], [graph.add(fb.TensorSpec("z", F, (1, 12)))], options))
    with pytest.raises(InvalidModelError, match="call themselves"):
        validate_file(model)


@pytest.mark.parametrize(
    ("calls", "cycle"),
    [
        ({0: [1], 1: [1]}, "subgraphs [1]"),
        ({0: [1, 3], 1: [2], 2: [1], 3: []}, "subgraphs [1, 2]"),
        ({0: [1], 1: [2, 3], 2: [3], 3: [2, 4], 4: []}, "subgraphs [2, 3]"),
    ],
)
def test_the_cycle_alone_is_named(calls: Dict[int, List[int]], cycle: str) -> None:
    """The subgraphs that call into the cycle, or that it calls, are no part of it."""
    model = network()
    model.subgraphs += [copy.deepcopy(model.subgraphs[0]) for _ in range(len(calls) - 1)]
    for caller, callees in calls.items():
        graph = model.subgraphs[caller]
        for callee in callees:
            flag = graph.add(fb.TensorSpec("flag", "bool", (), np.array(True)))
            options = {"then_subgraph_index": callee, "else_subgraph_index": callee}
            result = graph.add(fb.TensorSpec("z", F, (1, 12)))
            graph.operators.append(fb.OperatorSpec("IF", [flag, 0], [result], options))
    with pytest.raises(InvalidModelError) as raised:
        validate_file(model)
    assert "the %s" % cycle in str(raised.value)


def make_quantized_model() -> fb.ModelSpec:
    """Return a model that the verifier accepts, with a tensor of int8 as output."""
    graph = fb.SubGraph(name="main")
    x = graph.add(fb.TensorSpec("x", F, (1, 4)))
    y = graph.add(fb.TensorSpec("y", "int8", (1, 4), quantization=fb.Quantization([0.5], [0])))
    graph.operators = [fb.OperatorSpec("QUANTIZE", [x], [y])]
    graph.inputs, graph.outputs = [x], [y]
    return fb.ModelSpec([graph], [fb.Signature({"x": x}, {"y": y})])


def test_a_quantised_file_of_unknown_origin_runs_in_a_child_process_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels of integers rely on more than the verifier knows. A file that has changed is tried again."""
    path, statuses, calls = str(tmp_path / "a.tflite"), ["returned", "failed"], []

    def try_once(*_: Any, **__: Any) -> ChildResult:
        calls.append(statuses[0])
        return ChildResult(statuses[0], exit_code=-11)

    monkeypatch.setattr(file_trial, "call_in_child", try_once)
    fb.write(make_quantized_model(), path)
    for _ in range(2):
        onnx_compat.load_converted(path)
    assert calls == ["returned"]
    del statuses[0]
    fb.write(make_quantized_model(), path)
    with pytest.raises(InvalidModelError, match="ends the process that runs it"):
        onnx_compat.load_converted(path)


@pytest.mark.parametrize("builtin", ["ADD", "SUB"])
def test_small_integers_without_a_scale(builtin: str, tmp_path: Path) -> None:
    """LiteRT 2.3 ends the process in the kernel, which an error of this library replaces."""
    graph = fb.SubGraph(name="main")
    x, y, z = (graph.add(fb.TensorSpec(name, "uint8", (3,))) for name in "xyz")
    graph.operators = [fb.OperatorSpec(builtin, [x, y], [z])]
    graph.inputs, graph.outputs = [x, y], [z]
    fb.write(fb.ModelSpec([graph], [fb.Signature({"x": x, "y": y}, {"z": z})]), tmp_path / "a.tflite")
    with contextlib.suppress(OnnxCompatError):  # older runtimes compute it
        onnx_compat.load_converted(tmp_path / "a.tflite").run([np.zeros(3, np.uint8)] * 2)


def test_a_quantised_file_that_this_process_wrote_needs_no_child_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_trial, "call_in_child", lambda *_, **__: pytest.fail("a child process for an own file"))
    written, path = str(tmp_path / "written.tflite"), str(tmp_path / "a.tflite")
    fb.write(make_quantized_model(), written, check=SHIM.check_loads)
    os.replace(written, path)
    outputs = onnx_compat.load_converted(path).run([np.ones((1, 4), np.float32)])
    assert outputs[0].tolist() == [[2, 2, 2, 2]]


def wrong_type() -> fb.ModelSpec:
    """Return a model that the validation accepts and the verifier does not: a RESHAPE from float32 to int8."""
    model = network()
    model.subgraphs[0].tensors[model.subgraphs[0].outputs[0]].dtype = "int8"
    return model


def test_a_file_that_breaks_a_rule_runs_in_a_child_process_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "a.tflite")
    fb.write(wrong_type(), path)
    monkeypatch.setattr(file_trial, "call_in_child", lambda *_, **__: ChildResult("failed", exit_code=-11))
    with pytest.raises(InvalidModelError, match="ends the process that runs it"):
        onnx_compat.load_converted(path)
    monkeypatch.setattr(file_trial, "call_in_child", lambda *_, **__: ChildResult("returned"))
    file_trial.try_file(fb.read(path), path)


def test_a_file_that_keeps_the_rules_needs_no_child_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verify_graph(network())
    fb.write(network(), tmp_path / "a.tflite")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a child process for a file that keeps the rules")

    monkeypatch.setattr(file_trial, "call_in_child", refuse)
    onnx_compat.load_converted(tmp_path / "a.tflite")

"""The tflite shim: compile and run programs, and write them to files."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from onnx_compat_tflite import SHIM, features
from onnx_compat_tflite import flatbuffer as fb

from onnx_compat import primitives
from onnx_compat.errors import ConversionError, ShimError, UnsupportedError
from onnx_compat.ir.dtypes import DType
from onnx_compat.ir.window import Window
from onnx_compat.reference.shim import SHIM as REFERENCE
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import lift

FLOAT = DType.of("float32")


def record(function: Any, *ports: Port, shim: Any = SHIM, names: Any = None) -> Program:
    return record_program(lambda *tensors: list(function(*tensors)), ports, shim.emitter(), names)


def agree(function: Any, ports: List[Port], *arrays: Any) -> None:
    ours = SHIM.compile(record(function, *ports)).run(arrays)
    theirs = REFERENCE.compile(record(function, *ports, shim=REFERENCE)).run(arrays)
    for actual, expected in zip(ours, theirs):
        assert actual.shape == expected.shape and actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


def test_the_probe_names_the_runtime() -> None:
    result = SHIM.probe()
    assert result.available and result.version and "grouped convolutions" in result.features


def test_importing_the_package_imports_no_runtime() -> None:
    code = "import sys, onnx_compat_tflite; print([m for m in sys.modules if m.split('.')[0] in %r])" % (
        ("ai_edge_litert", "tflite_runtime", "tensorflow"),
    )
    description = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True)
    assert description.stdout.decode().strip() == "[]"


def test_a_missing_runtime_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "_CACHE", {})
    monkeypatch.setattr(features, "_MODULES", (("no_such_runtime.interpreter", "no_such_runtime"),))
    monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    result = SHIM.probe()
    assert not result.available and "pip install 'onnx-compat[tflite]'" in result.reason


def test_one_interpreter_follows_the_sizes() -> None:
    compiled = SHIM.compile(record(lambda x: [primitives.mul(x, 2.0)], Port("x", FLOAT, ("n", 3))))
    native = compiled.native
    for count in (1, 4, 2):
        (result,) = compiled.run([np.ones((count, 3), np.float32)])
        assert result.shape == (count, 3) and (result == 2).all()
    assert compiled.native is native and compiled.traces == 1


def test_outputs_may_be_inputs_constants_and_one_another() -> None:
    seven = np.full((2,), 7, np.float32)

    def function(x: Any) -> Any:
        total = primitives.add(x, 1.0)
        return [x, lift(seven), total, total]

    compiled = SHIM.compile(record(function, Port("x", FLOAT, (2,)), names=["x", "seven", "a", "b"]))
    results = compiled.run([np.asarray([1, 2], np.float32)])
    assert [list(result) for result in results] == [[1, 2], [7, 7], [2, 3], [2, 3]]


def test_strings_go_through() -> None:
    ports = [Port("x", DType.of("string"), (None,))]
    words = np.array(["a", "ß", ""], object)
    (result,) = SHIM.compile(record(lambda x: [primitives.reverse(x, [0])], *ports)).run([words])
    assert list(result) == ["", "ß", "a"]


def test_branches_read_outer_values() -> None:
    def function(flag: Any, x: Any) -> Any:
        doubled = primitives.mul(x, 2.0)
        return primitives.cond(flag, lambda: [primitives.add(doubled, x)], lambda: [lift(np.ones(2, np.float32))])

    ports = [Port("flag", DType.of("bool"), ()), Port("x", FLOAT, (2,))]
    for flag in (True, False):
        agree(function, ports, np.asarray(flag), np.asarray([1, 2], np.float32))


@pytest.mark.parametrize("length", [3, 20, None])
def test_a_scan_is_written_out_or_loops(length: Any) -> None:
    def function(state: Any, xs: Any) -> Any:
        def body(total: Any, x: Any) -> Any:
            total = primitives.add(total, x)
            return [total, primitives.mul(total, state)]

        return primitives.scan(body, [state], [xs], xs.shape[0], True)

    xs = np.random.RandomState(0).rand(length or 5, 3).astype(np.float32)
    agree(function, [Port("s", FLOAT, (3,)), Port("xs", FLOAT, (length, 3))], np.ones(3, np.float32), xs)


@pytest.mark.parametrize("count", [0, 1, 12])
def test_a_scan_of_scans_may_have_no_round(count: int) -> None:
    def function(state: Any, xs: Any) -> Any:
        def body(total: Any, x: Any) -> Any:
            inner = primitives.scan(lambda a, b: [primitives.add(a, b), a], [total], [state], 3)
            return [inner[0], primitives.add(inner[1], x)]

        return primitives.scan(body, [lift(np.float32(0))], [xs], xs.shape[0])

    xs = np.random.RandomState(0).rand(count, 3).astype(np.float32)
    agree(function, [Port("s", FLOAT, (3,)), Port("xs", FLOAT, (None, 3))], np.ones(3, np.float32), xs)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("count", [6, None])
def test_rows_that_meet_are_combined(reduction: str, count: Any) -> None:
    def function(x: Any, positions: Any, updates: Any) -> Any:
        return [primitives.scatter_nd(x, positions, updates, reduction)]

    random = np.random.RandomState(1)
    arrays = random.rand(4, 2), random.randint(0, 4, (6, 1)), random.rand(6, 2)
    ports = [
        Port("x", FLOAT, (4, 2)),
        Port("places", DType.of("int64"), (count, 1)),
        Port("updates", FLOAT, (count, 2)),
    ]
    agree(function, ports, arrays[0].astype("float32"), arrays[1].astype("int64"), arrays[2].astype("float32"))


def test_int64_is_divided_exactly() -> None:
    x = np.asarray([2**62 + 1, -(2**63), 7, -7, 2**63 - 1, 5], np.int64)
    y = np.asarray([3, -1, -2, 2, 10**9 + 7, 0], np.int64)
    ports = [Port("x", DType.of("int64"), (6,)), Port("y", DType.of("int64"), (6,))]
    ours = SHIM.compile(record(lambda a, b: [primitives.div(a, b), primitives.floordiv(a, b)], *ports)).run([x, y])
    whole = [int(a) // int(b) if b else None for a, b in zip(x, y)]
    assert [int(v) for v in ours[1]][:1] + [int(v) for v in ours[1]][2:5] == whole[:1] + whole[2:5]
    assert list(ours[0])[2:4] == [-3, -3]


def test_an_empty_batch_of_images_has_the_right_sizes() -> None:
    """XNNPACK does not resize outputs for an empty batch. Later runs use the delegate again."""
    weights = np.ones((3, 3, 2, 2), np.float32)
    window = Window.of((2, 2), (2, 1), (2, 2), [(1, 2), (2, 2)])
    program = record(lambda x: [primitives.conv(x, weights, window=window)], Port("x", FLOAT, ("n", 3, "h", "w")))
    compiled: Any = SHIM.compile(program)
    before = compiled.native
    for batch in (2, 0, 1):
        x = np.zeros((batch, 3, 5, 4), np.float32)
        if batch or not compiled._precautions.rejects_empty_inputs:
            assert compiled.run([x])[0].shape == (batch, 3, 3, 6)
        else:
            with pytest.raises(UnsupportedError, match="does not support that"):
                compiled.run([x])
    assert compiled.native is before


def test_an_axis_that_may_be_empty_is_refused_before_it_ends_the_process() -> None:
    compiled = SHIM.compile(record(lambda x: [primitives.softmax(x, 0)], Port("x", FLOAT, (None,))))
    with pytest.raises(UnsupportedError, match="empty"):
        compiled.run([np.zeros(0, np.float32)])


def test_sizes_that_the_kernels_refuse_are_refused_with_what_to_do(tmp_path: Path) -> None:
    graph = fb.SubGraph(name="main")
    graph.inputs = [graph.add(fb.TensorSpec("x", "float32", (-1,)))]
    shape = graph.add(fb.TensorSpec("shape", "int32", (2,), np.array([2, 3], np.int32)))
    graph.outputs = [graph.add(fb.TensorSpec("y", "float32", (2, 3)))]
    graph.operators.append(fb.OperatorSpec("RESHAPE", [0, shape], graph.outputs))
    fb.write(fb.ModelSpec([graph]), str(tmp_path / "m.tflite"), False)
    compiled, _, _ = SHIM.load_converted(str(tmp_path / "m.tflite"), "tflite")
    with pytest.raises(UnsupportedError) as caught:
        compiled.run([np.ones(5, np.float32)])
    assert "larger inputs" in str(caught.value.hint)
    assert compiled.run([np.ones(6, np.float32)])[0].shape == (2, 3)


def test_several_rows_are_not_repeated() -> None:
    for rows in (0, 3):
        x = np.ones((rows, 1), np.float32)
        agree(lambda x: [primitives.broadcast_to(x, (x.shape[0], 4))], [Port("x", FLOAT, ("n", 1))], x)


def test_another_device_is_refused() -> None:
    with pytest.raises(ShimError, match="gpu"):
        SHIM.compile(record(lambda x: [primitives.neg(x)], Port("x", FLOAT, (2,))), "gpu")


# -- files ---------------------------------------------------------------------------------------------------------------
def test_a_file_of_open_size_may_take_only_large_ones(tmp_path: Path) -> None:
    """The trial of sizes keeps the batch small: 1024 for both sizes would give an input of a million elements."""

    def shorten(x: Any) -> Any:
        w = np.ones((2, 2, 8), np.float32) / 16
        for _ in range(4):
            x = primitives.conv(x, w, window=Window.of((8,), (4,)))
        return [x]

    path = tmp_path / "sounds.tflite"
    program = record(shorten, Port("x", FLOAT, ("n", 2, "samples")))
    SHIM.export(program, str(path), "tflite")
    compiled, _, _ = SHIM.load_converted(str(path), "tflite")
    (actual,) = compiled.run([np.ones((3, 2, 1364), np.float32)])
    np.testing.assert_allclose(actual, np.ones((3, 2, 4)), rtol=1e-5)


def test_a_file_keeps_names_and_open_sizes(tmp_path: Path) -> None:
    path = str(tmp_path / "m.tflite")
    recorded_program = record(
        lambda x: [primitives.mul(x, 3.0)], Port("an input", FLOAT, ("n", 2)), names=["an output"]
    )
    SHIM.export(recorded_program, path, "tflite")
    compiled, inputs, outputs = SHIM.load_converted(path, "tflite")
    assert [(port.name, port.shape) for port in inputs] == [("an input", (None, 2))]
    assert [port.name for port in outputs] == ["an output"]
    (result,) = compiled.run([np.ones((5, 2), np.float32)])
    assert result.shape == (5, 2) and (result == 3).all()
    runner = compiled.native.get_signature_list()
    assert list(runner) == ["serving_default"] and runner["serving_default"]["inputs"] == ["an input"]


def test_a_file_that_the_runtime_refuses_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnx_compat_tflite.shim as module

    def broken(program: Program, kernels: Any, own: bool) -> fb.ModelSpec:
        graph = fb.SubGraph(name="main")
        x = graph.add(fb.TensorSpec("x", "float32", (2,)))
        y = graph.add(fb.TensorSpec("y", "float32", (3,)))
        graph.operators.append(fb.OperatorSpec("ADD", [x, y], [graph.add(fb.TensorSpec("z", "float32", (3,)))]))
        graph.inputs, graph.outputs = [x, y], [2]
        return fb.ModelSpec([graph])

    monkeypatch.setattr(module, "build", broken)
    with pytest.raises(ConversionError, match="refuses"):
        SHIM.export(record(lambda x: [x], Port("x", FLOAT, (2,))), str(tmp_path / "m.tflite"), "tflite")
    assert os.listdir(str(tmp_path)) == []

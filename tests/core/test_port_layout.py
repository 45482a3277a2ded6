"""Port layout: files whose inputs and outputs have channels last."""

from pathlib import Path
from typing import Any, List

import numpy as np
import pytest
from building import model, node, value
from recorded_options import record_convert

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.conversion.port_layout import move_channels
from onnx_compat.discovery.selection import find
from onnx_compat.errors import InputError
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.tracing.interpreter import Interpreter


def pooling_model() -> Any:
    """Return a model in which y is a 2x2 max pooling of an image. Its output z is no image."""
    nodes = [
        node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
        node("ReduceMax", ["y"], ["z"], axes=[1, 2, 3], keepdims=0),
    ]
    return model(nodes, [value("x", ["n", 3, 4, 6]), value("s", [2])], [value("y", ["n", 3, 2, 3]), value("z", ["n"])])


def test_only_inputs_and_outputs_of_the_program_are_transposed() -> None:
    loaded = onnx_compat.load(pooling_model())
    emitter = find("reference").emitter()
    structures = declared_structures(loaded.graph)
    program = trace_model(
        loaded, emitter, structures, Specialisation(channels_last=("x", "y")), Interpreter(), whole=True
    ).program
    assert program.inputs[0].shape[1:] == (4, 6, 3)
    assert program.outputs[0].shape[1:] == (2, 3, 3)
    x = np.arange(144, dtype=np.float32).reshape(2, 4, 6, 3)
    results = find("reference").compile(program).run([x, np.zeros(2, np.float32)])
    np.testing.assert_array_equal(results[0], x.reshape(2, 2, 2, 3, 2, 3).max((2, 4)))
    np.testing.assert_array_equal(results[1], x.max((1, 2, 3)))


@pytest.mark.parametrize(
    ("names", "message"),
    [(["w"], "no input or output named 'w'"), (["s"], "'s' has no channels"), (["x", "z"], "'z' has no channels")],
)
def test_a_tensor_without_channels_is_named(names: List[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        onnx_compat.verify(pooling_model(), converted=tmp_path / "m.tflite", channels_last=names)


def test_a_model_without_a_file_keeps_its_layout() -> None:
    with pytest.raises(InputError, match="only a converted file"):
        onnx_compat.verify(pooling_model(), shim="reference", channels_last=["x"])


def test_moving_channels_to_last_and_back_is_the_identity() -> None:
    arrays = {"a": np.arange(120).reshape(2, 3, 4, 5), "b": np.ones(3)}
    channels_last = move_channels(arrays, ["a", "b", "c"], "last")
    assert channels_last["a"].shape == (2, 4, 5, 3)
    channels_first = move_channels(channels_last, ["a", "b", "c"], "first")
    for name, array in arrays.items():
        np.testing.assert_array_equal(channels_first[name], array)


def test_the_command_line_passes_the_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = record_convert(monkeypatch)
    options = ["--channels-last", "x", "--channels-last", "y"]
    assert main(["convert", "m.onnx", str(tmp_path / "m.tflite"), *options]) == 0
    assert list(seen["channels_last"]) == ["x", "y"]

"""A file that is wrong in one constant or one operator: `verify(layers=True)` names the node of that operator."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Tuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_compat_tflite.flatbuffer.reader import read
from onnx_compat_tflite.flatbuffer.writer import write

import onnx_compat
from onnx_compat.cli import main

EXAMPLES = Path(__file__).parents[3] / "examples"
Change = Callable[[Any], None]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Tuple[Path, Path]:
    """Return the example model and its file."""
    model = tmp_path_factory.mktemp("files") / "digits.onnx"
    subprocess.run([sys.executable, str(EXAMPLES / "make_model.py"), str(model)], check=True)
    return model, onnx_compat.convert(model, model.with_suffix(".tflite"))


def change_builtin(op: Any, builtin: str, **options: Any) -> None:
    op.builtin = builtin
    op.options = options or op.options


def change_option(op: Any, name: str, value: Any) -> None:
    op.options[name] = value


@pytest.mark.parametrize(
    ("builtin", "change", "culprit"),
    [
        ("ADD", lambda op: change_builtin(op, "MUL", fused_activation_function="NONE"), "residual"),
        ("MAX_POOL_2D", lambda op: change_builtin(op, "AVERAGE_POOL_2D"), "pool"),
        ("MEAN", lambda op: change_builtin(op, "SUM"), "average"),
        ("DEPTHWISE_CONV_2D", lambda op: change_option(op, "fused_activation_function", "RELU6"), "depthwise.out"),
        ("SOFTMAX", lambda op: change_option(op, "beta", 2.0), "scores"),
    ],
)
def test_a_wrong_operator_is_named(
    files: Tuple[Path, Path], tmp_path: Path, builtin: str, change: Change, culprit: str
) -> None:
    model, converted = files
    spec = read(converted)
    (op,) = [op for op in spec.subgraphs[0].operators if op.builtin == builtin]
    change(op)
    wrong = tmp_path / "wrong.tflite"
    write(spec, wrong)
    report = onnx_compat.verify(model, converted=wrong, oracle="reference", layers=True)
    assert not report.ok
    assert report.layers is not None
    assert report.layers.culprit == culprit


@pytest.mark.parametrize(("constant", "culprit"), [("pointwise.filters", "pointwise"), ("head.bias", "head")])
def test_a_wrong_constant_is_named(files: Tuple[Path, Path], tmp_path: Path, constant: str, culprit: str) -> None:
    model, wrong = files[0], write_wrong_constant(files, tmp_path, constant)
    report = onnx_compat.verify(model, converted=wrong, oracle="reference", layers=True)
    assert report.layers is not None
    assert report.layers.culprit == culprit


def test_the_command_says_how_to_find_the_node(
    files: Tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    model, wrong = str(files[0]), str(write_wrong_constant(files, tmp_path, "head.bias"))
    hint = "hint: run it again with --layers, which names the first node that departs"
    assert main(["verify", model, "--converted", wrong, "--oracle", "reference"]) == 1
    assert capfd.readouterr().out.splitlines()[-1] == hint
    assert main(["verify", model, "--converted", wrong, "--oracle", "reference", "--layers"]) == 1
    assert hint not in capfd.readouterr().out
    assert main(["verify", model, "--converted", str(files[1]), "--oracle", "reference"]) == 0
    assert hint not in capfd.readouterr().out


def write_wrong_constant(files: Tuple[Path, Path], folder: Path, name: str) -> Path:
    """Write the file with a constant of the other sign, and return its path."""
    model, converted = files
    (tensor,) = [tensor for tensor in onnx.load(str(model)).graph.initializer if tensor.name == name]
    values = numpy_helper.to_array(tensor)
    content = converted.read_bytes()
    assert content.count(values.tobytes()) == 1
    wrong = folder / "wrong.tflite"
    wrong.write_bytes(content.replace(values.tobytes(), np.negative(values).tobytes()))
    return wrong

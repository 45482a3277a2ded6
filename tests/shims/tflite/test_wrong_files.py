"""A file that is wrong in one constant or one operator: `verify(layers=True)` names the node of that operator."""

import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, List, Tuple

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx_compat_tflite import features
from onnx_compat_tflite.file_ports import supports_empty_windows
from onnx_compat_tflite.flatbuffer.reader import read
from onnx_compat_tflite.flatbuffer.writer import write

import onnx_compat
from onnx_compat.cli import main
from onnx_compat.cli.exit_codes import UNSUPPORTED
from onnx_compat.verification import save_npz

EXAMPLES = Path(__file__).parents[3] / "examples"
Change = Callable[[Any], None]
#: The reduction of an average in the file: some runtimes lose NaN in MEAN.
AVERAGE = "MEAN" if features.kernels().quirks.mean_keeps_nan else "SUM"


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
        (AVERAGE, lambda op: change_builtin(op, "REDUCE_MAX"), "average"),
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


def run_verify(files: Tuple[Path, Path], converted: Path, *arguments: str) -> int:
    return main(["verify", str(files[0]), "--converted", str(converted), "--oracle", "reference", *arguments])


@pytest.mark.parametrize("layers", [[], ["--layers"]])
def test_an_operator_that_the_runtime_refuses_is_named(
    files: Tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture, layers: List[str]
) -> None:
    spec = read(files[1])
    graph = spec.subgraphs[0]
    (op,) = [op for op in graph.operators if op.builtin == "ADD"]
    (head,) = [op for op in graph.operators if op.builtin == "FULLY_CONNECTED"]
    op.inputs = [op.inputs[0], head.inputs[1]]  # the weights of `head`, [10, 8], do not broadcast to an image
    write(spec, tmp_path / "refused.tflite")
    assert run_verify(files, tmp_path / "refused.tflite", *layers) == 4
    err = capfd.readouterr().err
    assert "the runtime refuses the operator 5 (ADD), which computes 'residual'" in err
    assert "hint: convert the model again: if the new file runs, this file was changed" in err
    assert "larger inputs" not in err


def test_fixed_sizes_of_a_file(files: Tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    fixed = onnx_compat.convert(files[0], tmp_path / "fixed.tflite", shapes={"image": (1, None, None, None)})
    assert run_verify(files, fixed) == 6
    hint = "hint: the file has fixed sizes: generate inputs of these sizes with --dim batch=1"
    assert capfd.readouterr().err.splitlines()[-1].strip() == hint
    assert run_verify(files, fixed, "--dim", "batch=1") == 0
    save_npz(tmp_path / "two.npz", {"image": np.zeros((2, 1, 28, 28), np.float32)})
    assert run_verify(files, fixed, "--inputs", str(tmp_path / "two.npz")) == 6
    assert "give inputs (--inputs) of these shapes: 'image' [1, 1, 28, 28]" in capfd.readouterr().err
    last = onnx_compat.convert(files[0], tmp_path / "last.tflite", channels_last=["image"])
    assert run_verify(files, last) == 6
    assert "channels_last (--channels-last)" in capfd.readouterr().err


def test_outputs_without_elements(files: Tuple[Path, Path], capfd: pytest.CaptureFixture) -> None:
    if not supports_empty_windows(features.kernels()):
        assert run_verify(files, files[1], "--dim", "batch=0") == UNSUPPORTED
        assert "an input is empty" in capfd.readouterr().err
        return
    assert run_verify(files, files[1], "--dim", "batch=0") == 0
    assert (
        capfd.readouterr()
        .out.splitlines()[-1]
        .endswith("the outputs have no elements: nothing was compared but dtypes and shapes")
    )


def test_a_wrong_node_whose_outputs_agree(
    files: Tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    spec = read(files[1])
    (op,) = [op for op in spec.subgraphs[0].operators if op.builtin == "FULLY_CONNECTED"]
    bias = spec.subgraphs[0].tensors[op.inputs[2]]
    bias.buffer = np.asarray(bias.buffer) + np.float32(1)  # a softmax is invariant to a constant
    wrong = tmp_path / "wrong.tflite"
    write(spec, wrong)
    assert run_verify(files, wrong, "--layers") == 0
    out = capfd.readouterr().out.splitlines()
    assert out[-1].startswith("OK, but the node 'head' departs by itself (see the layers): 1 of 1 outputs")


def test_the_hints_after_a_failure(files: Tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture) -> None:
    wrong = write_wrong_constant(files, tmp_path, "head.bias")
    assert run_verify(files, wrong, "--layers") == 1
    assert "--bisect-passes" in capfd.readouterr().out.splitlines()[-1]
    target = tmp_path / "new.tflite"
    arguments = ["convert", str(files[0]), str(target), "--verify", "--rtol", "0", "--atol", "0"]
    assert main(arguments) == 1
    command = "onnx-compat verify %s --converted %s --layers" % (files[0], target)
    assert capfd.readouterr().out.splitlines()[-1] == "hint: %s names the first node that departs" % command

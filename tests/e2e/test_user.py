"""Steps of a user after the installation. Each step is a command in a new process, in a folder of its own."""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
CLI = [sys.executable, "-m", "onnx_compat"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder that holds a model."""
    folder = tmp_path_factory.mktemp("user")
    subprocess.run(
        [sys.executable, str(ROOT / "examples" / "make_model.py"), "digits.onnx"], cwd=str(folder), check=True
    )
    return folder


@pytest.fixture
def command(folder):
    """Return a function that runs a command in the folder. It returns (exit code, output; parsed if it is JSON)."""

    def run(*arguments):
        done = subprocess.run([*CLI, *arguments], cwd=str(folder), capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout) if "--json" in arguments else done.stdout

    return run


def test_the_package_is_the_installed_one(folder):
    code = "import onnx_compat; print(onnx_compat.__file__)"
    out = subprocess.run([sys.executable, "-c", code], cwd=str(folder), stdout=subprocess.PIPE, check=True).stdout
    assert Path(sysconfig.get_paths()["purelib"]) in Path(out.decode().strip()).parents


def test_doctor(command):
    code, document = command("doctor", "--json")
    assert code == 0
    assert {shim["name"] for shim in document["shims"] if shim["available"]} >= {"reference", "tflite"}


def test_convert_and_verify(command):
    code, document = command("convert", "digits.onnx", "digits.tflite", "--verify", "--json")
    assert code == 0
    assert document["verification"]["oracle"].startswith("onnxruntime")
    (output,) = document["verification"]["outputs"]
    assert (output["name"], output["verdict"]) == ("scores", "match")


def test_two_batch_sizes_through_files(command, folder):
    for batch in (1, 3):
        np.savez(str(folder / "in.npz"), image=np.random.RandomState(0).rand(batch, 1, 28, 28).astype(np.float32))
        code, _ = command("run", "digits.onnx", "--shim", "tflite", "--inputs", "in.npz", "--output", "out.npz")
        assert code == 0
        with np.load(str(folder / "out.npz")) as outputs:
            assert outputs["scores"].shape == (batch, 10)
            np.testing.assert_allclose(outputs["scores"].sum(axis=1), 1, rtol=1e-5)


def test_support_and_inspect(command):
    code, document = command("support", "digits.onnx", "--shim", "tflite", "--json")
    assert code == 0
    assert {node["operator"] for node in document["nodes"]} >= {"Conv", "Gemm", "Softmax"}
    document = command("inspect", "digits.onnx", "--json")[1]
    assert document["opsets"] == {"ai.onnx": 17}
    assert {row["shim"]: row["takes"] for row in document["shims"]} == {
        "tflite": "yes",
        "onnx": "yes",
        "reference": "yes",
    }


def test_a_file_of_another_model_is_detected(command, folder):
    code = "import sys, onnx; sys.path.insert(0, sys.argv[1]); import make_model; onnx.save(make_model.make_model(1), 'other.onnx')"
    subprocess.run([sys.executable, "-c", code, str(ROOT / "examples")], cwd=str(folder), check=True)
    assert command("convert", "digits.onnx", "one.tflite")[0] == 0
    code, document = command("verify", "other.onnx", "--converted", "one.tflite", "--json")
    assert (code, document["ok"]) == (1, False)


def test_a_truncated_model_is_refused_and_leaves_nothing(command, folder):
    (folder / "cut.onnx").write_bytes((folder / "digits.onnx").read_bytes()[:2000])
    before = sorted(path.name for path in folder.iterdir())
    code, document = command("convert", "cut.onnx", "cut.tflite", "--json")
    assert (code, document["error"]["type"]) == (3, "InvalidModelError")
    assert sorted(path.name for path in folder.iterdir()) == before


def test_tensorflow_is_not_needed(folder):
    code = (
        "import sys; sys.modules['tensorflow'] = None; import onnx_compat; "
        "onnx_compat.convert('digits.onnx', 'without.tflite')"
    )
    subprocess.run([sys.executable, "-c", code], cwd=str(folder), check=True)
    assert (folder / "without.tflite").read_bytes()[4:8] == b"TFL3"


def test_the_example_of_the_readme(folder):
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=str(folder), stdout=subprocess.PIPE, check=True
    ).stdout.decode()
    assert out.splitlines()[0].startswith("OK")
    assert out.splitlines()[1] == "(2, 10)"

"""`pip install 'onnx-compat[onnxruntime]'` into an environment without a framework: models run on the shim `onnx`."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import json, sys
import numpy as np
import onnx_compat

sys.path.insert(0, sys.argv[1])
from make_model import make_model

image = np.ones((2, 1, 28, 28), np.float32)
runnable = onnx_compat.prepare(make_model())
scores = runnable.run([image])["scores"]
once = onnx_compat.run(make_model(), [image])["scores"]
expected = onnx_compat.run(make_model(), [image], shim="reference")["scores"]
print(json.dumps({
    "selected": [info.name for info in onnx_compat.shims() if info.selected],
    "shims": [info.name for info in onnx_compat.shims()],
    "shim": runnable.shim,
    "native": type(runnable.native).__module__.partition(".")[0],
    "fallbacks": runnable.fallbacks,
    "error": [float(abs(result - expected).max()) for result in (scores, once)],
}))
"""


@pytest.fixture(name="report", scope="module")
def _report(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("alone")
    links = " ".join(filter(None, [os.environ.get("PIP_FIND_LINKS", ""), str(ROOT / "dist")]))
    environment = dict(os.environ, PIP_FIND_LINKS=links)
    environment.pop("PYTHONPATH", None)
    environment.pop("ONNX_COMPAT_SHIM", None)
    python = str(folder / "venv" / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(folder / "venv")],
        [python, "-m", "pip", "install", "--quiet", "onnx-compat[onnxruntime]"],
    ):
        subprocess.run(command, cwd=str(folder), env=environment, check=True)
    command = [python, "-c", CODE, str(ROOT / "examples")]
    done = subprocess.run(command, cwd=str(folder), env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_shim_onnx_is_selected(report: Any) -> None:
    assert report["shims"] == ["onnx", "reference"], "no framework is installed"
    assert report["selected"] == ["onnx"]


def test_prepare_and_run_compute_in_onnxruntime(report: Any) -> None:
    assert report["shim"] == "onnx" and report["native"] == "onnxruntime" and report["fallbacks"] == []
    assert max(report["error"]) < 1e-5

"""Refusals of a branch by the newest pip and uv, on a Python without wheels for its framework: at once, with the reason.

An extra has no Requires-Python. pip names the framework and the versions of it that this Python has; uv also names the
Pythons of the wheels. tf1 holds code, and pip names its Requires-Python.
"""

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import onnx_compat

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
CASES = [
    # numpy<1.19 belongs to tf2-2: of it, this Python has a source distribution only, which takes minutes to build.
    ("3.12", "tf2-2", r"No matching distribution found for tensorflow~=2\.2\.3", r"wheels for `tensorflow` \(v2\.2\.3\).*`cp37m`, `cp38`"),
    ("3.12", "tflite2-7", r"No matching distribution found for tflite-runtime~=2\.7\.0", r"wheels for `tflite-runtime`.*`cp39`"),
    ("3.12", "tf1-15", r"'onnx-compat-tf1' requires a different Python: 3\.12", r"wheels for `tensorflow` \(v1\.15\.5\).*`cp37m`"),
    ("3.10", "keras3-15-jax", r"requires a different Python: 3\.10", r"Python version \(3\.10\S*\) does not satisfy Python>=3\.11"),
]  # fmt: skip


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    """Return a function from a version of Python to its interpreter, in an environment with the newest pip and uv."""
    folder = tmp_path_factory.mktemp("tools")

    def make(version):
        python = folder / version / "bin" / "python"
        if not python.exists():
            subprocess.run([find_interpreter(version), "-m", "venv", str(folder / version)], check=True)
            install = [str(python), "-m", "pip", "install", "--quiet", "--upgrade", "pip", "uv"]
            subprocess.run(install, check=True)
        return str(python)

    return make


def find_interpreter(version):
    """Return the interpreter of a minor version, as the sessions of nox find it."""
    code = "import sys; from matrix.interpreters import find; print(find(sys.argv[1]))"
    command = [sys.executable, "-c", code, version]
    return subprocess.run(command, cwd=str(ROOT), check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(("python", "branch", "of_pip", "of_uv"), CASES, ids=["-".join(case[:2]) for case in CASES])
def test_a_branch_is_refused_at_once_with_the_reason(tools, python, branch, of_pip, of_uv, tmp_path):
    requirement = "onnx-compat[%s]==%s" % (branch, onnx_compat.__version__)
    links = "--find-links=%s" % (ROOT / "dist")
    began = time.monotonic()
    done = run(tools(python), "-m", "pip", "install", "--dry-run", links, requirement)
    assert done.returncode != 0 and re.search(of_pip, done.stderr), done.stderr
    assert time.monotonic() - began < SECONDS
    (tmp_path / "in").write_text(requirement, encoding="utf-8")
    done = run(tools(python), "-m", "uv", "pip", "compile", "--no-header", links, str(tmp_path / "in"))
    assert done.returncode != 0 and re.search(of_uv, " ".join(done.stderr.split())), done.stderr


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)

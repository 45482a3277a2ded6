"""A cell runs only the tests of its shim: files and folders that are named after another shim are not collected."""

import os
import sys
from pathlib import Path

import pytest

from matrix.data import load

# pytest's importlib mode puts no folder on the path. The helpers have one of their own: on the path, this one would make
# its `tensorflow` and `keras` importable where none is installed.
sys.path.insert(0, str(Path(__file__).parent / "helpers"))

ROOT = Path(__file__).parents[2]
SHIMS = sorted(path.name for path in (ROOT / "shims").iterdir() if path.is_dir())
HERE = os.environ.get("ONNX_COMPAT_SHIM", "")


def is_required(cell: str) -> bool:
    """Return whether pages are compared with the code here: in a cell that a merge needs, and outside of any cell."""
    return not cell or load().cells[cell].is_required


# `tests/shims/tf1/`, `tests/shims/test_tf1_session.py`. What tf1 and tf2 share is tested in `test_tensorflow_…` in both.
OTHERS = [shim for shim in SHIMS if HERE and shim not in (HERE, "tensorflow" if HERE in ("tf1", "tf2") else HERE)]
collect_ignore_glob = [pattern for shim in OTHERS for pattern in (shim, "test_%s.py" % shim, "test_%s_*.py" % shim)]

if "ONNX_COMPAT_CELL" not in os.environ:
    collect_ignore_glob += ["test_docs.py", "test_environment.py", "test_device.py"]
if not is_required(os.environ.get("ONNX_COMPAT_CELL", "")) or HERE in ("", "reference"):
    collect_ignore_glob += ["test_docs.py", "test_formats_page.py"]  # the core's own pages are in tests/core
if HERE == "onnx":
    collect_ignore_glob += ["test_formats_page.py"]  # the page is about the files of frameworks
if HERE not in ("tf1", "tf2", "keras"):  # the others compute on the CPU only
    collect_ignore_glob += ["test_device.py", "test_device_placement.py"]


@pytest.fixture(scope="session")
def shim_name() -> str:
    """Return the name of the shim under test."""
    assert HERE, "set ONNX_COMPAT_SHIM, as a cell of nox does"
    return HERE

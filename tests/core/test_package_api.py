"""The package `onnx_compat`: its names are the public API, and each is imported at its first use."""

import subprocess
import sys

import pytest

import onnx_compat
from onnx_compat import errors


def test_dir_lists_the_api_alone() -> None:
    assert dir(onnx_compat) == sorted(onnx_compat.__all__)
    assert all(hasattr(onnx_compat, name) for name in onnx_compat.__all__)


@pytest.mark.parametrize("name", errors.__all__)
def test_the_package_has_each_error_class(name: str) -> None:
    assert name in dir(onnx_compat)
    assert getattr(onnx_compat, name) is getattr(errors, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'onnx_compat' has no attribute 'absent'"):
        onnx_compat.absent  # noqa: B018


def test_the_import_of_the_package_imports_no_submodule() -> None:
    script = "import sys, onnx_compat; print([name for name in sys.modules if name.startswith('onnx_compat.')])"
    result = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, check=True)
    assert result.stdout.decode().strip() == "[]"

"""The environment of a cell: this library is installed from its wheels, and all packages have their pinned versions."""

import importlib.util
import os
import sysconfig
from pathlib import Path
from typing import Dict

import pytest

try:
    from importlib import metadata
except ImportError:  # Python 3.7
    import importlib_metadata as metadata  # type: ignore[no-redef]  # the backport of the module above

SHIM = os.environ["ONNX_COMPAT_SHIM"]
CONSTRAINTS = Path(os.environ["ONNX_COMPAT_CONSTRAINTS"])
PACKAGES = ["onnx_compat"]
if SHIM not in ("reference", "onnx"):  # which are parts of the core
    PACKAGES.append("onnx_compat_" + SHIM)
if SHIM in ("tf1", "tf2", "keras"):
    PACKAGES.append("onnx_compat_tensorflow")


# What a build of torch for GPUs brings along, where no build for CPUs is at hand: of the same version, pinned or not.
BUILD = ("cuda-", "nvidia-", "triton")


def pins() -> Dict[str, str]:
    lines = CONSTRAINTS.read_text(encoding="utf-8").split()
    return dict(line.split("==") for line in lines)


@pytest.mark.parametrize("package", PACKAGES)
def test_comes_from_the_installed_wheel(package):
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None, "%s is not installed" % package
    assert Path(sysconfig.get_paths()["purelib"]) in Path(spec.origin).parents


@pytest.mark.parametrize("package", PACKAGES)
def test_has_the_common_version(package):
    module = importlib.import_module(package)
    assert module.__version__ == metadata.version(package.replace("_", "-")) == metadata.version("onnx-compat")


@pytest.mark.parametrize("name", sorted(pins()))
def test_is_at_its_pin(name):
    pinned, installed = pins()[name], metadata.version(name)
    if "+" not in pinned:  # any build of the version: `2.13.0+cpu` is 2.13.0
        installed = installed.partition("+")[0]
    assert installed == pinned


def test_nothing_is_installed_beside_the_pins():
    known = set(pins()) | {package.replace("_", "-") for package in PACKAGES} | {"pip"}
    # Not those that setuptools holds inside itself, and puts on the path when it is imported.
    folders = [sysconfig.get_paths()[scheme] for scheme in ("purelib", "platlib")]
    extra = {_name(distribution.metadata["Name"]) for distribution in metadata.distributions(path=folders)} - known
    extra = {name for name in extra if not ("torch" in pins() and name.startswith(BUILD))}
    assert not extra, "not in %s: resolve it again" % CONSTRAINTS.name


@pytest.mark.parametrize(
    "package", ["tensorflow", "keras", "tf_keras", "torch", "jax", "tflite_runtime", "ai_edge_litert"]
)
def test_no_test_folder_is_imported_as_a_framework(package):
    """A folder on `sys.path` can be imported by its name, so a folder named like a framework would mislead other
    frameworks.
    """
    spec = importlib.util.find_spec(package)
    assert spec is None or spec.origin is not None, list(spec.submodule_search_locations or [])


def _name(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")

"""Check the contents of wheels and sdists: the package and its metadata, no tests and no other file."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from packaging.utils import parse_sdist_filename, parse_wheel_filename

__all__ = ["problems"]

BESIDE = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
"""The files that the top folder of an sdist may have in addition to the package."""


def problems(path: Path, packages: dict[str, str]) -> list[str]:
    """Return a text for each missing, stray or test file in a wheel or an sdist.

    `packages`: distribution -> package that it must hold. A file of another distribution is a problem.
    """
    is_wheel = path.suffix == ".whl"
    name, version = parse_wheel_filename(path.name)[:2] if is_wheel else parse_sdist_filename(path.name)
    if name not in packages:
        return [f"{path.name}: {name} is no distribution of matrix.toml"]
    check = _check_wheel if is_wheel else _check_sdist
    return [f"{path.name}: {problem}" for problem in check(path, f"{name.replace('-', '_')}-{version}", packages[name])]


def _check_wheel(path: Path, stem: str, package: str) -> list[str]:
    """Return a text for each problem of a wheel. `stem`: its name and version, `onnx_compat-0.1.0`."""
    info_folder = f"{stem}.dist-info"
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    required = [f"{info_folder}/METADATA", f"{info_folder}/licenses/LICENSE"]
    required += [f"{package}/__init__.py", f"{package}/py.typed"]
    return [*_find_stray(names, {info_folder, package}), *_find_tests(names), *_find_missing(names, required)]


def _check_sdist(path: Path, stem: str, package: str) -> list[str]:
    """Return a text for each problem of an sdist. `stem`: its name and version, `onnx_compat-0.1.0`."""
    with tarfile.open(path) as archive:
        names = [member.name for member in archive.getmembers() if not member.isdir()]
    inner = [name.removeprefix(f"{stem}/") for name in names]
    required = ["LICENSE", "PKG-INFO", "pyproject.toml", f"{package}/__init__.py"]
    return [*_find_stray(inner, {*BESIDE, package}), *_find_tests(inner), *_find_missing(inner, required)]


def _find_stray(names: Iterable[str], known: set[str]) -> list[str]:
    """Return a text for each file or folder at the top of an archive that is not in `known`."""
    tops = {PurePosixPath(name).parts[0] for name in names}
    return [f"{top} does not belong at its top" for top in sorted(tops) if top not in known]


def _find_tests(names: Iterable[str]) -> list[str]:
    return [f"{name} is a test" for name in names if any(map(_is_test, PurePosixPath(name).parts))]


def _is_test(part: str) -> bool:
    return part in ("test", "tests", "testing", "conftest.py") or part.startswith("test_") or part.endswith("_test.py")


def _find_missing(names: list[str], required: list[str]) -> list[str]:
    return [f"{name} is missing" for name in required if name not in names]

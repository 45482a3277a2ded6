"""What is in a distribution's files: its package and what describes it, and nothing else."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from packaging.utils import parse_sdist_filename, parse_wheel_filename

__all__ = ["problems"]

BESIDE = {".gitignore", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
"""What an sdist has next to the package."""


def problems(path: Path, packages: dict[str, str]) -> list[str]:
    """`packages`: by the name of its distribution; one that is not in it has metadata only."""
    wrong = _wheel(path, packages) if path.suffix == ".whl" else _sdist(path, packages)
    return [f"{path.name}: {each}" for each in wrong]


def _wheel(path: Path, packages: dict[str, str]) -> list[str]:
    name, version, _, _ = parse_wheel_filename(path.name)
    package = packages.get(name)
    about = f"{name.replace('-', '_')}-{version}.dist-info"
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    asked = [f"{about}/METADATA", f"{about}/licenses/LICENSE"]
    asked += [f"{package}/__init__.py", f"{package}/py.typed"] if package else []
    return [*_stray(names, {about, package}), *_tests(names), *_missing(names, asked)]


def _sdist(path: Path, packages: dict[str, str]) -> list[str]:
    name, version = parse_sdist_filename(path.name)
    package = packages.get(name)
    top = f"{name.replace('-', '_')}-{version}"
    with tarfile.open(path) as archive:
        names = [member.name for member in archive.getmembers() if not member.isdir()]
    inner = [each.removeprefix(f"{top}/") for each in names]
    asked = ["LICENSE", "PKG-INFO", "pyproject.toml", *([f"{package}/__init__.py"] if package else [])]
    return [*_stray(inner, {*BESIDE, package}), *_tests(inner), *_missing(inner, asked)]


def _stray(names: Iterable[str], known: set[str | None]) -> list[str]:
    tops = {PurePosixPath(name).parts[0] for name in names}
    return [f"{top} does not belong at its top" for top in sorted(tops) if top not in known]


def _tests(names: Iterable[str]) -> list[str]:
    return [f"{name} is a test" for name in names if any(map(_is_test, PurePosixPath(name).parts))]


def _is_test(part: str) -> bool:
    return part in ("test", "tests", "testing", "conftest.py") or part.startswith("test_") or part.endswith("_test.py")


def _missing(names: list[str], asked: list[str]) -> list[str]:
    return [f"{name} is missing" for name in asked if name not in names]

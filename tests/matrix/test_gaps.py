"""Declared gaps are keyed by versions: an untested patch version has the gaps of its minor version."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from matrix.data import ROOT, Cell, load, tomllib
from matrix.harness.conditions import ANYWHERE, Installed, holds

MATRIX = load()
FILES = sorted((ROOT / "tests" / "gaps").glob("*.toml"))
OF_PRIMITIVES = [path for path in FILES if path.stem.startswith("primitives-")]


def read_gaps(path: Path) -> list[dict[str, object]]:
    return tomllib.loads(path.read_text(encoding="utf-8"))["gap"]


def cells_of(path: Path) -> list[Cell]:
    return [
        cell for cell in MATRIX.cells.values() if cell.shim == path.stem.partition("-")[2] and cell.constraints.exists()
    ]


def environment_of(cell: Cell, **other_versions: str) -> Installed:
    """Return the environment that the lock file of a cell describes, with other versions of some packages."""
    pins = map(Requirement, cell.constraints.read_text(encoding="utf-8").splitlines())
    versions = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pins}
    versions.update({name.replace("_", "-"): version for name, version in other_versions.items()})
    versions.setdefault("tensorflow", versions.get("tensorflow-cpu", ""))
    versions = {name: version for name, version in versions.items() if version}
    return Installed(versions.get, cell.env, cell.python)


def count_gaps(path: Path, environment: Installed) -> Counter[tuple[str, str]]:
    """Return (primitive, dtype) -> how many gaps cover it in an environment."""
    return Counter(
        (primitive, dtype)
        for gap in read_gaps(path)
        if holds(gap["when"], environment)
        for primitive in gap["primitives"]
        for dtype in gap["dtypes"]
    )


def framework_of(cell: Cell) -> tuple[str, Version]:
    pin = MATRIX.frameworks(cell)[0]
    return canonicalize_name(pin.name), Version(next(iter(pin.specifier)).version)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_condition_names_no_cell_and_no_patch_version_alone(path: Path) -> None:
    for gap in read_gaps(path):
        for condition in gap["when"]:
            if condition == ANYWHERE or re.fullmatch(r"[A-Z_]+=\w+", condition):
                continue
            specifiers = Requirement(condition).specifier
            assert all(specifier.operator in (">=", "<") for specifier in specifiers), condition


@pytest.mark.parametrize("path", OF_PRIMITIVES, ids=lambda path: path.stem)
def test_each_condition_holds_in_a_cell(path: Path) -> None:
    environments = [environment_of(cell) for cell in cells_of(path)]
    for condition in {condition for gap in read_gaps(path) for condition in gap["when"]}:
        assert any(holds([condition], environment) for environment in environments), condition


@pytest.mark.parametrize("path", OF_PRIMITIVES, ids=lambda path: path.stem)
def test_no_gap_is_declared_twice_in_an_environment(path: Path) -> None:
    for cell in cells_of(path):
        name, version = framework_of(cell)
        between = [f"{version.major}.{version.minor + minor}.{patch}" for minor in (0, 1) for patch in range(10)]
        for other_version in [str(version), *between]:
            counts = count_gaps(path, environment_of(cell, **{name.replace("-", "_"): other_version}))
            assert not [key for key, count in counts.items() if count > 1], (cell.id, other_version)


@pytest.mark.parametrize("path", OF_PRIMITIVES, ids=lambda path: path.stem)
def test_an_untested_patch_version_has_the_gaps_of_its_minor_version(path: Path) -> None:
    tested = {framework_of(cell) for cell in cells_of(path)}
    for cell in cells_of(path):
        name, version = framework_of(cell)
        newer = Version(f"{version.major}.{version.minor}.{version.micro + 1}")
        if (name, newer) not in tested:
            newer_environment = environment_of(cell, **{name.replace("-", "_"): str(newer)})
            assert count_gaps(path, newer_environment) == count_gaps(path, environment_of(cell)), (cell.id, str(newer))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("*", True),
        ("tflite-runtime", True),
        ("tflite-runtime>=2.11,<2.13", True),
        ("tflite-runtime<2.12", False),
        ("tflite_runtime>=2.13", False),
        ('tflite-runtime>=2.12; python_version >= "3.10"', True),
        ('tflite-runtime>=2.12; python_version >= "3.11"', False),
        ("ai-edge-litert", False),
        ("KERAS_BACKEND=jax", True),
        ("KERAS_BACKEND=torch", False),
        ("OTHER=jax", False),
    ],
)
def test_a_condition_is_on_a_version_or_a_variable(condition: str, expected: bool) -> None:
    versions = {"tflite-runtime": "2.12.1.dev5", "tflite_runtime": "2.12.1.dev5"}
    assert holds([condition], Installed(versions.get, {"KERAS_BACKEND": "jax"}, "3.10")) is expected

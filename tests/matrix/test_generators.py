"""The random generators of tests: a test draws the same numbers alone, with others, and in another order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

MODULE = """
import numpy as np
from matrix.harness.generators import per_test

STATE, GENERATOR = per_test(np.random.RandomState(3)), per_test(np.random.default_rng(3))
AT_IMPORT = STATE.rand(), GENERATOR.random()

def draw(name):
    numbers = STATE.rand(), GENERATOR.random()
    assert not set(numbers) & set(AT_IMPORT)
    print("drawn", name, *numbers)

def test_first(): draw("first")
def test_second(): draw("second")
"""


@pytest.fixture(name="folder")
def _folder_of_tests(tmp_path: Path) -> Path:
    """Return a folder with the conftest.py of all tests, and a module of random tests."""
    root = Path(__file__).parents[2]
    (tmp_path / "tests").mkdir()
    for name in ("matrix", "benchmarks"):
        (tmp_path / name).symlink_to(root / name)
    (tmp_path / "tests" / "conftest.py").write_text((root / "tests" / "conftest.py").read_text(encoding="utf-8"))
    (tmp_path / "tests" / "test_random.py").write_text(MODULE, encoding="utf-8")
    return tmp_path


def draw_in(folder: Path, *tests: str) -> dict[str, str]:
    """Run tests of the module in another process, in this order. Return test -> the numbers that it draws."""
    names = [f"tests/test_random.py::test_{name}" for name in tests]
    command = [sys.executable, "-m", "pytest", "-s", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *names]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    lines = [line[line.index("drawn") :].split() for line in done.stdout.splitlines() if "drawn" in line]
    return {line[1]: " ".join(line[2:4]) for line in lines}


def test_a_test_draws_the_same_numbers_in_any_order(folder: Path) -> None:
    together = draw_in(folder, "first", "second")
    assert together == draw_in(folder, "second", "first")
    assert together == {**draw_in(folder, "first"), **draw_in(folder, "second")}

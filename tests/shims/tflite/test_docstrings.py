"""Run the examples in the docstrings of public functions that write files."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "pages"))

import docstrings

PUBLIC = docstrings.public()


@pytest.mark.parametrize("name", docstrings.CONVERTING)
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert docstrings.run(name, PUBLIC[name], tmp_path)

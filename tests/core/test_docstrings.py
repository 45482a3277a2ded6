"""The docstrings of the public API: every parameter is described, and every example runs."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pages"))

import docstrings

from onnx_compat.ops import OPERATORS

PUBLIC = docstrings.public()
API = Path(__file__).parents[2] / "docs" / "reference" / "api.md"


@pytest.mark.parametrize("name", PUBLIC)
def test_every_parameter_is_described(name: str) -> None:
    assert docstrings.missing_sections(name, PUBLIC[name]) == []


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in docstrings.CONVERTING])
def test_the_example_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONNX_COMPAT_SHIM", raising=False)
    try:
        assert docstrings.run(name, PUBLIC[name], tmp_path)
    finally:
        OPERATORS.pop(("my.domain", "Twice"), None)


@pytest.mark.parametrize("name", PUBLIC)
def test_the_reference_has_an_entry(name: str) -> None:
    if name == "NeedsKnownError":  # the library catches it
        assert name not in API.read_text(encoding="utf-8")
    else:
        assert name in API.read_text(encoding="utf-8")


def test_a_wrong_example_is_found(tmp_path: Path) -> None:
    def sample() -> int:
        """Return a number.

        Examples:
            >>> 1 + 1
            3
        """
        return 1

    with pytest.raises(Exception, match="sample"):
        docstrings.run("sample", sample, tmp_path)
    assert docstrings.missing_sections("sample", sample) == ["Returns"]

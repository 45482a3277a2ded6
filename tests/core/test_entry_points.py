"""The entry points of installed packages: read once, and again after an installation."""

from pathlib import Path

import pytest

from onnx_compat.discovery import environment

GROUP = "onnx_compat.example"


def install(folder: Path, name: str) -> None:
    metadata = folder / (name + "-1.0.dist-info")
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % name, encoding="ascii")
    (metadata / "entry_points.txt").write_text("[%s]\n%s = %s\n" % (GROUP, name, name), encoding="ascii")


def names() -> "list[str]":
    return sorted(point.name for point in environment.entry_points(GROUP))


def test_entry_points_of_later_installations_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    install(second, "elsewhere")
    monkeypatch.syspath_prepend(str(first))
    assert names() == []
    install(first, "later")
    assert names() == ["later"]
    monkeypatch.syspath_prepend(str(second))
    assert names() == ["elsewhere", "later"]


def test_the_metadata_is_read_once_for_the_same_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    names()
    monkeypatch.setattr(environment, "metadata", None)  # a second reading would raise TypeError
    assert names() == []


def test_the_caller_owns_the_list() -> None:
    environment.entry_points(GROUP).append("more")
    assert environment.entry_points(GROUP) == []

"""Rendered files: none was edited by hand, and an edit is detected."""

import shutil

import pytest

from matrix import render
from matrix.__main__ import main
from matrix.data import ROOT, MatrixError, load
from matrix.lock import unmet_requirements
from matrix.render import projects

MATRIX = load()
# Files that are rendered in part; the other files are rendered whole.
EDITS = {
    "pyproject.toml": (f'version = "{MATRIX.version}"', 'version = "9.9"'),
    "__init__.py": (f'"{MATRIX.version}"', '"9.9"'),
    "README.md": ("TensorFlow 2 |", "TensorFlow 3 |"),
    "cli.md": ("### Exit codes", "### Codes"),
    "simplification.md": ("| figure | value | aim |", "| figure | result | aim |"),
}
# A cell with an index of its own has no lock file until it is resolved where that index is known; see `unmet_requirements`.
LOCKED = [environment for environment in MATRIX.environments.values() if environment.constraints.exists()]


def test_the_rendered_files_are_up_to_date():
    assert render.find_drift(MATRIX) == []


@pytest.mark.parametrize("environment", MATRIX.environments.values(), ids=lambda environment: environment.id)
def test_the_pins_are_locked(environment):
    assert unmet_requirements(MATRIX, environment) == []


@pytest.mark.parametrize("environment", LOCKED, ids=lambda environment: environment.id)
def test_a_lock_holds_exact_versions_and_nothing_else(environment):
    lines = environment.constraints.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: line.partition("==")[0])
    for line in lines:
        name, same, version = line.partition("==")
        assert name and same and version and not set(line) & set(" +@/;"), line


def test_an_edit_by_hand_of_any_file_is_found_and_undone(tmp_path, monkeypatch, capsys):
    texts = copy_of_rendered(tmp_path, monkeypatch)
    for path, text in texts.items():
        old, new = EDITS.get(path.name, (text, text + "by hand\n"))
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")
    gone = tmp_path / "tox.ini"
    gone.unlink()
    assert main(["check"]) == 1
    named = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    assert named == [path.relative_to(tmp_path).as_posix() for path in texts]
    assert main(["render"]) == 0
    assert {path: path.read_text(encoding="utf-8") for path in texts} == texts


def test_a_lost_marker_is_named(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text(f"{projects.BEGIN}\nversion = '1'\n", encoding="utf-8")
    (tmp_path / "LICENSE").touch()
    with pytest.raises(MatrixError, match=r"pyproject\.toml"):
        projects.files(MATRIX, tmp_path)


def copy_of_rendered(folder, monkeypatch):
    """Copy the rendered files of the repository, and the files that contain a rendered block, to a folder."""
    texts = {folder / path.relative_to(ROOT): text for path, text in render.render_texts(MATRIX).items()}
    shutil.copy(ROOT / "LICENSE", folder)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for module in ("matrix.render", "matrix.__main__"):
        monkeypatch.setattr(f"{module}.ROOT", folder)
    return texts

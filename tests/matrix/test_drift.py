"""Nothing that follows from matrix.toml was edited by hand, and an edit would be noticed."""

import pytest

from matrix import render
from matrix.data import MatrixError, load
from matrix.lock import missing
from matrix.render import projects

MATRIX = load()
# What needs an index of its own has no lock until someone who knows that index resolves it; see `missing`.
LOCKED = [each for each in MATRIX.environments.values() if each.constraints.exists()]


def test_no_rendered_file_drifted():
    assert render.drifted(MATRIX) == []


@pytest.mark.parametrize("environment", MATRIX.environments.values(), ids=lambda each: each.id)
def test_the_pins_are_locked(environment):
    assert missing(MATRIX, environment) == []


@pytest.mark.parametrize("environment", LOCKED, ids=lambda each: each.id)
def test_a_lock_holds_exact_versions_and_nothing_else(environment):
    lines = environment.constraints.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines, key=lambda line: line.partition("==")[0])
    for line in lines:
        name, same, version = line.partition("==")
        assert name and same and version and not set(line) & set(" +@/;"), line


def test_an_edit_of_a_rendered_block_is_noticed(tmp_path, monkeypatch):
    path = copy_of_core(tmp_path, monkeypatch)
    path.write_text(path.read_text(encoding="utf-8").replace("numpy>=1.18", "numpy>=1.21"), encoding="utf-8")
    assert render.drifted(MATRIX) == [path]
    assert render.render(MATRIX) == [path]
    assert render.drifted(MATRIX) == []


def test_a_lost_marker_is_named(tmp_path, monkeypatch):
    path = copy_of_core(tmp_path, monkeypatch)
    path.write_text(path.read_text(encoding="utf-8").replace(projects.END, ""), encoding="utf-8")
    with pytest.raises(MatrixError, match=r"pyproject\.toml"):
        render.drifted(MATRIX)


def copy_of_core(folder, monkeypatch):
    """The repository's rendered files, in a folder of the test's own; gives the core's pyproject.toml."""
    for path, text in render.rendered(MATRIX).items():
        copy = folder / path.relative_to(render.ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    monkeypatch.setattr("matrix.render.ROOT", folder)
    monkeypatch.setattr("matrix.data.ROOT", folder)
    return folder / "pyproject.toml"

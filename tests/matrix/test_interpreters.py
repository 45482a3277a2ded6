"""Search for a Python interpreter: a working one is returned, and an error names the missing version."""

import sys

import pytest

from matrix.data import MatrixError
from matrix.interpreters import find, folders

HERE = "%d.%d" % sys.version_info[:2]


@pytest.fixture
def _nothing_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))


def put_python(folder, code=0):
    folder.mkdir(parents=True)
    path = folder / f"python{HERE}"
    path.write_text(f'#!/bin/sh\n[ {code} = 0 ] || exit {code}\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("_nothing_installed")
def test_a_missing_interpreter_is_named():
    with pytest.raises(MatrixError, match=r"no python3\.99 on this machine"):
        find("3.99")


@pytest.mark.usefixtures("_nothing_installed")
def test_a_pyenv_interpreter_is_found_behind_its_failing_shim(tmp_path):
    put_python(tmp_path / "path", code=127)
    works = put_python(tmp_path / "pyenv" / "versions" / f"{HERE}.1" / "bin")
    assert find(HERE) == works


@pytest.mark.usefixtures("_nothing_installed")
def test_the_newest_patch_release_comes_first(tmp_path):
    for version in ("3.9.9", "3.9.18", "named"):
        (tmp_path / "pyenv" / "versions" / version / "bin").mkdir(parents=True)
    names = [folder.split("versions")[1].strip("/\\").partition("/")[0] for folder in folders()]
    assert names == ["3.9.18", "3.9.9", "named"]

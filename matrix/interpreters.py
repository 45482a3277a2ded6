"""Python interpreters of this machine: those on PATH, and those of pyenv.

A `python3.7` of pyenv on PATH is a script that fails unless pyenv has activated that version. So each interpreter is
run once before it is returned.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from packaging.version import InvalidVersion, Version

from matrix.data import MatrixError

__all__ = ["find", "folders"]


def find(python: str) -> str:
    """Return the path of the interpreter of a minor version such as `3.7`. Raise a MatrixError if this machine has none."""
    name = f"python{python}"
    for folder in [*os.environ.get("PATH", "").split(os.pathsep), *folders()]:
        path = shutil.which(name, path=folder)
        if path and _is_interpreter(path, python):
            return path
    raise MatrixError(f"There is no {name} on this machine, neither on PATH nor among pyenv's versions. Install it.")


def folders() -> list[str]:
    """Return the folders with the interpreters of pyenv (`versions/*/bin`), the newest version first."""
    paths = [path for root in _pyenv_roots() for path in root.glob("versions/*/bin") if path.is_dir()]
    return [str(path) for path in sorted(paths, key=lambda path: _version(path.parent.name), reverse=True)]


def _pyenv_roots() -> Iterator[Path]:
    """Yield the root folder of pyenv: PYENV_ROOT, else the answer of `pyenv root`, else ~/.pyenv."""
    if root := os.environ.get("PYENV_ROOT"):
        yield Path(root)
    elif pyenv := shutil.which("pyenv"):
        process = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False)
        yield Path(process.stdout.strip() or "~/.pyenv").expanduser()
    else:
        yield Path("~/.pyenv").expanduser()


def _version(name: str) -> Version:
    """Return the version that the name of a folder states; 0 for any other name."""
    try:
        return Version(name)
    except InvalidVersion:  # a named virtual environment among the versions
        return Version("0")


def _is_interpreter(path: str, python: str) -> bool:
    """Whether the file at `path` runs, and is a Python of the minor version `python`."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    process = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return process.returncode == 0 and process.stdout.strip() == python

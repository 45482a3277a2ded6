"""Where the Pythons of this machine are: on PATH, and among pyenv's versions, wherever pyenv lives.

pyenv's own `python3.7` on PATH is a shim that fails unless that version is activated, so it alone proves nothing.
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
    """The interpreter of a minor version such as `3.7`; raises with its name when this machine has none."""
    name = f"python{python}"
    for folder in [*os.environ.get("PATH", "").split(os.pathsep), *folders()]:
        path = shutil.which(name, path=folder)
        if path and _runs(path, python):
            return path
    raise MatrixError(f"no {name} on this machine: neither on PATH nor among pyenv's versions")


def folders() -> list[str]:
    """The bin folders of pyenv's versions, the newest patch release first."""
    found = [path for root in _pyenv_roots() for path in root.glob("versions/*/bin") if path.is_dir()]
    return [str(path) for path in sorted(found, key=lambda path: _version(path.parent.name), reverse=True)]


def _pyenv_roots() -> Iterator[Path]:
    if told := os.environ.get("PYENV_ROOT"):
        yield Path(told)
    elif pyenv := shutil.which("pyenv"):
        done = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False)
        yield Path(done.stdout.strip() or "~/.pyenv").expanduser()
    else:
        yield Path("~/.pyenv").expanduser()


def _version(name: str) -> Version:
    try:
        return Version(name)
    except InvalidVersion:  # a named environment among the versions
        return Version("0")


def _runs(path: str, python: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == python

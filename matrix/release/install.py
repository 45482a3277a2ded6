"""Install every sdist with pip into an empty folder, and compare the installed files with those of the wheel."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from matrix.data import MatrixError

__all__ = ["problems"]

BY_PIP = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")


def problems(folder: Path, backend: str) -> list[str]:
    """Install every sdist in `folder`. Return a text for each installed file that differs from the wheel's file.

    `backend`: the requirement of the build backend, which is installed first. Raise a MatrixError if pip fails.
    """
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "venv", scratch], check=True)
        python = str(Path(scratch, "Scripts" if os.name == "nt" else "bin", "python"))
        _pip(python, backend)
        sdists, target = sorted(folder.glob("*.tar.gz")), Path(scratch, "installed")
        # Sdists for another Python are installed too: their files are compared, not imported.
        options = ["--no-deps", "--no-build-isolation", "--ignore-requires-python", "--no-compile"]
        _pip(python, *options, f"--target={target}", *map(str, sdists))
        return [difference for sdist in sdists for difference in _compare(target, sdist)]


def _compare(target: Path, sdist: Path) -> list[str]:
    """Return a text for each file that differs between a wheel and the installation of its sdist in the folder
    `target`.
    """
    stem = sdist.name.removesuffix(".tar.gz")
    with zipfile.ZipFile(sdist.with_name(f"{stem}-py3-none-any.whl")) as wheel:
        built = _hashes(wheel.read(f"{stem}.dist-info/RECORD").decode())
    installed = _hashes((target / f"{stem}.dist-info" / "RECORD").read_text(encoding="utf-8"))
    names = sorted(name for name in {*built, *installed} if built.get(name) != installed.get(name))
    return [f"{sdist.name}: {name} differs from the wheel's file" for name in names]


def _hashes(record: str) -> dict[str, str]:
    """Return file -> hash from the text of a RECORD.

    Files that pip writes are left out, and commands in bin/, which differ between machines.
    """
    rows = [row for row in csv.reader(record.splitlines()) if row]
    return {
        name: digest for name, digest, _ in rows if Path(name).name not in BY_PIP and not name.startswith((".", "bin/"))
    }


def _pip(python: str, *arguments: str) -> None:
    """Run `pip install` with the interpreter `python`. Raise a MatrixError if it fails."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise MatrixError(f"pip cannot install the sdists:\n{process.stdout}{process.stderr}")

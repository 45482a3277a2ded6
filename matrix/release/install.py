"""Install every sdist with pip into an empty folder, and compare the installed files with those of the wheel."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.utils import parse_sdist_filename

from matrix.data import MatrixError

__all__ = ["problems"]

BY_PIP = ("INSTALLER", "RECORD", "REQUESTED", "direct_url.json")


def problems(folder: Path, backend: str) -> list[str]:
    """Return a text for each installed file that differs from the wheel.

    `backend`: the requirement of the build backend.
    """
    differences = []
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "venv", scratch], check=True)
        python = str(Path(scratch, "Scripts" if os.name == "nt" else "bin", "python"))
        _pip(python, backend)
        for number, sdists in enumerate(_split_by_name(sorted(folder.glob("*.tar.gz")))):
            target = Path(scratch, str(number))
            # Sdists for another Python are installed too: their files are compared, not imported.
            options = ["--no-deps", "--no-build-isolation", "--ignore-requires-python", "--no-compile"]
            _pip(python, *options, f"--target={target}", *map(str, sdists))
            for sdist in sdists:
                differences += _compare(target, sdist)
    return differences


def _split_by_name(sdists: list[Path]) -> Iterator[list[Path]]:
    """Yield groups of sdists in which each distribution occurs once, because pip installs one version of a name at a
    time.
    """
    waiting = sdists
    while waiting:
        batch = {parse_sdist_filename(path.name)[0]: path for path in waiting}
        yield list(batch.values())
        waiting = [path for path in waiting if path not in batch.values()]


def _compare(target: Path, sdist: Path) -> list[str]:
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
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise MatrixError(f"pip cannot install the sdists:\n{process.stdout}{process.stderr}")

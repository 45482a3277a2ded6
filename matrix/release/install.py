"""Every sdist, installed by pip into an empty environment: it gives the files of its wheel."""

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
    """Of all sdists in the folder. `backend`: the requirement of what builds them, once for all."""
    wrong = []
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([sys.executable, "-m", "venv", scratch], check=True)
        python = str(Path(scratch, "Scripts" if os.name == "nt" else "bin", "python"))
        _pip(python, backend)
        for number, sdists in enumerate(_rounds(sorted(folder.glob("*.tar.gz")))):
            target = Path(scratch, str(number))
            # Also those for another Python: what is installed is looked at, not imported.
            asked = ["--no-deps", "--no-build-isolation", "--ignore-requires-python", "--no-compile"]
            _pip(python, *asked, f"--target={target}", *map(str, sdists))
            for sdist in sdists:
                wrong += _compared(target, sdist)
    return wrong


def _rounds(sdists: list[Path]) -> Iterator[list[Path]]:
    """pip installs one version of a name at a time."""
    waiting = sdists
    while waiting:
        now = {parse_sdist_filename(path.name)[0]: path for path in waiting}
        yield list(now.values())
        waiting = [path for path in waiting if path not in now.values()]


def _compared(target: Path, sdist: Path) -> list[str]:
    stem = sdist.name.removesuffix(".tar.gz")
    with zipfile.ZipFile(sdist.with_name(f"{stem}-py3-none-any.whl")) as wheel:
        built = _hashes(wheel.read(f"{stem}.dist-info/RECORD").decode())
    installed = _hashes((target / f"{stem}.dist-info" / "RECORD").read_text(encoding="utf-8"))
    names = sorted(name for name in {*built, *installed} if built.get(name) != installed.get(name))
    return [f"{sdist.name}: {name} is not installed as the wheel has it" for name in names]


def _hashes(record: str) -> dict[str, str]:
    """But for what pip writes, and commands, which it makes for the machine."""
    rows = [row for row in csv.reader(record.splitlines()) if row]
    return {
        name: digest for name, digest, _ in rows if Path(name).name not in BY_PIP and not name.startswith((".", "bin/"))
    }


def _pip(python: str, *arguments: str) -> None:
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MatrixError(f"pip does not install them:\n{done.stdout}{done.stderr}")

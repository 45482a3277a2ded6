"""The test data of an onnx release: from its wheel, and, for the cases that it builds in memory, from its own loader."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List

__all__ = ["FetchError", "loaded_data", "wheel_data"]

# A release is taken as it was built for any of these: the cases inside are the same.
_PYTHONS = ("312", "310", "38", "36")
_PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
)
_DATA = "onnx/backend/test/data/"


class FetchError(Exception):
    """A release could not be fetched; says which, and what the installer said."""


@contextmanager
def wheel_data(release: str) -> Iterator[Path]:
    """A folder with the data of this release, a folder per suite. Nothing of the wheel is imported."""
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(_download(release, folder)) as wheel:
            wheel.extractall(folder, [name for name in wheel.namelist() if name.startswith(_DATA)])
        yield Path(folder, _DATA)


@contextmanager
def loaded_data(release: str) -> Iterator[Path]:
    """The same for the node cases of a release that holds them in code: it is asked in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(next(Path(folder).glob("[bS]*/python*")))
        _run([python, "-m", "pip", "install", "--quiet", f"onnx=={release}", "pillow"], release)
        data = Path(folder, "data")
        _run([python, str(Path(__file__).with_name("dump.py")), str(data)], release)
        yield data


def _download(release: str, folder: str) -> Path:
    said: List[str] = []
    for python in _PYTHONS:
        try:
            _run(_download_command(release, python, folder), release)
        except FetchError as error:
            said.append(str(error))
        else:
            return next(Path(folder).glob("*.whl"))
    raise FetchError(said[0])


def _download_command(release: str, python: str, folder: str) -> List[str]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--dest", folder, "--python-version", python]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    return [*command, f"onnx=={release}"]


def _run(command: List[str], release: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FetchError(f"onnx {release}: {done.stderr.strip() or done.stdout.strip()}")

"""Fetch the test data of onnx releases from their wheels.

Some releases build their node cases in memory. Their own loader writes these cases, in an environment with that
release.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator, List, Mapping, Sequence, Tuple

__all__ = ["FetchError", "Files", "fetch_data"]

Files = Mapping[str, bytes]
"""Path, such as `node/test_abs/model.onnx`, -> contents of a file of a release."""

# Python and platform tags of the wheels, in the order in which they are tried. All wheels of a release have the same cases.
_PYTHONS = ("312", "38", "310", "36")
_PLATFORMS = (
    "manylinux_2_28_x86_64",
    "manylinux_2_17_x86_64",
    "manylinux2014_x86_64",
    "manylinux2010_x86_64",
    "manylinux1_x86_64",
)
_DATA = "onnx/backend/test/data/"
_AT_ONCE = 4


class FetchError(Exception):
    """A release or a file could not be fetched. The text names it and has the message of pip."""


def fetch_data(releases: Sequence[str]) -> Iterator[Tuple[str, Files]]:
    """Yield (release, its files of test data) for each release, in this order. Four releases are downloaded at a time.

    Raises FetchError for a release that cannot be downloaded or installed.
    """
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            yield from zip(releases, pool.map(lambda release: _fetch_data(release, Path(folder, release)), releases))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _fetch_data(release: str, folder: Path) -> Files:
    """Download a release into a new folder, and return its files of test data.

    If the wheel has no node cases, `_load_data` makes them.
    """
    folder.mkdir()
    data: Files = _Wheel(_download(release, folder))
    if not any(name.startswith("node/") for name in data):
        return {**_load_data(release, folder), **data}
    return data


class _Wheel(Mapping[str, bytes]):
    """The files of test data in a wheel, as a mapping path -> content. A file is read when it is looked up.

    The wheel is not unpacked, because this would take longer than every other step.
    """

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        names = (name for name in self._zip.namelist() if name.startswith(_DATA) and not name.endswith("/"))
        self._names = {name[len(_DATA) :]: name for name in names}

    def __getitem__(self, name: str) -> bytes:
        return self._zip.read(self._names[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _load_data(release: str, folder: Path) -> Files:
    """Return the node cases of a release that builds them in memory.

    The release is installed in an environment of its own, where dump.py writes the cases as files.
    """
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    python = str(next(environment.glob("[bS]*/python*")))
    _run([python, "-m", "pip", "install", "--quiet", f"onnx=={release}", "pillow"], release)
    data = folder / "data"
    _run([python, str(Path(__file__).with_name("dump.py")), str(data)], release)
    return {path.relative_to(data).as_posix(): path.read_bytes() for path in data.glob("**/*") if path.is_file()}


def _download(release: str, folder: Path) -> Path:
    """Download a wheel of a release into the folder, and return its path.

    Raises FetchError, with the first message of pip, if the release has a wheel for none of `_PYTHONS`.
    """
    messages: List[str] = []
    for python in _PYTHONS:
        try:
            _run(_download_command(release, python, folder), release)
        except FetchError as error:
            messages.append(str(error))
        else:
            return next(folder.glob("*.whl"))
    raise FetchError(messages[0])


def _download_command(release: str, python: str, folder: Path) -> List[str]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(folder), "--python-version", python]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    return [*command, f"onnx=={release}"]


def _run(command: List[str], release: str) -> None:
    """Run a command. Raises FetchError, with the release and the output of the command, if it fails."""
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        raise FetchError(f"onnx {release}: {process.stderr.strip() or process.stdout.strip()}")

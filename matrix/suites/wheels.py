"""The test data of onnx releases: out of their wheels, and, for the cases that one builds in memory, from its own loader."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator, List, Mapping, Sequence, Tuple

__all__ = ["FetchError", "Files", "data_of"]

Files = Mapping[str, bytes]
"""What a release has, by its path: `node/test_abs/model.onnx`."""

# A release is taken as it was built for any of these: the cases inside are the same.
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
    """A release could not be fetched; says which, and what the installer said."""


def data_of(releases: Sequence[str]) -> Iterator[Tuple[str, Files]]:
    """The data of each release, in this order; the next ones are on their way while one is worked on."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(_AT_ONCE) as pool:
        try:
            yield from zip(releases, pool.map(lambda release: _data(release, Path(folder, release)), releases))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _data(release: str, folder: Path) -> Files:
    folder.mkdir()
    data: Files = _Wheel(_download(release, folder))
    if not any(name.startswith("node/") for name in data):
        return {**_loaded(release, folder), **data}
    return data


class _Wheel(Mapping[str, bytes]):
    """Read where it is: to unpack tens of thousands of small files takes longer than anything else here."""

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


def _loaded(release: str, folder: Path) -> Files:
    """The node cases of a release that holds them in code: it is asked in an environment of its own."""
    environment = folder / "environment"
    venv.create(environment, with_pip=True)
    python = str(next(environment.glob("[bS]*/python*")))
    _run([python, "-m", "pip", "install", "--quiet", f"onnx=={release}", "pillow"], release)
    data = folder / "data"
    _run([python, str(Path(__file__).with_name("dump.py")), str(data)], release)
    return {path.relative_to(data).as_posix(): path.read_bytes() for path in data.glob("**/*") if path.is_file()}


def _download(release: str, folder: Path) -> Path:
    said: List[str] = []
    for python in _PYTHONS:
        try:
            _run(_download_command(release, python, folder), release)
        except FetchError as error:
            said.append(str(error))
        else:
            return next(folder.glob("*.whl"))
    raise FetchError(said[0])


def _download_command(release: str, python: str, folder: Path) -> List[str]:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(folder), "--python-version", python]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    return [*command, f"onnx=={release}"]


def _run(command: List[str], release: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FetchError(f"onnx {release}: {done.stderr.strip() or done.stdout.strip()}")

"""Single files out of wheels: fetched once, their wheel's digest checked, kept in the cache and nowhere else."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

from matrix.real.catalog import Package
from matrix.suites.place import cache_dir
from matrix.suites.wheels import FetchError

__all__ = ["Download", "download", "files"]

Download = Callable[[Package, Path], Path]
"""Puts the wheel of a package into a folder, and gives its path."""

# Nothing of it is run: the files inside are the same for every Python and processor that it is built for, and this one suits all.
_PYTHON = "312"
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def files(package: Package, members: Iterable[str], fetch: Download | None = None) -> dict[str, Path]:
    """Where in the cache these files of a package are; those that are not there yet are fetched."""
    folder = cache_dir() / "real" / f"{package.name}-{package.version}-{package.sha256[:16]}"
    places = {member: folder / member for member in members}
    missing = [member for member, place in places.items() if not place.exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            wheel = (fetch or download)(package, Path(scratch))
            _check(package, wheel)
            for member in missing:
                _extract(package, wheel, member, Path(scratch), places[member])
    return places


def download(package: Package, folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += ["--dest", str(folder), "--python-version", _PYTHON, *(f"--platform={each}" for each in _PLATFORMS)]
    command.append(f"{package.name}=={package.version}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = list(folder.glob("*.whl"))
    if done.returncode or len(found) != 1:
        said = (done.stderr.strip() or done.stdout.strip() or "no wheel came").splitlines()[-1]
        raise FetchError(f"{package.name} {package.version} could not be downloaded: {said}")
    return found[0]


def _check(package: Package, wheel: Path) -> None:
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != package.sha256:
        raise FetchError(
            f"{wheel.name} has the digest {digest}, matrix.toml says {package.sha256}: it is not the file that was looked at"
        )


def _extract(package: Package, wheel: Path, member: str, scratch: Path, place: Path) -> None:
    try:
        with zipfile.ZipFile(wheel) as archive:
            made = Path(archive.extract(member, scratch / "files"))
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{package.name} {package.version}: {wheel.name}: {error}") from error
    place.parent.mkdir(parents=True, exist_ok=True)
    made.replace(place)

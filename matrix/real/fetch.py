"""Fetch single files of published wheels into the cache, once. The SHA-256 of the wheel is checked first."""

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

__all__ = ["Download", "download", "fetch_files", "package_folder"]

Download = Callable[[Package, Path], Path]
"""Function that downloads the wheel of a package into a folder and returns the path of the wheel."""

# The tags of the wheel to download. Only its data files are read, which are the same for all Pythons and processors.
_PYTHON = "312"
_PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def fetch_files(package: Package, members: Iterable[str], fetch: Download | None = None) -> dict[str, Path]:
    """Return member -> path in the cache, for these files of a package. Files that the cache lacks are fetched.

    `fetch` replaces `download` in tests. Raise FetchError if the download fails, or the digest of the wheel differs.
    """
    folder = package_folder(package)
    paths = {member: folder / member for member in members}
    missing = [member for member, path in paths.items() if not path.exists()]
    if missing:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            wheel = (fetch or download)(package, Path(scratch))
            _check_digest(package, wheel)
            for member in missing:
                _extract(package, wheel, member, Path(scratch), paths[member])
    return paths


def package_folder(package: Package) -> Path:
    """Return the folder of the cache that holds files of the package. It may be missing."""
    return cache_dir() / "real" / f"{package.name}-{package.version}-{package.sha256[:16]}"


def download(package: Package, folder: Path) -> Path:
    """Download the wheel of a package into `folder` with pip, and return its path.

    Raises FetchError if pip fails, or if the folder then has not exactly one wheel.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += [
        "--dest",
        str(folder),
        "--python-version",
        _PYTHON,
        *(f"--platform={platform}" for platform in _PLATFORMS),
    ]
    command.append(f"{package.name}=={package.version}")
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(folder.glob("*.whl"))
    if process.returncode or len(wheels) != 1:
        message = (process.stderr.strip() or process.stdout.strip() or "no wheel came").splitlines()[-1]
        raise FetchError(f"{package.name} {package.version} could not be downloaded: {message}")
    return wheels[0]


def _check_digest(package: Package, wheel: Path) -> None:
    """Raise FetchError if the SHA-256 of the wheel is not that of the package."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if digest != package.sha256:
        raise FetchError(
            f"{wheel.name} has the digest {digest}, but matrix.toml has {package.sha256}. It is not the reviewed file."
        )


def _extract(package: Package, wheel: Path, member: str, scratch: Path, path: Path) -> None:
    """Extract a file of a wheel to `path`, by way of the folder `scratch`.

    Raise FetchError if the wheel lacks the file, or is no zip archive.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            extracted = Path(archive.extract(member, scratch / "files"))
    except (KeyError, zipfile.BadZipFile) as error:
        raise FetchError(f"{package.name} {package.version}: {wheel.name}: {error}") from error
    path.parent.mkdir(parents=True, exist_ok=True)
    extracted.replace(path)

"""Build an sdist and a wheel of every distribution of this repository, in one process.

python -m matrix.release.build FOLDER     in a copy of the repository, which is the current folder
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from matrix.data import ROOT, MatrixError, load

__all__ = ["build", "changed_files", "commit_time", "find_differences"]

OTHER_TIME = 1_000_000_000


def changed_files() -> list[str]:
    """Return a line of `git status` for each tracked file that differs from the commit."""
    return _git("status", "--porcelain", "--untracked-files=no").decode().splitlines()


def commit_time() -> int:
    """Return the time of the commit, in seconds since 1970."""
    return int(_git("log", "-1", "--format=%ct"))


def build(folder: Path) -> list[str]:
    """Build the commit into `folder`, and a second time with another path, time zone and umask. Return the differences.

    An empty list means that the build is reproducible.
    """
    with tempfile.TemporaryDirectory() as scratch:
        _build(Path(scratch, "one"), folder, 0o022, PYTHONHASHSEED="1", TZ="UTC")
        second_folder = Path(scratch, "built again")
        copy = Path(scratch, "a longer", "path")
        _build(copy, second_folder, 0o077, touch=OTHER_TIME, PYTHONHASHSEED="2", TZ="Asia/Kolkata", LC_ALL="C")
        return find_differences(folder, second_folder)


def find_differences(first_folder: Path, second_folder: Path) -> list[str]:
    """Return a text for each file that differs between two folders, or that one of them lacks."""
    first, second = _digests(first_folder), _digests(second_folder)
    names = sorted({*first, *second})
    return [
        f"{name}: another build of the same commit differs" for name in names if first.get(name) != second.get(name)
    ]


def _digests(folder: Path) -> dict[str, str]:
    """Return name -> SHA-256 of each file in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def _build(copy: Path, folder: Path, umask: int, touch: int | None = None, **env: str) -> None:
    """Extract the commit into `copy`, and build its distributions into `folder`.

    `umask`: the file mode mask of the build. `touch`: the modification time of the files; None leaves that of the
    commit. `env`: more variables of the build. Raises MatrixError if the build fails.
    """
    previous = os.umask(umask)
    try:
        copy.mkdir(parents=True)
        folder.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(_git("archive", "HEAD"))) as archive:
            for member in archive:
                member.mode = (0o777 if member.mode & 0o100 or member.isdir() else 0o666) & ~umask
                archive.extract(member, copy, filter="tar")
        for path in copy.rglob("*") if touch else ():
            os.utime(path, (touch or 0, touch or 0))
        variables = {**os.environ, **env, "SOURCE_DATE_EPOCH": str(commit_time())}
        command = [sys.executable, "-m", "matrix.release.build", str(folder.resolve())]
        if subprocess.run(command, cwd=copy, env=variables, check=False).returncode:
            raise MatrixError("The commit does not build; the output above says why.")
    finally:
        os.umask(previous)


def _git(*arguments: str) -> bytes:
    """Return the output of a git command in this repository. CalledProcessError is raised if the command fails."""
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def main(arguments: list[str]) -> int:
    """Build an sdist and a wheel of every distribution into the folder `arguments[0]`. Return 0."""
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    for distribution in load().distributions.values():
        for builder in (SdistBuilder(str(distribution.root)), WheelBuilder(str(distribution.root))):
            for _ in builder.build(directory=arguments[0], versions=["standard"]):
                pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

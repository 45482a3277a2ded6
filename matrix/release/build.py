"""All distributions of this repository, sdist and wheel, built in one process.

python -m matrix.release.build FOLDER     from the copy of the repository that is the current folder
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

from matrix.data import ROOT, Matrix, MatrixError, load
from matrix.packages import write

__all__ = ["build", "changed", "differing", "roots", "time_of_commit"]

OTHER_TIME = 1_000_000_000


def roots(matrix: Matrix) -> list[Path]:
    """A folder with a pyproject.toml for each distribution: those of matrix.toml, and the branches."""
    return [*(each.root for each in matrix.distributions.values()), *write(matrix)]


def changed() -> list[str]:
    """The files that are not as the commit has them; it is the commit that is built."""
    return _git("status", "--porcelain", "--untracked-files=no").decode().splitlines()


def time_of_commit() -> int:
    return int(_git("log", "-1", "--format=%ct"))


def build(folder: Path) -> list[str]:
    """What the commit builds, in the folder; gives what another build of it elsewhere, at another time, makes otherwise."""
    with tempfile.TemporaryDirectory() as scratch:
        _build(Path(scratch, "one"), folder, 0o022, PYTHONHASHSEED="1", TZ="UTC")
        again = Path(scratch, "built again")
        copy = Path(scratch, "a longer", "path")
        _build(copy, again, 0o077, touch=OTHER_TIME, PYTHONHASHSEED="2", TZ="Asia/Kolkata", LC_ALL="C")
        return differing(folder, again)


def differing(one: Path, other: Path) -> list[str]:
    first, second = _digests(one), _digests(other)
    names = sorted({*first, *second})
    return [
        f"{name}: another build of the same commit differs" for name in names if first.get(name) != second.get(name)
    ]


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def _build(copy: Path, folder: Path, umask: int, touch: int | None = None, **env: str) -> None:
    """The commit, in a copy of its own; `touch`: with files of that age."""
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
        told = {**os.environ, **env, "SOURCE_DATE_EPOCH": str(time_of_commit())}
        command = [sys.executable, "-m", "matrix.release.build", str(folder.resolve())]
        if subprocess.run(command, cwd=copy, env=told, check=False).returncode:
            raise MatrixError("the commit does not build")
    finally:
        os.umask(previous)


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True).stdout


def main(arguments: list[str]) -> int:
    from hatchling.builders.sdist import SdistBuilder
    from hatchling.builders.wheel import WheelBuilder

    for root in roots(load()):
        for builder in (SdistBuilder(str(root)), WheelBuilder(str(root))):
            for _ in builder.build(directory=arguments[0], versions=["standard"]):
                pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

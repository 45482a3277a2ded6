"""Whether the cache of cases holds what the code here would put into it."""

from __future__ import annotations

import hashlib

from matrix.data import ROOT, Matrix
from matrix.suites.place import cache_dir

__all__ = ["Stamp", "suites", "zoo"]


class Stamp:
    """One file per name in the cache, with the digest of what was asked for and of the code that made it."""

    def __init__(self, name: str, room: str, *asked: object) -> None:
        """`room` is the folder under matrix/ whose code does it."""
        code = [path.read_bytes() for path in sorted((ROOT / "matrix" / room).glob("*.py"))]
        self.path = cache_dir() / f"{name}.stamp"
        self.digest = hashlib.sha256(repr((asked, code)).encode()).hexdigest()

    def fresh(self) -> bool:
        return self.path.exists() and self.path.read_text(encoding="ascii") == self.digest

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.digest, encoding="ascii")


def suites(matrix: Matrix) -> Stamp:
    return Stamp("suites", "suites", matrix.suites, matrix.releases)


def zoo(matrix: Matrix, name: str = "zoo", size: str = "small") -> Stamp:
    return Stamp(name, "zoo", size, matrix.tools["zoo"])

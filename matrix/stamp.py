"""Stamps of the cache of cases: whether it holds what the code here would generate."""

from __future__ import annotations

import hashlib

from matrix.data import ROOT, Matrix
from matrix.suites.place import cache_dir

__all__ = ["Stamp", "suites", "zoo"]


class Stamp:
    """A file in the cache with the digest of the inputs and of the code of its contents."""

    def __init__(self, name: str, code_folder: str, *inputs: object) -> None:
        """`code_folder` is the folder under matrix/ whose code fills the cache."""
        code = [path.read_bytes() for path in sorted((ROOT / "matrix" / code_folder).glob("*.py"))]
        self.path = cache_dir() / f"{name}.stamp"
        self.digest = hashlib.sha256(repr((inputs, code)).encode()).hexdigest()

    def fresh(self) -> bool:
        """Whether the cache was written with these inputs and this code."""
        return self.path.exists() and self.path.read_text(encoding="ascii") == self.digest

    def write(self) -> None:
        """Record that the cache is written."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.digest, encoding="ascii")


def suites(matrix: Matrix) -> Stamp:
    """Return the stamp of the recorded suites."""
    return Stamp("suites", "suites", matrix.suites, matrix.releases)


def zoo(matrix: Matrix, name: str = "zoo", size: str = "small") -> Stamp:
    """Return the stamp of the zoo in a size."""
    return Stamp(name, "zoo", size, matrix.tools["zoo"])

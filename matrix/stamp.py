"""Stamps of the cache of cases: whether the cached cases are those that the code and the inputs here would generate."""

from __future__ import annotations

import hashlib

from matrix.data import ROOT, Matrix
from matrix.suites.place import cache_dir

__all__ = ["Stamp", "suites", "zoo"]


class Stamp:
    """A file in the cache that holds a digest of the inputs and of the code from which the cached cases were generated."""

    def __init__(self, name: str, code_folder: str, *inputs: object) -> None:
        """Compute the digest of `inputs` and of the code in matrix/<code_folder>, which fills the cache."""
        code = [path.read_bytes() for path in sorted((ROOT / "matrix" / code_folder).glob("*.py"))]
        self.path = cache_dir() / f"{name}.stamp"
        self.digest = hashlib.sha256(repr((inputs, code)).encode()).hexdigest()

    def fresh(self) -> bool:
        """Whether the stored digest equals that of the inputs and the code here, so that the cache is up to date."""
        return self.path.exists() and self.path.read_text(encoding="ascii") == self.digest

    def write(self) -> None:
        """Store the digest. Call it after the cache is filled."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(self.digest, encoding="ascii")


def suites(matrix: Matrix) -> Stamp:
    """Return the stamp of the recorded suites."""
    return Stamp("suites", "suites", matrix.suites, matrix.releases)


def zoo(matrix: Matrix, name: str = "zoo", size: str = "small") -> Stamp:
    """Return the stamp of the exported zoo models. `name`: the suite's name in the cache; `size`: "small" or "full"."""
    return Stamp(name, "zoo", size, matrix.tools["zoo"])

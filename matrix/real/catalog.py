"""`[real]` of matrix.toml: the packages, and which files of them are networks."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from matrix.data import ROOT, MatrixError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["Network", "Package", "networks"]


@dataclass(frozen=True)
class Package:
    """One wheel of the package registry."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Network:
    """One file of a package, and how it is converted and fed."""

    name: str
    package: Package
    onnx: str
    tflite: str | None = None
    """The package's own file of the same network."""
    shapes: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """What the file has settled, as `convert` takes them."""
    fed: dict[str, list[int]] = field(default_factory=dict)
    """The shapes of what is fed where the file leaves them open."""
    ranges: dict[str, list[float]] = field(default_factory=dict)
    """What is fed is drawn evenly from [low, high), where what `verify` makes up would be unlike what it was trained on."""


def networks(path: Path = ROOT / "matrix" / "matrix.toml") -> list[Network]:
    raw = tomllib.loads(path.read_text(encoding="utf-8"))["real"]
    try:
        packages = {name: Package(name, **entry) for name, entry in raw["packages"].items()}
        found = [_network(name, packages, **entry) for name, entry in raw["networks"].items()]
    except (KeyError, TypeError) as error:
        raise MatrixError(f"[real] of {path.name}: {error}") from error
    unused = sorted(packages.keys() - {each.package.name for each in found})
    wrong = [f"real package {name}: no network is from it" for name in unused]
    wrong += [
        f"real package {each.name}: sha256 must be 64 hexadecimal digits"
        for each in packages.values()
        if not re.fullmatch("[0-9a-f]{64}", each.sha256)
    ]
    if wrong:
        raise MatrixError("\n".join(wrong))
    return found


def _network(name: str, packages: dict[str, Package], package: str, **entry: Any) -> Network:
    if package not in packages:
        raise MatrixError(f"real network {name}: no package {package}")
    return Network(name, packages[package], **entry)

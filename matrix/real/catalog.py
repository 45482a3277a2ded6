"""The contents of `[real]` in matrix.toml: packages, and the files in them that are trained networks."""

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

__all__ = ["Network", "Package", "load_networks"]


@dataclass(frozen=True)
class Package:
    """A wheel of the package index, with the SHA-256 of its file."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Network:
    """A trained network in a package: its file, the arguments of its conversion, and its inputs."""

    name: str
    package: Package
    onnx: str
    tflite: str | None = None
    """The path in the package of its own .tflite file of the same network, or None."""
    shapes: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """The arguments `shapes` and `values` of `convert`, which fix inputs of the network."""
    fed: dict[str, list[int]] = field(default_factory=dict)
    """Input -> its shape in the measurement, for inputs with symbolic sizes in the converted file."""
    ranges: dict[str, list[float]] = field(default_factory=dict)
    """Input -> [low, high) from which its values are drawn, where the defaults of `verify` are unlike the training data."""


def load_networks(path: Path = ROOT / "matrix" / "matrix.toml") -> list[Network]:
    """Return the networks in `[real]` of matrix.toml, in their order. Raise a MatrixError for a wrong entry."""
    raw = tomllib.loads(path.read_text(encoding="utf-8"))["real"]
    try:
        packages = {name: Package(name, **entry) for name, entry in raw["packages"].items()}
        found_networks = [_network(name, packages, **entry) for name, entry in raw["networks"].items()]
    except (KeyError, TypeError) as error:
        raise MatrixError(f"[real] of {path.name}: {error}") from error
    unused = sorted(packages.keys() - {network.package.name for network in found_networks})
    problems = [f"real package {name}: no network is from it" for name in unused]
    problems += [
        f"real package {package.name}: sha256 must be 64 hexadecimal digits"
        for package in packages.values()
        if not re.fullmatch("[0-9a-f]{64}", package.sha256)
    ]
    if problems:
        raise MatrixError("\n".join(problems))
    return found_networks


def _network(name: str, packages: dict[str, Package], package: str, **entry: Any) -> Network:
    """Build a network from its entry. Raise a MatrixError if its package has no entry."""
    if package not in packages:
        raise MatrixError(f"real network {name}: no package {package}")
    return Network(name, packages[package], **entry)

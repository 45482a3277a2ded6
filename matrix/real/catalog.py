"""Contents of `[real]` in matrix.toml: the packages, and those of their files that are networks."""

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
    """A wheel of the package registry."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True)
class Network:
    """A file of a package, with the arguments of its conversion and its inputs."""

    name: str
    package: Package
    onnx: str
    tflite: str | None = None
    """The package's own .tflite file of the same network."""
    shapes: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    """The shapes and values that are fixed in the file, as arguments of `convert`."""
    fed: dict[str, list[int]] = field(default_factory=dict)
    """The shapes of inputs that are symbolic in the file."""
    ranges: dict[str, list[float]] = field(default_factory=dict)
    """Inputs drawn uniformly from [low, high), where the defaults of `verify` are unlike the training data."""


def load_networks(path: Path = ROOT / "matrix" / "matrix.toml") -> list[Network]:
    """Read and validate the networks. Raises MatrixError."""
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
    if package not in packages:
        raise MatrixError(f"real network {name}: no package {package}")
    return Network(name, packages[package], **entry)

"""What a bench is given, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Figure, Ratio

__all__ = ["Findings", "Missing", "Network", "Setting"]


class Network(NamedTuple):
    """A network in the forms that the benches need."""

    name: str
    fixed: Path
    """One image, normalisation folded by the exporter: what a converter to .tflite is given."""
    dynamic: Path
    """An open batch size, normalisation as layers of its own."""
    small: Path
    """A small sibling, for what a tool does once per process."""
    shape: tuple[int, ...]
    keras: str
    """Its name in keras.applications."""


class Missing(Exception):
    """Something that a bench needs is not here; the text names it and says how to get it."""


@dataclass
class Setting:
    """What all benches share."""

    pythons: dict[str, str]
    """Id of an environment -> its interpreter."""
    networks: list[Network]
    scratch: Path
    rounds: int
    threads: tuple[int, ...] = (1, 2)

    def python(self, prefix: str) -> tuple[str, str]:
        """The (id, interpreter) of the environment of one kind: `tflite-`, `onnx2tf` …"""
        for id_, python in sorted(self.pythons.items()):
            if id_.startswith(prefix):
                if not Path(python).exists():
                    raise Missing(f"the environment {id_} has no interpreter; `nox -s bench` makes it")
                return id_, python
        raise Missing(f"no environment {prefix}*: give it as --python ID=INTERPRETER, or run `nox -s bench`")


@dataclass
class Findings:
    ratios: list[Ratio] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """What could not be measured, each with its reason."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)

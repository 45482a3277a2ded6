"""Types of a bench: its settings, its networks and its findings."""

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
    """Batch size 1, normalisation folded by the exporter: the input of a converter to .tflite."""
    dynamic: Path
    """A symbolic batch size, normalisation as layers of its own."""
    small: Path
    """A small variant, to warm a tool up before it is measured."""
    shape: tuple[int, ...]
    keras: str
    """Its name in keras.applications."""


class Missing(Exception):
    """A file or an environment that a bench needs is missing; the text names it and says how to get it."""


@dataclass
class Setting:
    """Settings that all benches share."""

    pythons: dict[str, str]
    """Id of an environment -> its interpreter."""
    networks: list[Network]
    scratch: Path
    rounds: int
    threads: tuple[int, ...] = (1, 2)

    def python(self, prefix: str) -> tuple[str, str]:
        """Return the (id, interpreter) of the first environment whose id starts with `prefix`: `tflite-`, `onnx2tf` …

        Raises Missing if no environment matches, or its interpreter does not exist.
        """
        for id_, python in sorted(self.pythons.items()):
            if id_.startswith(prefix):
                if not Path(python).exists():
                    raise Missing(f"The environment {id_} has no interpreter. Run `nox -s bench`, which creates it.")
                return id_, python
        raise Missing(f"There is no environment {prefix}*. Pass it as --python ID=INTERPRETER, or run `nox -s bench`.")


@dataclass
class Findings:
    """Results of the benches, which each of them extends."""

    ratios: list[Ratio] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """The measurements that failed, each with its reason."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)

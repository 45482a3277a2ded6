"""Types that all benches share: settings, networks and findings."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from benchmarks.measure import Figure, Ratio

__all__ = ["Findings", "Missing", "Network", "Setting"]


class Network(NamedTuple):
    """A network with its ONNX files: of a fixed batch size, of a symbolic batch size, and with few channels."""

    name: str
    fixed: Path
    """Batch size 1; the exporter has folded batch normalisation. This file is converted to .tflite."""
    dynamic: Path
    """Symbolic batch size; batch normalisations are nodes."""
    small: Path
    """A variant with few channels, for the warm-up of a tool before it is measured."""
    shape: tuple[int, ...]
    keras: str
    """The name of the network in keras.applications."""


class Missing(Exception):
    """A file or an environment that a bench needs does not exist. The text names it and says how to create it."""


@dataclass
class Setting:
    """Settings that all benches share.

    - networks: the networks whose conversion and latency are measured
    - scratch: a folder for files of this run
    - rounds: the number of rounds of a latency bench
    - threads: the numbers of threads with which latencies are measured
    """

    pythons: dict[str, str]
    """Id of an environment -> the path of its interpreter."""
    networks: list[Network]
    scratch: Path
    rounds: int
    threads: tuple[int, ...] = (1, 2)

    def python(self, prefix: str) -> tuple[str, str]:
        """Return (id, interpreter) of the first environment, by id, whose id starts with `prefix` (`tflite-`,
        `onnx2tf`).

        Raise Missing if no environment matches, or its interpreter does not exist.
        """
        for id_, python in sorted(self.pythons.items()):
            if id_.startswith(prefix):
                if not Path(python).exists():
                    raise Missing(f"The environment {id_} has no interpreter. Run `nox -s bench`, which creates it.")
                return id_, python
        raise Missing(f"There is no environment {prefix}*. Pass it as --python ID=INTERPRETER, or run `nox -s bench`.")


@dataclass
class Findings:
    """The results of all benches. Each bench appends to the lists."""

    ratios: list[Ratio] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    """A text for each measurement that failed, with the reason."""
    environments: dict[str, dict[str, str]] = field(default_factory=dict)

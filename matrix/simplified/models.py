"""The models that are simplified: cases of the cached suites, and the trained networks of packages in the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matrix.real.catalog import Network, load_networks
from matrix.real.fetch import package_folder
from matrix.simplified.summary import REAL
from matrix.suites.cache import Case, read_index

__all__ = ["SUITES", "Source", "choose_sources"]

SUITES = ("zoo", "light", "zoo-full", REAL)
UNBOUNDED = 1e9
"""The growth for the light models: they compute their weights, and the peers fold these without a limit."""


@dataclass(frozen=True)
class Source:
    """A model to simplify.

    - read_feeds: function that returns the inputs of each run, by name
    - growth: the factor by which onnx-compat may make the file grow
    """

    name: str
    path: Path
    read_feeds: Callable[[], list[dict[str, Any]]]
    growth: float = 1.1


def choose_sources(suites: Sequence[str], names: Sequence[str] = ()) -> Iterator[Source]:
    """Yield the models of the suites, as far as they are in the cache.

    Cases that draw random numbers, or that repeat the model of an earlier case, are left out. `names`: only models
    whose name contains one of these texts; () stands for all.
    """
    for suite in suites:
        for source in _cached_networks() if suite == REAL else _cached_cases(suite):
            if not names or any(name in source.name for name in names):
                yield source


def _cached_cases(suite: str) -> Iterator[Source]:
    """Yield the cases of a cached suite, without random models and without cases that share an earlier model."""
    for case in read_index(suite):
        if case.folder == case.id and "random" not in case.tags:
            yield Source(case.id, case.model, _case_feeds(case), UNBOUNDED if suite == "light" else 1.1)


def _case_feeds(case: Case) -> Callable[[], list[dict[str, Any]]]:
    """Return a function that returns the recorded inputs of each data set of a case, by name."""
    return lambda: [data.inputs for data in case.data_sets()]


def _cached_networks() -> Iterator[Source]:
    """Yield the trained networks of packages whose files are in the cache."""
    for network in load_networks():
        path = package_folder(network.package) / network.onnx
        if path.exists():
            yield Source(f"{REAL}/{network.name}", path, _network_feeds(network, path))


def _network_feeds(network: Network, path: Path) -> Callable[[], list[dict[str, Any]]]:
    """Return a function that returns generated inputs of the network at `path`: a single feed in a list."""
    from benchmarks.child.real_inputs import generate_inputs

    return lambda: [generate_inputs(str(path), network.shapes, network.values, network.fed, network.ranges)]

"""Number of cells that run at once on this machine, and number of pytest-xdist workers for each.

Each worker imports the framework and collects all tests, and a cell is installed on one core. So each cell has one
worker, and as many cells run at once as there are cores, as far as the memory allows. With fewer cells than cores, a cell
has several workers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Plan", "cores", "memory", "plan"]

GIGABYTES = 2.5
"""The memory that a worker needs, for a framework and the largest network of the suites."""


@dataclass(frozen=True)
class Plan:
    """The numbers of a run on this machine.

    `jobs`: the number of cells at once. `workers`: the number of pytest-xdist workers of each cell.
    """

    jobs: int
    workers: int


def plan(cells: int, jobs: int | None, cores: int, gigabytes: float) -> Plan:
    """Return the plan for `cells` cells on a machine with these cores and this memory.

    `jobs`: the user's choice, or None.
    """
    affordable = max(1, int(min(cores, gigabytes / GIGABYTES)))
    if jobs is None:
        jobs = affordable
    jobs = max(1, min(jobs, cells))
    return Plan(jobs, max(1, min(cores // jobs, affordable // jobs)))


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> float:
    """Return the memory of the machine, or of its container, in gigabytes; infinity if it is unknown."""
    try:
        bytes_ = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")
    for path in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        try:
            bytes_ = min(bytes_, int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # the file is missing, or contains "max"
            continue
    return bytes_ / 1e9

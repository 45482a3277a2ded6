"""Number of cells at once, and of workers for each.

Each worker of a cell imports the framework and collects all tests. Two workers per cell waste the least of a core; several
cells at once fill the machine, as far as its memory allows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Plan", "cores", "memory", "plan"]

WORKERS = 2
GIGABYTES = 2.5
"""The memory of a worker: a framework, and the largest network of the suites."""


@dataclass(frozen=True)
class Plan:
    """The number of cells at once, and of workers for each."""

    jobs: int
    workers: int


def plan(cells: int, jobs: int | None, cores: int, gigabytes: float) -> Plan:
    """Return the plan for these cells on this machine; `jobs` overrides the number of cells at once."""
    affordable = max(1, int(min(cores, gigabytes / GIGABYTES)))
    if jobs is None:
        jobs = max(1, min(cores // WORKERS, affordable // WORKERS))
    jobs = max(1, min(jobs, cells))
    return Plan(jobs, max(1, min(cores // jobs, affordable // jobs)))


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> float:
    """Return the gigabytes of the machine, or of its container; infinity if they are unknown."""
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

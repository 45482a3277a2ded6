"""How many cells at once, and with how many workers each.

Each worker of a cell imports the framework and collects all tests by itself: two workers a cell waste the least of a
core, and several cells at once are what fills the machine, as far as its memory goes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Plan", "cores", "memory", "plan"]

WORKERS = 2
GIGABYTES = 2.5
"""What a worker may need: a framework, and the largest network of the suites."""


@dataclass(frozen=True)
class Plan:
    jobs: int
    workers: int


def plan(cells: int, jobs: int | None, cores: int, gigabytes: float) -> Plan:
    """For so many cells on such a machine; `jobs`, if told, is what is done."""
    affordable = max(1, int(min(cores, gigabytes / GIGABYTES)))
    if jobs is None:
        jobs = max(1, min(cores // WORKERS, affordable // WORKERS))
    jobs = max(1, min(jobs, cells))
    return Plan(jobs, max(1, min(cores // jobs, affordable // jobs)))


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> float:
    """In gigabytes: the machine's, or what a container may use of it. Where it cannot be told, no limit."""
    try:
        bytes_ = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")
    for path in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        try:
            bytes_ = min(bytes_, int(path.read_text(encoding="ascii")))
        except (OSError, ValueError):  # not there, or "max"
            continue
    return bytes_ / 1e9

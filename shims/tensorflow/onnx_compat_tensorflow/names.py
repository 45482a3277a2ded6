"""ONNX names, which may hold anything, as names that TensorFlow takes."""

import re
from typing import Dict, Iterable, List, Set

__all__ = ["argument_names", "operation_names", "scope"]


def scope(name: str) -> str:
    """A name scope for a node; readable, and never the name of an input or output."""
    cleaned = re.sub(r"/+", "/", re.sub(r"[^A-Za-z0-9_./-]", "_", name)).strip("/")
    return cleaned if re.match(r"[A-Za-z0-9.]", cleaned) else "node" + cleaned


def operation_names(names: Iterable[str]) -> Dict[str, str]:
    """Each of these names as the name of an operation: itself where TensorFlow takes it, else the nearest that it does.

    TensorFlow tells names apart without regard to upper and lower case.
    """
    return _distinct(names, r"[^A-Za-z0-9_./-]", "value")


def argument_names(names: Iterable[str]) -> Dict[str, str]:
    """Each of these names as the name of a Python argument."""
    return _distinct(names, r"[^A-Za-z0-9_]", "input_")


def _distinct(names: Iterable[str], foreign: str, prefix: str) -> Dict[str, str]:
    wanted: List[str] = list(names)
    given: Dict[str, str] = {}
    taken: Set[str] = set()
    for name in sorted(wanted, key=lambda one: re.search(foreign, one) is not None):  # those that can stay come first
        plain = re.sub(foreign, "_", name)
        if not re.match(r"[A-Za-z]", plain):
            plain = prefix + plain
        unique, count = plain, 1
        while unique.lower() in taken:
            unique, count = "%s_%d" % (plain, count), count + 1
        taken.add(unique.lower())
        given[name] = unique
    return {name: given[name] for name in wanted}

"""Environment: which packages are installed, and which extras this Python can install. No package is imported."""

import os
import re
import sys
from dataclasses import dataclass
from importlib import util
from importlib.machinery import ModuleSpec
from typing import Any, Dict, List, Optional, Sequence, Tuple

from onnx_compat.discovery.offers import OFFERS, Offer

__all__ = [
    "MODULES",
    "Installed",
    "distribution_of",
    "entry_points",
    "find_module",
    "folder_without_code",
    "install_command",
    "metadata",
    "offers",
    "other_python_hint",
    "python_range",
]

#: Shim of this library -> the modules of its framework; one of them is enough. The shim need not be installed.
MODULES = {
    "tf1": ("tensorflow",),
    "tf2": ("tensorflow",),
    "keras": ("keras",),
    "tflite": ("ai_edge_litert", "tflite_runtime"),
}

#: Group -> the folders of `sys.path` with their modification times, and the entry points that they had then.
_ENTRY_POINTS: Dict[str, Tuple[Tuple[Tuple[str, Optional[int]], ...], List[Any]]] = {}


@dataclass(frozen=True)
class Installed:
    """A distribution (a pip package) that is installed. `str()` gives `tensorflow 2.21.0`."""

    name: str
    version: str
    record: str  # the text of its RECORD: the list of its files

    def __str__(self) -> str:
        return "%s %s" % (self.name, self.version)


def metadata() -> Any:
    """Return importlib.metadata, or on Python 3.7 the package importlib_metadata."""
    if sys.version_info >= (3, 8):
        from importlib import metadata as module  # novermin - Python 3.7 has the package below
    else:
        import importlib_metadata as module
    return module


def entry_points(group: str) -> List[Any]:
    """Return a list of the entry points in the group `group`, of all installed packages. Two may have the same name.

    The result is cached. The metadata is read again after a change of `sys.path` or of a folder in it, as by an
    installation.
    """
    folders = tuple((folder, _modification_time(folder)) for folder in sys.path)
    if group not in _ENTRY_POINTS or _ENTRY_POINTS[group][0] != folders:
        points = metadata().entry_points()
        selected = points.select(group=group) if hasattr(points, "select") else points.get(group, ())
        _ENTRY_POINTS[group] = folders, list(selected)
    return list(_ENTRY_POINTS[group][1])


def _modification_time(folder: str) -> Optional[int]:
    """Return the time of the last change of a folder in nanoseconds. None: the folder cannot be read."""
    try:
        return os.stat(folder or os.curdir).st_mtime_ns
    except OSError:
        return None


def find_module(module: str) -> Optional[ModuleSpec]:
    """Return the import spec of a top-level module, without importing it. None: the module is not installed."""
    try:
        return util.find_spec(module)
    except (ImportError, ValueError):
        return None


def folder_without_code(module: str) -> Optional[str]:
    """Return the folder of a top-level module that is a folder without `__init__.py` (a namespace package).

    An interrupted installation or an uninstallation leaves such a folder. Of several folders, return the first. None:
    the module has code, or is not installed.
    """
    spec = find_module(module)
    if spec is None or spec.origin not in (None, "namespace") or not spec.submodule_search_locations:
        return None
    return next(iter(spec.submodule_search_locations))


def distribution_of(module: str) -> Optional[Installed]:
    """Return the installed distribution whose files include `__init__.py` of the package `module`, or None.

    Example: tensorflow -> tensorflow-cpu 2.21.0.

    The name of the distribution may differ from that of the module. Underscores in it are replaced by hyphens.
    """
    for distribution in metadata().distributions():
        record = distribution.read_text("RECORD") or ""
        if re.search("^%s/__init__.py," % re.escape(module), record, re.MULTILINE):
            return Installed(distribution.metadata["Name"].replace("_", "-"), distribution.version, record)
    return None


def offers(shim: str) -> List[Offer]:
    """Return the extras that install a shim with its framework on this Python, in the order of `OFFERS`."""
    this_python = "%d.%d" % sys.version_info[:2]
    return [offer for offer in OFFERS if offer.shim == shim and this_python in offer.pythons]


def install_command(shim: str) -> Optional[str]:
    """Return the pip command that installs a shim with its framework, or None if this Python has no extra for the shim.

    The command has the first extra that allows every version of the framework. The further extras of this kind follow
    as text: "pip install 'onnx-compat[keras]', or its [keras-jax]". If no extra allows every version, the command has
    the last of `offers`.
    """
    available = offers(shim)
    extras = [offer.extra for offer in available if not offer.minor] or [offer.extra for offer in available[-1:]]
    if not extras:
        return None
    alternatives = ", ".join("[%s]" % extra for extra in extras[1:])
    return "pip install 'onnx-compat[%s]'" % extras[0] + (", or its %s" % alternatives if alternatives else "")


def other_python_hint(shim: str) -> str:
    """Return the advice to use another Python, with the versions of Python for which a shim's framework has wheels."""
    known = {python for offer in OFFERS if offer.shim == shim for python in offer.pythons}
    pythons = sorted(known, key=_minor_number)
    wheels = (
        "its framework has wheels for Python %s" % python_range(pythons) if pythons else "its framework has no wheels"
    )
    return "use another Python: %s, not for %d.%d" % (wheels, *sys.version_info[:2])


def python_range(pythons: Sequence[str]) -> str:
    """Return minor versions of Python as text: "3.7", "3.7 to 3.10", or "3.7, 3.9" if a version between is missing."""
    numbers = [_minor_number(python) for python in pythons]
    if len(numbers) > 1 and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return "%s to %s" % (pythons[0], pythons[-1])
    return ", ".join(pythons)


def _minor_number(python: str) -> int:
    """Return the second number of a version of Python: 10 for "3.10"."""
    return int(python.split(".")[1])

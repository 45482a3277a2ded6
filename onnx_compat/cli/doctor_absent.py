"""The shims of the library that are not installed: what would bring them here, beside the frameworks that are."""

import sys
from typing import List, NamedTuple, Optional

from onnx_compat import __version__
from onnx_compat.discovery import environment, selection
from onnx_compat.discovery.offers import OFFERS

__all__ = ["Absent", "absentees"]


class Absent(NamedTuple):
    """A shim that is not installed; without a hint it cannot be."""

    name: str
    reason: str
    hint: Optional[str]


def absentees() -> List[Absent]:
    here = selection.installed()
    return [_absent(name) for name in environment.MODULES if name not in here]


def _absent(name: str) -> Absent:
    for module in environment.MODULES[name]:
        framework = environment.provider(module) if environment.find_module(module) is not None else None
        if framework is not None and _serves(name, framework.version):
            reason = "not installed, its framework is: %s" % framework
            # Not the extra: it would bring the framework once more where that goes by another name.
            return Absent(name, reason, "pip install 'onnx-compat-%s==%s'" % (name, __version__))
    hint = environment.install(name)
    if hint:
        return Absent(name, "not installed", hint)
    pythons = [each.pythons for each in OFFERS if each.shim == name and not each.minor]
    there = ", ".join(pythons[0]) if pythons else "none"
    return Absent(name, "not installed, and not for Python %d.%d but for %s" % (*sys.version_info[:2], there), None)


def _serves(shim: str, version: str) -> bool:
    """Whether a version of the framework is of this shim's generation: one that an exact branch has."""
    return version.split(".", maxsplit=1)[0] in {
        each.minor.split(".")[0] for each in OFFERS if each.shim == shim and each.minor
    }

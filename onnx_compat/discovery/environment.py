"""What is installed in this Python, and what could be; nothing of it is imported."""

import re
import sys
from dataclasses import dataclass
from importlib import util
from importlib.machinery import ModuleSpec
from typing import Any, List, Optional

from onnx_compat.discovery.offers import OFFERS, Offer

__all__ = ["MODULES", "Installed", "find_module", "install", "leftover", "metadata", "offers", "provider"]

#: The modules of the frameworks of the shims that come with the library; those need not be installed to be asked for.
MODULES = {
    "tf1": ("tensorflow",),
    "tf2": ("tensorflow",),
    "keras": ("keras",),
    "tflite": ("ai_edge_litert", "tflite_runtime"),
}


@dataclass(frozen=True)
class Installed:
    """An installed distribution."""

    name: str
    version: str
    record: str  # the list of its files, as it is stored

    def __str__(self) -> str:
        return "%s %s" % (self.name, self.version)


def metadata() -> Any:
    """The standard library's, or on Python 3.7 the package that it comes from."""
    if sys.version_info >= (3, 8):
        from importlib import metadata as found  # novermin - Python 3.7 has the package below
    else:
        import importlib_metadata as found
    return found


def find_module(module: str) -> Optional[ModuleSpec]:
    """Where a module would be imported from."""
    try:
        return util.find_spec(module)
    except (ImportError, ValueError):
        return None


def leftover(module: str) -> Optional[str]:
    """The folder of a package that has no code in it: what an uninstallation left behind, or an interrupted one made."""
    found = find_module(module)
    if found is None or found.origin not in (None, "namespace") or not found.submodule_search_locations:
        return None
    return next(iter(found.submodule_search_locations))


def provider(module: str) -> Optional[Installed]:
    """The distribution that a module belongs to; TensorFlow goes by many names."""
    for each in metadata().distributions():
        record = each.read_text("RECORD") or ""
        if re.search("^%s/__init__.py," % re.escape(module), record, re.MULTILINE):
            return Installed(each.metadata["Name"].replace("_", "-"), each.version, record)
    return None


def offers(shim: str) -> List[Offer]:
    """What brings a shim with its framework on this Python."""
    here = "%d.%d" % sys.version_info[:2]
    return [each for each in OFFERS if each.shim == shim and here in each.pythons]


def install(shim: str) -> Optional[str]:
    """How a shim of the library is installed with its framework; None if that is nothing for this Python."""
    found = offers(shim)
    short = [each.extra for each in found if not each.minor] or [each.extra for each in found[-1:]]
    if not short:
        return None
    others = ", ".join("[%s]" % each for each in short[1:])
    return "pip install 'onnx-compat[%s]'" % short[0] + (", or its %s" % others if others else "")

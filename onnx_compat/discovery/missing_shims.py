"""Shims of the library that are not installed, or do not work: how to get each of them.

The Python versions that such a shim needs are named too.
"""

import sys
from typing import List, NamedTuple, Optional

from onnx_compat import __version__
from onnx_compat.discovery import environment, selection
from onnx_compat.discovery.offers import OFFERS

__all__ = ["MissingShim", "how_to_get", "missing_shims"]


class MissingShim(NamedTuple):
    """A shim that is not installed: its name, why it is not installed, and the command that installs it.

    `hint` is the command, or None if this Python cannot install the shim.
    """

    name: str
    reason: str
    hint: Optional[str]


def missing_shims() -> List[MissingShim]:
    """Return a `MissingShim` for each shim of the library that is not installed. The order is that of `MODULES`."""
    installed = selection.installed_shims()
    return [_describe_missing(name) for name in environment.MODULES if name not in installed]


def how_to_get(name: str) -> str:
    """Return what to do to get a shim of the library that is needed and cannot be used, as a hint.

    An installed shim is repaired, and not installed again.
    """
    if name in selection.installed_shims():
        selection.probe(name)
        return selection.hint(name) or "`onnx-compat doctor` shows what the shim %s needs" % name
    missing = _describe_missing(name)
    return missing.hint or "the shim %s is %s" % (name, missing.reason)


def _describe_missing(name: str) -> MissingShim:
    """Return a `MissingShim` for a shim of the library that is not installed. The first case that holds decides:

    - A framework that the shim supports is installed: the hint installs the shim alone.
    - This Python has an extra for the shim: the hint installs the extra.
    - Otherwise the hint is None, and the reason names the versions of Python that have an extra.
    """
    for module in environment.MODULES[name]:
        framework = environment.distribution_of(module) if environment.find_module(module) is not None else None
        if framework is not None and _is_same_generation(name, framework.version):
            reason = "not installed, its framework is: %s" % framework
            # Not the extra: it would install the framework again if that was installed by a distribution of another name.
            return MissingShim(name, reason, "pip install 'onnx-compat-%s==%s'" % (name, __version__))
    hint = environment.install_command(name)
    if hint:
        return MissingShim(name, "not installed", hint)
    versions = [offer.pythons for offer in OFFERS if offer.shim == name and not offer.minor]
    supported = ", ".join(versions[0]) if versions else "none"
    reason = "not installed, and not for Python %d.%d but for %s" % (*sys.version_info[:2], supported)
    return MissingShim(name, reason, None)


def _is_same_generation(shim: str, version: str) -> bool:
    """Return whether the shim supports the major version of this framework version: tf1 supports 1.15.5, not 2.21.0."""
    return version.split(".", maxsplit=1)[0] in {
        offer.minor.split(".")[0] for offer in OFFERS if offer.shim == shim and offer.minor
    }

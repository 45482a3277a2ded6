"""Which shims are here, which of them work, and which one is used.

The order: what the caller names; `ONNX_COMPAT_SHIM`; the shim of a framework that is imported already; the first
installed one whose probe succeeds; the reference. `decide` gives the reason with the choice.
"""

import os
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

from onnx_compat import __version__
from onnx_compat.errors import ShimError
from onnx_compat.shim import Probe, Shim

__all__ = ["Decision", "ShimInfo", "decide", "find", "installed", "shims"]

GROUP = "onnx_compat.shims"
REFERENCE = "reference"
#: Who is asked first; shims of third parties follow by name, the reference comes last.
_PREFERENCE = ("tf2", "tf1", "keras", "tflite")


class ShimInfo(NamedTuple):
    """A shim as `shims()` and `onnx-compat doctor` show it."""

    name: str
    available: bool
    reason: str
    framework: str
    version: str
    features: Mapping[str, Any]
    selected: bool


class Decision(NamedTuple):
    """The shim to use and why."""

    name: str
    reason: str


_LOADED: Dict[str, Shim] = {}
_PROBED: Dict[str, Probe] = {}
#: The modules that a probe has imported: they say nothing about what the user works with.
_OURS: Set[str] = set()


def entry_points(group: str) -> Dict[str, Any]:
    """What installed packages offer in a group, by name."""
    if sys.version_info >= (3, 8):
        from importlib import metadata  # novermin - Python 3.7 has the package below
    else:
        import importlib_metadata as metadata
    found: Any = metadata.entry_points()
    points = found.select(group=group) if hasattr(found, "select") else found.get(group, ())
    return {point.name: point for point in points}


def installed() -> Dict[str, Any]:
    """The entry points of the shims that are installed, by name, in the order in which they are asked."""
    by_name = entry_points(GROUP)
    ranked = [name for name in _PREFERENCE if name in by_name]
    return {name: by_name[name] for name in ranked + sorted(set(by_name) - set(ranked))}


def find(name: str) -> Shim:
    """The shim of this name, loaded; its framework is not touched yet."""
    if name not in _LOADED:
        if name == REFERENCE:
            from onnx_compat.reference.shim import SHIM

            _LOADED[name] = SHIM
        else:
            _LOADED[name] = _load(name)
    return _LOADED[name]


def _load(name: str) -> Shim:
    points = installed()
    if name not in points:
        raise ShimError(
            "there is no shim '%s'; installed are %s" % (name, ", ".join([*points, REFERENCE])),
            hint="pip install 'onnx-compat[%s]'" % name if name in _PREFERENCE else None,
            shim=name,
        )
    try:
        shim = points[name].load()
    except Exception as error:
        raise ShimError("it cannot be imported: %s: %s" % (type(error).__name__, error), shim=name) from error
    version = getattr(sys.modules.get(type(shim).__module__.split(".")[0]), "__version__", None)
    if version is not None and name in _PREFERENCE and version != __version__:
        raise ShimError(
            "its version is %s, that of onnx-compat is %s; they only work in the same version" % (version, __version__),
            hint="pip install 'onnx-compat[%s]==%s'" % (name, __version__),
            shim=name,
        )
    if not isinstance(shim, Shim):
        raise ShimError("its entry point gives %s, not a Shim" % type(shim).__name__, shim=name)
    if shim.name != name:
        raise ShimError(
            "its entry point is named '%s', itself '%s'; both must be the same" % (name, shim.name), shim=name
        )
    return shim


def probe(name: str) -> Probe:
    """What the shim found when it looked for its framework; asked once a process."""
    if name not in _PROBED:
        before = set(sys.modules)
        try:
            _PROBED[name] = find(name).probe()
        except ShimError as error:
            return Probe(False, error.reason)
        except Exception as error:  # noqa: BLE001 (a broken framework may raise anything, and must not break the others)
            _PROBED[name] = Probe(False, "the probe failed: %s: %s" % (type(error).__name__, error))
        _OURS.update(set(sys.modules) - before)
    return _PROBED[name]


def decide(name: Optional[str] = None) -> Decision:
    """The shim to use. One that is asked for by name and does not work is an error, never replaced."""
    asked, why = (
        (name, "asked for by name") if name else (os.environ.get("ONNX_COMPAT_SHIM"), "ONNX_COMPAT_SHIM is set")
    )
    if asked:
        found = probe(asked)
        if not found.available:
            find(asked)
            raise ShimError(found.reason, hint="onnx-compat doctor tells what each shim needs", shim=asked)
        return Decision(asked, why)
    for candidate, module in _imported():
        if probe(candidate).available:
            return Decision(candidate, "%s is imported already" % module)
    for candidate in installed():
        if probe(candidate).available:
            return Decision(candidate, "the first installed shim that works")
    return Decision(REFERENCE, "no installed shim works here")


def _imported() -> List[Tuple[str, str]]:
    """The shims whose framework the user has imported, with the module that tells."""
    found: List[Tuple[str, str]] = []
    for name in installed():
        try:
            modules = find(name).modules
        except ShimError:
            continue
        found.extend((name, module) for module in modules if module in sys.modules and module not in _OURS)
    return found


def shims() -> List[ShimInfo]:
    """Every shim: whether it works here and why, its framework, what that can do, and which one would be used."""
    try:
        chosen: Optional[str] = decide().name
    except ShimError:
        chosen = None
    return [
        ShimInfo(name, found.available, found.reason, found.framework, found.version, found.features, name == chosen)
        for name, found in ((name, probe(name)) for name in [*installed(), REFERENCE])
    ]

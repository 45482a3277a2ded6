"""Which shims are here, which of them work, and which one is used.

The order: what the caller names; `ONNX_COMPAT_SHIM`; the shim of a framework that is imported already; the first
installed one whose probe succeeds; the reference. `decide` gives the reason with the choice.
"""

import os
import sys
import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from onnx_compat import __version__
from onnx_compat.discovery import diagnosis, environment
from onnx_compat.discovery.child_probe import Outcome, died, mark_probe, probe_in_child
from onnx_compat.errors import ShimError
from onnx_compat.shim.interface import Probe, Shim

__all__ = ["Decision", "ShimInfo", "decide", "find", "hint", "installed", "learn", "shims"]

GROUP = "onnx_compat.shims"
REFERENCE = "reference"
#: Who is asked first; shims of third parties follow by name, the reference comes last.
_PREFERENCE = ("tf2", "tf1", "keras", "tflite")


class ShimInfo(NamedTuple):
    """A shim as `shims()` and `onnx-compat doctor` show it.

    Attributes:
        name: The name of the shim.
        available: Whether its framework works here.
        reason: Why it works or not.
        framework: The name of the framework.
        version: The version of the framework.
        features: What the framework can do, as far as it was probed.
        selected: Whether `prepare` uses it if no shim is named.
        hint: What to do if it does not work.

    Examples:
        >>> [info.framework for info in onnx_compat.shims() if info.name == "reference"]
        ['numpy']
    """

    name: str
    available: bool
    reason: str
    framework: str
    version: str
    features: Mapping[str, Any]
    selected: bool
    hint: Optional[str] = None


class Decision(NamedTuple):
    """The shim to use and why; and those that were asked before it, with why they were not taken."""

    name: str
    reason: str
    passed: Mapping[str, str] = {}


_LOADED: Dict[str, Shim] = {}
_PROBED: Dict[str, Probe] = {}
#: What to do about a shim that does not work.
_HINTS: Dict[str, Optional[str]] = {}
#: The shims whose probe ends the process, or never comes back.
_DEADLY: Dict[str, Outcome] = {}
#: The modules that a probe has imported: they say nothing about what the user works with.
_OURS: Set[str] = set()


def entry_points(group: str) -> Dict[str, Any]:
    """What installed packages offer in a group, by name."""
    found: Any = environment.metadata().entry_points()
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
        known = environment.install(name) or "use another Python: there is no build for this one"
        raise ShimError(
            "there is no shim '%s'; installed are %s" % (name, ", ".join([*points, REFERENCE])),
            hint=known if name in _PREFERENCE else None,
            shim=name,
        )
    _spare(name)
    try:
        with mark_probe(name):
            shim = points[name].load()
    except (Exception, SystemExit) as error:
        raise ShimError(
            "it cannot be imported: %s" % diagnosis.import_error_text(error),
            hint="pip install --force-reinstall --no-deps 'onnx-compat-%s==%s'" % (name, __version__)
            if name in _PREFERENCE
            else "report this to whoever made the shim: %s" % getattr(points[name], "value", name),
            shim=name,
        ) from error
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


def _spare(name: str) -> None:
    """Refuse what has ended an earlier process, and ends one that is started to see about it."""
    if name not in _DEADLY and died(name):
        outcome = probe_in_child(name, environment.MODULES.get(name, ()))
        if outcome is not None and not outcome.ended:
            _DEADLY[name] = outcome
    if name in _DEADLY:
        outcome = _DEADLY[name]
        raise ShimError(outcome.probe.reason, hint=outcome.hint, shim=name)


def probe(name: str) -> Probe:
    """What the shim found when it looked for its framework; asked once a process."""
    if name in _PROBED:
        return _PROBED[name]
    before = set(sys.modules)
    found, advice = examine(name)
    _OURS.update(set(sys.modules) - before)
    _HINTS[name] = advice
    if name in _LOADED:  # one that is not there, or broken itself, may be mended meanwhile
        _PROBED[name] = found
    return found


def hint(name: str) -> Optional[str]:
    """What to do about a shim that was probed and does not work."""
    return _HINTS.get(name)


def learn(name: str, outcome: Outcome) -> None:
    """Take over what a process of its own has found."""
    _PROBED[name], _HINTS[name] = outcome.probe, outcome.hint


def examine(name: str) -> Tuple[Probe, Optional[str]]:
    """Probe the shim now, in this process; the reason in one line, and what to do about it."""
    modules: Sequence[str] = environment.MODULES.get(name, ())
    try:
        shim = find(name)
        modules = shim.modules
        _spare(name)
        if name == REFERENCE or all(module in sys.modules for module in modules):
            found = shim.probe()
        else:
            with mark_probe(name):
                found = shim.probe()
    except ShimError as error:
        reason, advice = diagnosis.diagnose(name, error.reason)
        return Probe(False, reason), error.hint or advice
    except (Exception, SystemExit) as error:  # noqa: BLE001 (a broken framework raises anything; the others still serve)
        found = Probe(False, "the probe failed: %s" % diagnosis.import_error_text(error))
    if found.available:
        return found, None
    # A folder without code imports as an empty module, and fails late, in words that mislead.
    left = [folder for folder in map(environment.leftover, modules) if folder]
    if left:
        found = found._replace(reason="its framework is installed in part only: there is no code in %s" % left[0])
    reason, advice = diagnosis.diagnose(name, found.reason, modules)
    return found._replace(reason=reason), advice


def decide(name: Optional[str] = None) -> Decision:
    """The shim to use. One that is asked for by name and does not work is an error, never replaced."""
    asked, why = (
        (name, "asked for by name") if name else (os.environ.get("ONNX_COMPAT_SHIM"), "ONNX_COMPAT_SHIM is set")
    )
    if asked:
        found = probe(asked)
        if not found.available:
            raise ShimError(
                found.reason, hint=hint(asked) or "onnx-compat doctor tells what each shim needs", shim=asked
            )
        return Decision(asked, why)
    passed: Dict[str, str] = {}
    imported = _imported()
    for candidate in [*imported, *(each for each in installed() if each not in imported)]:
        found = probe(candidate)
        if not found.available:
            passed[candidate] = found.reason
            _warn(candidate, found)
        elif candidate in imported:
            return Decision(candidate, "%s is imported already" % imported[candidate], passed)
        else:
            return Decision(candidate, "the first installed shim that works", passed)
    return Decision(REFERENCE, "no installed shim works here", passed)


_WARNED: Set[str] = set()


def _warn(name: str, found: Probe) -> None:
    """Of a framework that is here and broken the user must hear: the next one may be far slower."""
    modules = _LOADED[name].modules if name in _LOADED else environment.MODULES.get(name, ())
    here = any(environment.find_module(module) is not None for module in modules)
    if found.version or not here or name in _WARNED:  # another shim's framework, or none at all
        return
    _WARNED.add(name)
    text = "onnx-compat passes over the shim %s: %s" % (name, found.reason)
    warnings.warn("%s\n  to do: %s" % (text, hint(name)) if hint(name) else text, RuntimeWarning, stacklevel=4)


def _imported() -> Dict[str, str]:
    """The shims whose framework the user has imported, with the module that tells; what was begun first comes first: Keras
    imports its back end, and some TensorFlow imports Keras.
    """
    found: Dict[str, str] = {}
    # A module gets its place when it is complete, so what a package begins with tells, not the package itself.
    order: Dict[str, int] = {}
    for place, module in enumerate(list(sys.modules)):
        order.setdefault(module.partition(".")[0], place)
    for name in installed():
        if name in _PROBED and not _PROBED[name].available:
            continue
        try:
            modules = find(name).modules
        except ShimError:
            continue
        here = [module for module in modules if module in sys.modules and module not in _OURS]
        if here:
            found[name] = min(here, key=lambda module: order[module.partition(".")[0]])
    return dict(sorted(found.items(), key=lambda item: order[item[1].partition(".")[0]]))


def shims() -> List[ShimInfo]:
    """List every installed shim, and whether it works here.

    Returns:
        An entry for each shim, in the order in which they are preferred; the reference is the last.

    Examples:
        >>> [info.available for info in onnx_compat.shims() if info.name == "reference"]
        [True]
    """
    try:
        chosen: Optional[str] = decide().name
    except ShimError:
        chosen = None
    return [
        ShimInfo(
            name,
            found.available,
            found.reason,
            found.framework,
            found.version,
            found.features,
            name == chosen,
            hint(name),
        )
        for name, found in ((name, probe(name)) for name in [*installed(), REFERENCE])
    ]

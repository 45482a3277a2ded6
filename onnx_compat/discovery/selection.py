"""Selection: list the installed shims, probe them, and decide which of them is used.

The first of these decides: the name from the caller; `ONNX_COMPAT_SHIM`; the shim of an imported framework; the first
installed shim whose probe succeeds; the shim `onnx`, if onnxruntime is installed; the reference. `decide` returns the
reason with the choice.
"""

import difflib
import os
import sys
import warnings
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from onnx_compat import __version__
from onnx_compat.discovery import diagnosis, environment
from onnx_compat.discovery.child_probe import Outcome, has_died, mark_probe, probe_in_child
from onnx_compat.errors import ShimError
from onnx_compat.shim.forks import note_step
from onnx_compat.shim.interface import Probe, Shim

__all__ = ["Decision", "ShimInfo", "decide", "find", "hint", "installed_shims", "shims", "store_probe"]

GROUP = "onnx_compat.shims"
REFERENCE = "reference"
ONNX = "onnx"
#: The order of the shims. Shims of third parties follow, sorted by name; the reference is the last.
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
    """The shim to use, and why. `passed`: each shim that was tried before -> why it does not work."""

    name: str
    reason: str
    passed: Mapping[str, str] = {}


_LOADED: Dict[str, Shim] = {}
_PROBED: Dict[str, Probe] = {}
#: Shim -> what to do about it if it does not work, or None.
_HINTS: Dict[str, Optional[str]] = {}
#: The shims whose probe kills the process, or times out.
_DEADLY: Dict[str, Outcome] = {}
#: The modules that probes have imported. Unlike the user's imports, they do not show which framework the user works
#: with.
_OURS: Set[str] = set()


def installed_shims() -> Dict[str, Any]:
    """Return shim name -> entry point for the installed shims, without the reference. Nothing is imported.

    The order of the dict is the order of preference: tf2, tf1, keras, tflite, then shims of third parties by name.
    """
    by_name = {point.name: point for point in environment.entry_points(GROUP)}
    preferred = [name for name in _PREFERENCE if name in by_name]
    return {name: by_name[name] for name in preferred + sorted(set(by_name) - set(preferred))}


def core_shims() -> List[str]:
    """Return the names of the shims of the core, in the order of preference: `onnx` and the reference.

    `onnx` is left out if onnxruntime is not installed.
    """
    return [ONNX, REFERENCE] if environment.find_module("onnxruntime") is not None else [REFERENCE]


def all_shims() -> List[str]:
    """Return the names of all shims that are present, in the order of preference."""
    return [*installed_shims(), *core_shims()]


def find(name: str) -> Shim:
    """Load a shim by its name, without importing its framework. A loaded shim is cached for the life of the process.

    Raises ShimError if the shim is not installed or cannot be loaded (see `_load`).
    """
    if name not in _LOADED:
        if name == REFERENCE:
            from onnx_compat.reference.shim import SHIM

            _LOADED[name] = SHIM
        elif name == ONNX:
            from onnx_compat.onnx_shim.shim import SHIM as ONNX_SHIM

            _LOADED[name] = ONNX_SHIM
        else:
            _LOADED[name] = _load(name)
    return _LOADED[name]


def _load(name: str) -> Shim:
    """Load a shim from its entry point, without the cache. Raises a ShimError in these cases:

    - The entry point is missing, cannot be imported, or gives no `Shim` of this name.
    - A probe of the shim is known to kill its process, or to reach the time limit (see `_refuse_deadly`).
    - It is a shim of this project, and its version differs from that of onnx-compat.
    """
    points = installed_shims()
    if name not in points:
        install_hint = environment.install_command(name) or environment.other_python_hint(name)
        close = difflib.get_close_matches(name, [*all_shims(), *_PREFERENCE], 1)
        suggestion = "did you mean '%s'?" % close[0] if close else None
        raise ShimError(
            "there is no shim '%s'; installed are %s" % (name, ", ".join(all_shims())),
            hint=install_hint if name in _PREFERENCE else suggestion,
            shim=name,
        )
    _refuse_deadly(name)
    try:
        with mark_probe(name):
            shim = points[name].load()
    except (Exception, SystemExit) as error:
        raise ShimError(
            "it cannot be imported: %s" % diagnosis.import_error_text(error),
            hint="pip install --force-reinstall --no-deps 'onnx-compat-%s==%s'" % (name, __version__)
            if name in _PREFERENCE
            else "report this to the author of the shim: %s" % getattr(points[name], "value", name),
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


def _refuse_deadly(name: str) -> None:
    """Raise a ShimError if a probe of this shim killed an earlier process, and now fails in a child process as well.

    The probe fails if it kills the child process, or reaches the time limit. Later calls for this shim raise the
    ShimError again, without a new probe.

    Without a failure, nothing is raised.
    """
    if name not in _DEADLY and has_died(name):
        outcome = probe_in_child(name, environment.MODULES.get(name, ()))
        if outcome is not None and not outcome.ended:
            _DEADLY[name] = outcome
    if name in _DEADLY:
        outcome = _DEADLY[name]
        raise ShimError(outcome.probe.reason, hint=outcome.hint, shim=name)


def probe(name: str) -> Probe:
    """Return the result of a shim's probe: whether its framework works, and why. The framework is imported.

    After an error, or for an unknown name, `Probe.available` is False: nothing is raised. The result is cached: a shim
    is probed once in a process. A shim that cannot be loaded is tried again at each call.
    """
    if name in _PROBED:
        return _PROBED[name]
    modules_before = set(sys.modules)
    result, advice = examine(name)
    _OURS.update(set(sys.modules) - modules_before)
    _HINTS[name] = advice
    if name in _LOADED:  # a shim that cannot be loaded may be installed or repaired while this process runs
        _PROBED[name] = result
        if result.available:
            note_step(_LOADED[name], "probe")
    return result


def hint(name: str) -> Optional[str]:
    """Return what to do about a shim whose probe failed.

    None: the shim works, was not probed, or no remedy is known.
    """
    return _HINTS.get(name)


def store_probe(name: str, outcome: Outcome) -> None:
    """Store the outcome of a probe in a child process, so that `probe(name)` returns it without another probe."""
    _PROBED[name], _HINTS[name] = outcome.probe, outcome.hint


def examine(name: str) -> Tuple[Probe, Optional[str]]:
    """Probe a shim now, in this process, without the cache of `probe`. Return (a `Probe`, the remedy or None).

    The remedy is None if the shim works, or if no remedy is known. The reason of a failure is a single line.
    Errors of the shim or of its framework are not raised: the `Probe` has them as its reason.
    """
    modules: Sequence[str] = environment.MODULES.get(name, ())
    try:
        shim = find(name)
        modules = shim.modules
        _refuse_deadly(name)
        if name == REFERENCE or all(module in sys.modules for module in modules):
            result = shim.probe()
        else:
            with mark_probe(name):
                result = shim.probe()
    except ShimError as error:
        reason, advice = diagnosis.diagnose(name, error.reason)
        return Probe(False, reason), error.hint or advice
    except (Exception, SystemExit) as error:  # noqa: BLE001 (a broken framework may raise any error; the other shims still work)
        result = Probe(False, "the probe failed: %s" % diagnosis.import_error_text(error))
    if result.available:
        return result, None
    # A folder without code imports as an empty module. It fails later, with a misleading error.
    folders_without_code = [folder for folder in map(environment.folder_without_code, modules) if folder]
    if folders_without_code:
        result = result._replace(
            reason="its framework is installed in part only: there is no code in %s" % folders_without_code[0]
        )
    reason, advice = diagnosis.diagnose(name, result.reason, modules)
    return result._replace(reason=reason), advice


def decide(name: Optional[str] = None) -> Decision:
    """Return a `Decision`: the shim to use, and why.

    `name` requests a shim; without `name`, the variable `ONNX_COMPAT_SHIM` does. Raises a ShimError if the requested
    shim does not work.

    Without a request, the first shim that works is returned, in this order:

    - the shims whose framework the user has imported already
    - the other installed shims
    - the shim `onnx`, if onnxruntime is installed
    - the reference

    A RuntimeWarning names each shim in this order that is not used because its installed framework is broken. A shim is
    named once in a process.
    """
    requested_name, why = (
        (name, "asked for by name") if name else (os.environ.get("ONNX_COMPAT_SHIM"), "ONNX_COMPAT_SHIM is set")
    )
    if requested_name:
        result = probe(requested_name)
        if not result.available:
            raise ShimError(
                result.reason,
                hint=hint(requested_name) or "`onnx-compat doctor` shows what each shim needs",
                shim=requested_name,
            )
        return Decision(requested_name, why)
    passed: Dict[str, str] = {}
    imported = _imported_shims()
    for candidate in [*imported, *(other_name for other_name in installed_shims() if other_name not in imported)]:
        result = probe(candidate)
        if not result.available:
            passed[candidate] = result.reason
            _warn_of_broken(candidate, result)
        elif candidate in imported:
            return Decision(candidate, "%s is imported already" % imported[candidate], passed)
        else:
            return Decision(candidate, "the first installed shim that works", passed)
    for candidate in core_shims()[:-1]:
        result = probe(candidate)
        if result.available:
            return Decision(candidate, "no installed shim works here, and onnxruntime does", passed)
        passed[candidate] = result.reason
    return Decision(REFERENCE, "no installed shim works here", passed)


_WARNED: Set[str] = set()


def _warn_of_broken(name: str, result: Probe) -> None:
    """Issue a RuntimeWarning that a shim is not used because its framework is broken, once for each shim.

    `result` is the failed probe. No warning is issued in these cases:

    - The framework is not installed.
    - `result` has the version of the framework: the framework works, but another shim supports this version.
    """
    modules = _LOADED[name].modules if name in _LOADED else environment.MODULES.get(name, ())
    is_installed = any(environment.find_module(module) is not None for module in modules)
    if (
        result.version or not is_installed or name in _WARNED
    ):  # the framework belongs to another shim, or is not installed
        return
    _WARNED.add(name)
    text = "onnx-compat passes over the shim %s: %s" % (name, result.reason)
    warnings.warn("%s\n  hint: %s" % (text, hint(name)) if hint(name) else text, RuntimeWarning, stacklevel=4)


def _imported_shims() -> Dict[str, str]:
    """Return shim name -> module name for the shims whose framework the user has imported, in the order of the imports.

    Modules that a probe imported first are ignored, also if the user imports them later. Shims that cannot be loaded,
    or whose probe failed, are left out.
    """
    imported: Dict[str, str] = {}
    # sys.modules lists a package when its import is complete, after its submodules: take the first of these.
    first_positions: Dict[str, int] = {}
    for position, module in enumerate(list(sys.modules)):
        first_positions.setdefault(module.partition(".")[0], position)
    for name in installed_shims():
        if name in _PROBED and not _PROBED[name].available:
            continue
        try:
            modules = find(name).modules
        except ShimError:
            continue
        user_modules = [module for module in modules if module in sys.modules and module not in _OURS]
        if user_modules:
            imported[name] = min(user_modules, key=lambda module: first_positions[module.partition(".")[0]])
    return dict(sorted(imported.items(), key=lambda item: first_positions[item[1].partition(".")[0]]))


def shims() -> List[ShimInfo]:
    """List every installed shim, and whether it works here. The probe of a shim imports its framework.

    Returns:
        An entry for each shim, in the order in which they are preferred; the reference is the last. No entry is
        selected if `ONNX_COMPAT_SHIM` names a shim that does not work.

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
            result.available,
            result.reason,
            result.framework,
            result.version,
            result.features,
            name == chosen,
            hint(name),
        )
        for name, result in ((name, probe(name)) for name in all_shims())
    ]

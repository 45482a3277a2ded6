"""What is wrong with a framework that does not work, in one line that a person can act on, and what to do about it."""

import re
import sys
from typing import Callable, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.discovery.environment import (
    MODULES,
    Installed,
    find_module,
    install,
    leftover,
    metadata,
    offers,
    provider,
)

__all__ = ["diagnose", "import_error_text", "line"]

_ERROR = r"[\w.]+(Error|Exception): "


def line(text: str) -> str:
    """The line of an error's text that tells what happened: of a traceback inside of it, the last error."""
    lines = [each.strip() for each in text.splitlines() if each.strip()]
    errors = [each for each in lines if re.match(_ERROR, each)]
    if "Traceback (most recent call last)" in text and errors:
        return errors[-1]
    return lines[0] if lines else ""


def import_error_text(error: BaseException) -> str:
    """`ImportError: libx.so: cannot open …`, whatever else the text of the error has in it."""
    text = line(str(error))
    return text if re.match(_ERROR, text) else "%s: %s" % (type(error).__name__, text)


class _Case(NamedTuple):
    shim: str
    modules: Sequence[str]
    told: Optional[str]

    @property
    def framework(self) -> Optional[Installed]:
        return next((found for found in map(provider, self.modules) if found), None)


class _Advice(NamedTuple):
    remedy: str
    behind: str = ""  # what the reason itself does not tell


def diagnose(shim: str, reason: str, modules: Sequence[str] = ()) -> Tuple[str, Optional[str]]:
    """The reason for which a shim does not work, with what is behind it, in one line; and what to do about it."""
    reason = line(reason)
    modules = modules or MODULES.get(shim, ())
    for pattern, advise in _ADVICE:
        found = re.search(pattern, reason)
        advice = advise(_Case(shim, modules, found.group(1) if found.groups() else None)) if found else None
        if advice:
            return "%s (%s)" % (reason, advice.behind) if advice.behind else reason, advice.remedy
    broken = next((module for module in modules if find_module(module) is not None), None)
    if broken and "cannot be imported" in reason:
        return reason, "`%s -c 'import %s'` shows all of the error" % (sys.executable or "python", broken)
    return reason, None


def _reinstall(module: str) -> _Advice:
    folder, found = leftover(module), provider(module)
    behind = "there is no code in %s" % folder if folder else ""
    if found is None:
        text = "delete %s, which no installed package owns" % folder if folder else "install %s again" % module
        return _Advice(text, behind)
    return _Advice("pip install --force-reinstall --no-deps '%s==%s'" % (found.name, found.version), behind)


def _too_new(package: str) -> "_Adviser":
    """The framework was built for an older version of a package than the one that is here."""

    def advise(case: _Case) -> _Advice:
        framework = case.framework
        behind = "%s %s is too new for %s" % (package, metadata().version(package), framework or "it")
        for each in offers(case.shim) if framework else ():
            if framework and each[2:4] == (framework.name, ".".join(framework.version.split(".")[:2])):
                return _Advice("pip install 'onnx-compat[%s]', which brings the one that fits" % each.extra, behind)
        return _Advice("install the older %s that it was built for" % package, behind)

    return advise


def _library(case: _Case) -> _Advice:
    """A shared library is missing: the framework's own, or the system's."""
    name = str(case.told).rsplit("/", 1)[-1]
    for module in [*case.modules, "tensorflow", "jaxlib", "torch"]:
        owner = provider(module)
        if owner and re.search(r"(^|/)%s," % re.escape(name), owner.record, re.MULTILINE):
            return _reinstall(module)
    return _Advice("install the system's package that has %s in it, or name its folder in LD_LIBRARY_PATH" % name)


def _module(case: _Case) -> Optional[_Advice]:
    """A module is missing, or a part of one."""
    top = str(case.told).split(".", maxsplit=1)[0]
    if find_module(top) is not None:
        return _reinstall(top)
    if top in case.modules:
        return _absent(case)
    if case.shim == "keras" and top in ("tensorflow", "jax", "torch"):
        extra = "keras" if top == "tensorflow" else "keras-" + top
        return _Advice("pip install 'onnx-compat[%s]', or set KERAS_BACKEND to a back end that is here" % extra)
    owner = ", which %s should have brought" % case.framework if case.framework else ""
    return _Advice("install the package that has the module %s%s" % (top, owner))


def _back_end(case: _Case) -> Optional[_Advice]:
    return _Advice("set KERAS_BACKEND to tensorflow, jax or torch") if case.shim == "keras" else None


def _absent(case: _Case) -> Optional[_Advice]:
    if case.shim not in MODULES:
        return None
    python = "%d.%d" % sys.version_info[:2]
    return _Advice(install(case.shim) or "use another Python: its framework has no build for %s" % python)


def _damaged(case: _Case) -> Optional[_Advice]:
    return next(
        (_reinstall(module)._replace(behind="") for module in case.modules if find_module(module) is not None), None
    )


def _deadly(case: _Case) -> _Advice:
    """The package in whose code it ended is to blame, if that is told."""
    framework = (provider(case.told) if case.told else None) or case.framework or "the framework"
    return _Advice("install a build of %s that is made for this processor and system, or another version" % framework)


_Adviser = Callable[[_Case], Optional[_Advice]]
#: What a reason looks like, and who advises on it; what the first group finds is what it told.
_ADVICE: Tuple[Tuple[str, _Adviser], ...] = (
    (r"(?:kills the process|has not come back)(?:.* in \S+-packages[/\\](\w+))?", _deadly),
    (r"Descriptors cannot (?:not )?be created directly|no attribute 'GetPrototype'", _too_new("protobuf")),
    # The third is how TensorFlow's bfloat16 fails where numpy's binary interface is another one.
    (
        r"_ARRAY_API|numpy\.core\.\w+ failed to import|Unable to convert function return|numpy\.dtype size changed",
        _too_new("numpy"),
    ),
    (
        r"([^\s:'\"(]+\.(?:so|dylib|dll|pyd)[.\d]*)\b.*(?:cannot open shared|[nN]o such file|not (?:be )?found)",
        _library,
    ),
    (r"undefined symbol|DLL load failed|installed in part only", _damaged),
    (r"Unable to import backend|runs on the back end", _back_end),
    (r"(?:No module named '|it needs |and needs )([\w.]+)", _module),
    (r"cannot import name '\w+' from(?: partially initialized module)? '([\w.]+)'", _module),
    (r"module '([\w.]+)' has no attribute", _module),
    (r"is (?:not )?installed(?::|$)", _absent),
)

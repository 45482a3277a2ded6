"""Diagnosis: explain in one line why the framework of a shim does not work, and what to do about it."""

import re
import sys
from typing import Callable, NamedTuple, Optional, Sequence, Tuple

from onnx_compat.discovery.environment import (
    MODULES,
    Installed,
    distribution_of,
    find_module,
    folder_without_code,
    install_command,
    metadata,
    offers,
    other_python_hint,
)

__all__ = ["diagnose", "error_line", "import_error_text"]

_ERROR = r"[\w.]+(Error|Exception): "
#: Lines that state no cause: a heading ("Graph execution error:"), and the position of a frame in a traceback.
_HEADING = r'.*\berror:$|File ".*", line \d+'
_COLOURS = r"\x1b\[[0-9;]*m"


def error_line(text: str) -> str:
    """Return the line of an error's text that states the cause, without surrounding blanks.

    - A traceback: the last line of the form `SomeError: …` or `SomeException: …`.
    - Any other text, or a traceback without such a line: the first line that is neither blank nor a heading. A heading
      is a line such as "Graph execution error:", or the position of a frame. If there are only headings: the first.
    - A blank text: "".

    Colours of a terminal are removed.
    """
    lines = [text_line.strip() for text_line in re.sub(_COLOURS, "", text).splitlines() if text_line.strip()]
    errors = [text_line for text_line in lines if re.match(_ERROR, text_line)]
    if "Traceback (most recent call last)" in text and errors:
        return errors[-1]
    causes = [text_line for text_line in lines if not re.match(_HEADING, text_line, re.IGNORECASE)]
    return (causes or lines or [""])[0]


def import_error_text(error: BaseException) -> str:
    """Return one line with the type of an exception and its cause: `ImportError: libx.so: cannot open …`.

    If the message has several lines, the line that `error_line` selects is used. If that line begins with the type of
    an error, no type is put in front.
    """
    text = error_line(str(error))
    return text if re.match(_ERROR, text) else "%s: %s" % (type(error).__name__, text)


class _Failure(NamedTuple):
    """A shim that does not work. `modules`: the modules of its framework.

    `detail`: the module or library that the reason of the failure names, or None: see `_ADVICE`.
    """

    shim: str
    modules: Sequence[str]
    detail: Optional[str]

    @property
    def framework(self) -> Optional[Installed]:
        """The installed distribution of the first module in `modules` that has a distribution, or None."""
        return next((distribution for distribution in map(distribution_of, self.modules) if distribution), None)


class _Advice(NamedTuple):
    """A remedy for a failure. `cause`: the cause of the failure, or "" if the reason already states it."""

    remedy: str
    cause: str = ""


def diagnose(shim: str, reason: str, modules: Sequence[str] = ()) -> Tuple[str, Optional[str]]:
    """Explain why a shim does not work: return (reason, remedy). The remedy is None if no remedy is known.

    The returned reason is one line of the given `reason` (see `error_line`), followed by the cause in parentheses if it
    is known. `modules`: the modules of the shim's framework; by default those in `MODULES`.
    """
    reason = error_line(reason)
    modules = modules or MODULES.get(shim, ())
    for pattern, advise in _ADVICE:
        match = re.search(pattern, reason)
        advice = advise(_Failure(shim, modules, match.group(1) if match.groups() else None)) if match else None
        if advice:
            return "%s (%s)" % (reason, advice.cause) if advice.cause else reason, advice.remedy
    present_module = next((module for module in modules if find_module(module) is not None), None)
    if present_module and "cannot be imported" in reason:
        return reason, "`%s -c 'import %s'` shows all of the error" % (sys.executable or "python", present_module)
    return reason, None


def _advise_reinstall(module: str) -> _Advice:
    """Return the advice to reinstall the distribution of a module, in its installed version.

    - Without a distribution, and the module is a folder without code: the advice is to delete the folder.
    - Without a distribution, and the module has code or is missing: the advice is to install the module again.

    `_Advice.cause` names the folder without code, if there is one.
    """
    folder, distribution = folder_without_code(module), distribution_of(module)
    cause = "there is no code in %s" % folder if folder else ""
    if distribution is None:
        text = "delete %s, which no installed package owns" % folder if folder else "install %s again" % module
        return _Advice(text, cause)
    return _Advice(
        "pip install --force-reinstall --no-deps '%s==%s'" % (distribution.name, distribution.version), cause
    )


def _advise_older_package(package: str) -> "_Adviser":
    """Return a function that advises on a framework which was built for an older version of `package`.

    The function takes a `_Failure`. Its advice is to install the extra for the framework's installed minor version. If
    no such extra exists, the advice is to install an older version of `package`. The cause names the installed version.
    """

    def advise(failure: _Failure) -> _Advice:
        framework = failure.framework
        cause = "%s %s is too new for %s" % (package, metadata().version(package), framework or "it")
        for offer in offers(failure.shim) if framework else ():
            if framework and offer[2:4] == (framework.name, ".".join(framework.version.split(".")[:2])):
                return _Advice("pip install 'onnx-compat[%s]', which brings the one that fits" % offer.extra, cause)
        return _Advice("install the older %s that it was built for" % package, cause)

    return advise


def _advise_on_library(failure: _Failure) -> _Advice:
    """Return advice on the shared library `failure.detail`, which is missing.

    - The distribution of a module in `failure.modules`, or of tensorflow, jaxlib or torch, has a file of this name:
      reinstall the distribution.
    - Any other library: install a package of the system, or name the library's folder in LD_LIBRARY_PATH.
    """
    name = str(failure.detail).rsplit("/", 1)[-1]
    for module in [*failure.modules, "tensorflow", "jaxlib", "torch"]:
        owner = distribution_of(module)
        if owner and re.search(r"(^|/)%s," % re.escape(name), owner.record, re.MULTILINE):
            return _advise_reinstall(module)
    return _Advice("install the system's package that has %s in it, or name its folder in LD_LIBRARY_PATH" % name)


def _advise_on_module(failure: _Failure) -> Optional[_Advice]:
    """Return advice on the top-level module of `failure.detail`, a dotted name that could not be imported.

    - An installed module: reinstall it.
    - A missing module of the framework: install the shim. For a shim of a third party: None.
    - A missing back end of Keras: install it, or select another.
    - Another missing module: install its package.
    """
    top = str(failure.detail).split(".", maxsplit=1)[0]
    if find_module(top) is not None:
        return _advise_reinstall(top)
    if top in failure.modules:
        return _advise_install(failure)
    if failure.shim == "keras" and top in ("tensorflow", "jax", "torch"):
        extra = "keras" if top == "tensorflow" else "keras-" + top
        return _Advice("pip install 'onnx-compat[%s]', or set KERAS_BACKEND to a back end that is here" % extra)
    owner = ", which %s should have brought" % failure.framework if failure.framework else ""
    return _Advice("install the package that has the module %s%s" % (top, owner))


def _advise_on_keras_backend(failure: _Failure) -> Optional[_Advice]:
    """Return the advice to choose a back end of Keras, or None if the shim is not "keras"."""
    return _Advice("set KERAS_BACKEND to tensorflow, jax or torch") if failure.shim == "keras" else None


def _advise_install(failure: _Failure) -> Optional[_Advice]:
    """Return the advice to install the shim with its framework. Return None for a shim of a third party.

    If this Python has no extra for the shim, the advice is to use another Python.
    """
    if failure.shim not in MODULES:
        return None
    return _Advice(install_command(failure.shim) or other_python_hint(failure.shim))


def _advise_repair(failure: _Failure) -> Optional[_Advice]:
    """Return the advice to install the first installed module of the framework again, without a cause.

    None: no module of the framework is installed.
    """
    return next(
        (_advise_reinstall(module)._replace(cause="") for module in failure.modules if find_module(module) is not None),
        None,
    )


def _advise_other_build(failure: _Failure) -> _Advice:
    """Return the advice to install another build of a framework that kills its process.

    The advice names the distribution in whose code the process ended, or else the framework.
    """
    framework = (distribution_of(failure.detail) if failure.detail else None) or failure.framework or "the framework"
    return _Advice("install a build of %s that is made for this processor and system, or another version" % framework)


_Adviser = Callable[[_Failure], Optional[_Advice]]
#: A pattern of the reason, and the function that advises on it. The first group of the match becomes `_Failure.detail`.
#: The first pattern that matches, and whose function returns advice, is used.
_ADVICE: Tuple[Tuple[str, _Adviser], ...] = (
    (r"(?:kills the process|has not come back)(?:.* in \S+-packages[/\\](\w+))?", _advise_other_build),
    (r"Descriptors cannot (?:not )?be created directly|no attribute 'GetPrototype'", _advise_older_package("protobuf")),
    # "Unable to convert function return": TensorFlow's bfloat16 with another binary interface of numpy.
    (
        r"_ARRAY_API|numpy\.core\.\w+ failed to import|Unable to convert function return|numpy\.dtype size changed",
        _advise_older_package("numpy"),
    ),
    (
        r"([^\s:'\"(]+\.(?:so|dylib|dll|pyd)[.\d]*)\b.*(?:cannot open shared|[nN]o such file|not (?:be )?found)",
        _advise_on_library,
    ),
    (r"undefined symbol|DLL load failed|installed in part only", _advise_repair),
    (r"Unable to import backend|runs on the back end", _advise_on_keras_backend),
    (r"(?:No module named '|it needs |and needs )([\w.]+)", _advise_on_module),
    (r"cannot import name '\w+' from(?: partially initialized module)? '([\w.]+)'", _advise_on_module),
    (r"module '([\w.]+)' has no attribute", _advise_on_module),
    (r"is (?:not )?installed(?::|$)", _advise_install),
)

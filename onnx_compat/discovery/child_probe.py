"""Probing a shim in a process of its own: a framework built for another processor kills the process that imports it.

The doctor always asks in this way. Selection cannot, as it would import every framework twice; it leaves a mark while a
probe is under way. One that is still there, of a process that is gone, tells that the probe ended it: the next process tries
that shim apart before it trusts it. So a framework that kills does so once, with its name on standard error.
"""

import faulthandler
import hashlib
import os
import platform
import re
import signal
import sys
from contextlib import contextmanager, suppress
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

from onnx_compat.discovery.child_process import ChildResult, call_in_child
from onnx_compat.discovery.diagnosis import diagnose
from onnx_compat.discovery.environment import find_module
from onnx_compat.shim.interface import Probe

__all__ = ["Outcome", "answer_probe", "died", "mark_probe", "probe_in_child"]

#: A framework takes a few seconds; on a machine that is busy with other things, far longer.
SECONDS = 300
#: The marks of this process; another thread may be probing.
_UNDER_WAY: List[str] = []


class Outcome(NamedTuple):
    """What became of a probe in a process of its own; one that did not `end` killed it, or hung."""

    probe: Probe
    hint: Optional[str] = None
    ended: bool = True


def probe_in_child(name: str, modules: Sequence[str] = (), seconds: float = SECONDS) -> Optional[Outcome]:
    """Probe a shim apart; None where this Python cannot be started again. `modules`: the framework's, if known."""
    with suppress(OSError):  # whoever left it has told; the child leaves its own
        os.remove(_mark(name))
    result = call_in_child("onnx_compat.discovery.child_probe", "answer_probe", name, seconds=seconds)
    if result.status == "not started":
        return None
    if result.status == "returned":
        return Outcome(Probe(*result.value["probe"]), result.value["hint"])
    if result.status == "timeout":
        reason = "its probe has not come back for %d seconds" % seconds
    else:
        reason = "its probe kills the process: %s" % _end(result)
        words = _last_words(modules, seconds)
        reason += "; it says: %s" % words if words else ""
    return Outcome(Probe(False, reason), diagnose(name, reason, modules)[1], False)


def answer_probe(name: str) -> Dict[str, Any]:
    """Probe a shim in the child process of `trial`; return the probe and the hint as JSON values."""
    from onnx_compat.discovery import selection

    found, hint = selection.examine(name)
    features = {str(key): value for key, value in found.features.items()}
    return {"probe": [*found[:4], features], "hint": hint}


@contextmanager
def mark_probe(name: str) -> Iterator[None]:
    """While a framework may be imported: a mark in case that this ends the process, and then also a trace of where."""
    path = _mark(name)
    _UNDER_WAY.append(path)
    with suppress(OSError):  # no folder to write in: then without
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as stream:
            stream.write(str(os.getpid()))
    try:
        with _traced():
            yield
    finally:
        _UNDER_WAY.remove(path)
        with suppress(OSError):
            os.remove(path)


def died(name: str) -> bool:
    """Whether a process, gone since, never came back from probing this shim here."""
    path = _mark(name)
    try:
        with open(path, encoding="ascii") as stream:
            pid = int(stream.read())
    except (OSError, ValueError):
        return False
    if pid == os.getpid():  # in a container it may be that of the one before
        return path not in _UNDER_WAY
    if os.name == "nt":  # where asking for a process that way would end it
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's
        return False
    return False


def _mark(name: str) -> str:
    told = os.environ.get("ONNX_COMPAT_CACHE")
    if not told:
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        elif sys.platform == "darwin":
            base = "~/Library/Caches"
        else:
            base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        told = os.path.join(os.path.expanduser(base), "onnx-compat")
    here = "\n".join([platform.node(), sys.executable or "", sys.prefix, name])
    return os.path.join(told, "probing", hashlib.sha256(here.encode("utf-8", "surrogateescape")).hexdigest()[:24])


@contextmanager
def _traced() -> Iterator[None]:
    """A crash says where, on the standard error of before: a shim may hide what its framework prints meanwhile."""
    if faulthandler.is_enabled():
        yield
        return
    try:
        stderr = os.dup(2)
    except OSError:  # there is none
        yield
        return
    faulthandler.enable(stderr, all_threads=False)
    try:
        yield
    finally:
        faulthandler.disable()
        os.close(stderr)


def _end(result: ChildResult) -> str:
    """Return how a process ended, and in which file: `SIGABRT in /…/tensorflow/__init__.py`."""
    if result.exit_code < 0:
        try:
            how = signal.Signals(-result.exit_code).name
        except ValueError:
            how = "signal %d" % -result.exit_code
    else:
        how = "exit code %s" % (hex(result.exit_code) if result.exit_code > 255 else result.exit_code)
    where = re.search(r'most recent call first\):\s+File "([^"]+)"', result.stderr)
    return "%s in %s" % (how, where.group(1)) if where else how


def _last_words(modules: Sequence[str], seconds: float) -> str:
    """Return the last line that a framework writes before its import alone ends the process; "" if the import does not."""
    words = ""
    for module in modules:
        if find_module(module) is not None:
            result = call_in_child("importlib", "import_module", module, seconds=seconds)
            if result.status == "failed" and result.exit_code not in (0, 1):
                words = result.last_line
    return words

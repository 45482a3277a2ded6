"""Probe a shim in a child process, because a framework that is built for another processor may kill its process.

`onnx-compat doctor` probes every shim in a child process. The selection of a shim does not, because it would import
every framework twice. It writes a mark file before a probe and removes the file afterwards.

A mark file of a process that has ended means that the probe killed that process. The next process then probes that shim
in a child process first. So a framework kills at most one process, and the crash is reported on standard error.
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

__all__ = ["Outcome", "answer_probe", "has_died", "mark_probe", "probe_in_child"]

#: The time limit of a probe. A probe usually takes a few seconds, and far longer on a busy machine.
SECONDS = 300
#: The paths of the mark files of the probes that run in this process now, one for each probe.
_RUNNING_MARKS: List[str] = []


class Outcome(NamedTuple):
    """The outcome of a probe in a child process.

    - probe: the result of the probe. If `ended` is False, the shim is not available, and `reason` says why the child
      process has no result.
    - hint: what to do if the shim does not work, or None.
    - ended: whether the probe returned. False if the child process ended without a result, or reached the time limit.
    """

    probe: Probe
    hint: Optional[str] = None
    ended: bool = True


def probe_in_child(name: str, modules: Sequence[str] = (), seconds: float = SECONDS) -> Optional[Outcome]:
    """Probe a shim in a child process, and return the outcome. Return None if this Python cannot start a child process.

    If the child process crashes or reaches the time limit, the outcome's probe is not available, with the cause as its
    reason.

    - modules: the modules of the shim's framework, if they are known. After a crash, each module is imported in a child
      process of its own. The reason then quotes the last line on standard error of the last import that crashes.
    - seconds: the time limit of each child process.

    The mark file of an earlier probe of the shim is deleted first.
    """
    with suppress(OSError):  # an old mark: the child process writes a new one
        os.remove(_mark_path(name))
    result = call_in_child("onnx_compat.discovery.child_probe", "answer_probe", name, seconds=seconds)
    if result.status == "not started":
        return None
    if result.status == "returned":
        return Outcome(Probe(*result.value["probe"]), result.value["hint"])
    if result.status == "timeout":
        reason = "its probe has not come back for %d seconds" % seconds
    else:
        reason = "its probe kills the process: %s" % _describe_end(result)
        last_words = _last_words(modules, seconds)
        reason += "; it says: %s" % last_words if last_words else ""
    return Outcome(Probe(False, reason), diagnose(name, reason, modules)[1], False)


def answer_probe(name: str) -> Dict[str, Any]:
    """Probe a shim in this process, which is the child process that `probe_in_child` has started.

    Return {"probe": a list of the fields of the `Probe`, "hint": a text that says what to do, or None}. The keys of the
    features become str.
    """
    from onnx_compat.discovery import selection

    probe, hint = selection.examine(name)
    features = {str(key): value for key, value in probe.features.items()}
    return {"probe": [*probe[:4], features], "hint": hint}


@contextmanager
def mark_probe(name: str) -> Iterator[None]:
    """Context manager: a mark file of the shim exists while the block runs, and is deleted when the block ends.

    The block may import a framework. If the process crashes in the block, the file stays, and the location of the crash
    is printed on standard error. If the file cannot be written, the block runs without it.
    """
    path = _mark_path(name)
    _RUNNING_MARKS.append(path)
    with suppress(OSError):  # no writable folder: probe without a mark
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as stream:
            stream.write(str(os.getpid()))
    try:
        with _print_crash_location():
            yield
    finally:
        _RUNNING_MARKS.remove(path)
        with suppress(OSError):
            os.remove(path)


def has_died(name: str) -> bool:
    """Whether a probe of this shim killed an earlier process: the shim's mark file exists, and its process has ended.

    The mark file holds a process id. How the process is judged:

    - An id of this process: ended, unless this process probes the shim now. Process ids are reused in containers.
    - Another id on Windows: ended.
    - Another id elsewhere: ended if no process has this id.

    False if there is no mark file, or if its content cannot be read.
    """
    path = _mark_path(name)
    try:
        with open(path, encoding="ascii") as stream:
            pid = int(stream.read())
    except (OSError, ValueError):
        return False
    if pid == os.getpid():  # containers reuse process ids
        return path not in _RUNNING_MARKS
    if os.name == "nt":  # os.kill ends a process on Windows, whatever the signal
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # a process of another user
        return False
    return False


def _mark_path(name: str) -> str:
    """Return the path of the mark file of a shim. The path differs for each machine and each Python environment."""
    cache = os.environ.get("ONNX_COMPAT_CACHE")
    if not cache:
        if sys.platform == "win32":
            base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
        elif sys.platform == "darwin":
            base = "~/Library/Caches"
        else:
            base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        cache = os.path.join(os.path.expanduser(base), "onnx-compat")
    identity = "\n".join([platform.node(), sys.executable or "", sys.prefix, name])
    return os.path.join(cache, "probing", hashlib.sha256(identity.encode("utf-8", "surrogateescape")).hexdigest()[:24])


@contextmanager
def _print_crash_location() -> Iterator[None]:
    """Print the Python stack on standard error if the process crashes inside the block (faulthandler).

    faulthandler writes to a copy of the descriptor: a shim may redirect standard error while it imports its framework,
    to hide other output. No effect if faulthandler is enabled already, or without standard error.
    """
    if faulthandler.is_enabled():
        yield
        return
    try:
        stderr = os.dup(2)
    except OSError:  # the process has no standard error
        yield
        return
    faulthandler.enable(stderr, all_threads=False)
    try:
        yield
    finally:
        faulthandler.disable()
        os.close(stderr)


def _describe_end(result: ChildResult) -> str:
    """Return how a child process ended, and in which Python file: "SIGABRT in /…/tensorflow/__init__.py".

    The file is the innermost of the stack that faulthandler printed; without a stack, no file is named. A process that
    no signal ended gives "exit code 3", in hexadecimal above 255.
    """
    if result.exit_code < 0:
        try:
            ending = signal.Signals(-result.exit_code).name
        except ValueError:
            ending = "signal %d" % -result.exit_code
    else:
        ending = "exit code %s" % (hex(result.exit_code) if result.exit_code > 255 else result.exit_code)
    location = re.search(r'most recent call first\):\s+File "([^"]+)"', result.stderr)
    return "%s in %s" % (ending, location.group(1)) if location else ending


def _last_words(modules: Sequence[str], seconds: float) -> str:
    """Return the last line on standard error of a module's import that kills its process. Return "" without a kill.

    Each installed module of `modules` is imported in a child process of its own. If several imports kill their process,
    the last counts. An import that raises a Python exception or takes longer than `seconds` is ignored.
    """
    last_line = ""
    for module in modules:
        if find_module(module) is not None:
            result = call_in_child("importlib", "import_module", module, seconds=seconds)
            if result.status == "failed" and result.exit_code not in (0, 1):
                last_line = result.last_line
    return last_line

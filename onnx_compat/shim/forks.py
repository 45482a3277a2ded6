"""Forked processes: an error in place of a hang.

A fork copies a process without its threads. A framework whose threads have started waits for them forever in the child
process. `Shim.threads_start` says at which step that happens. The steps of a process are noted here, and a forked
process remembers those of its parent.
"""

import os
import threading
import weakref
from typing import Callable, List, Set

from onnx_compat.errors import ShimError
from onnx_compat.shim.interface import Shim

__all__ = ["ForkGuard", "check_fork", "keep_after_fork", "note_step"]

#: The steps after which the threads of a framework may have started, in order.
STEPS = ("probe", "compile", "run")

#: The names of the shims whose threads have started in this process, and those whose threads a parent process had started.
_STARTED: Set[str] = set()
_LOST: Set[str] = set()
#: Objects of a parent process. To delete one in a forked process may wait for its threads.
_KEPT: List[object] = []
#: Objects with threads of their own, also those that wait for the garbage collector.
_THREADED: "weakref.WeakSet[object]" = weakref.WeakSet()
#: A lock, in a list because a forked process replaces it: another thread of the parent may have held it.
_LOCK = [threading.Lock()]


def _remember_parent() -> None:
    """Remember in a forked process which shims had started their threads in the parent process.

    Keep the parent's objects that `keep_after_fork` noted alive.
    """
    _LOCK[0] = threading.Lock()
    _LOST.update(_STARTED)
    _KEPT.extend(_THREADED)


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_remember_parent)


def keep_after_fork(threaded: object) -> None:
    """Keep an object alive in forked processes. Its deletion ends threads, which a forked process does not have."""
    _THREADED.add(threaded)


def note_step(shim: Shim, step: str) -> None:
    """Note that a shim has taken a step in this process. `step`: "probe", "compile" or "run"."""
    start = shim.threads_start
    if start is not None and STEPS.index(start) <= STEPS.index(step):
        _STARTED.add(shim.name)


def check_fork(shim: Shim) -> None:
    """Raise ShimError if this process was forked after the shim had started its threads. Otherwise do nothing."""
    if shim.name in _LOST:
        raise ShimError(
            "this process was forked after the framework had started its threads, which a fork does not copy",
            hint="start processes with multiprocessing.get_context('spawn'), or use the shim only after the fork",
            shim=shim.name,
        )


class ForkGuard:
    """Guard an object that runs models on the shim `shim` against runs in a forked process.

    The constructor and `enter` raise ShimError in a forked process, if a parent process had started the shim's threads.
    """

    def __init__(self, shim: Shim) -> None:
        check_fork(shim)
        note_step(shim, "compile")
        self._shim = shim
        self._process = os.getpid()
        self._has_run = False

    def enter(self, renew: Callable[[], object]) -> None:
        """Note a run of the guarded object, which the caller starts next.

        `renew` prepares the object again in a forked process. It returns the objects of the parent process, which are
        kept for the life of this process. It is called before the first run in a forked process, and only if the shim's
        `threads_start` is None.

        Raises ShimError in a forked process, if a parent process had started the shim's threads.
        """
        if self._process != os.getpid():
            check_fork(self._shim)
            with _LOCK[0]:
                if self._process != os.getpid():
                    if self._shim.threads_start is None:  # interpreters and sessions may have threads of their own
                        _KEPT.append(renew())
                    self._process = os.getpid()
        if not self._has_run:
            self._has_run = True
            note_step(self._shim, "run")

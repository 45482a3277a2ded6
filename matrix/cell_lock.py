"""Lock of a cell: no run replaces packages in an environment that processes of another run still use.

Every process of a run holds a shared lock: nox, `python -m matrix.cells`, pytest and its workers. An installation needs
the exclusive lock. If a run is killed and a worker survives, the next run names that worker instead of installing
beneath it. On Linux, the processes of a run also end with their parent process, so that none survives.

The module needs only the standard library, and Python 3.7: it runs in the environment of the cell.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import IO, Any, List

# Windows has no lock that several processes share: there, runs of a cell are not kept apart.
fcntl: Any = importlib.import_module("fcntl") if os.name == "posix" else None

__all__ = ["CellBusy", "CellLock", "end_with_parent"]

FOLDER = Path(__file__).resolve().parent.parent / "results" / "locks"
_PR_SET_PDEATHSIG = 1
# A killed process holds its locks until its last thread has ended, which its parent does not wait for.
_SECONDS_TO_END = 10.0


class CellBusy(Exception):
    """Processes of another run use the environment of the cell. The text names them, and the command that ends them."""


class CellLock:
    """The lock of a cell, a file in results/locks with the ids of the processes that hold it.

    The operating system releases the lock when its process ends, however it ends. On Windows, nothing is locked: no
    method waits or raises CellBusy.
    """

    def __init__(self, cell: str, folder: Path = FOLDER, patience: float = _SECONDS_TO_END) -> None:
        """Open the lock file of a cell, which is created with its folder if needed, and hold nothing yet.

        `cell`: the id of the cell. `patience`: the seconds for which `reserve` and `share` wait before they raise
        CellBusy.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / ("%s.lock" % cell)
        self._cell = cell
        self._patience = patience
        self._file: IO[str] = self.path.open("a+", encoding="ascii")

    def reserve(self) -> None:
        """Take the exclusive lock, for an installation.

        Raise CellBusy if another process still holds the lock after the patience.
        """
        self._take("LOCK_EX")
        self._file.truncate(0)
        self._write()

    def share(self) -> None:
        """Take the shared lock, for tests, instead of the exclusive lock that this process may hold.

        Raise CellBusy if another process still holds the exclusive lock after the patience.
        """
        self._take("LOCK_SH")
        self._write()

    def release(self) -> None:
        """Release the lock, and close its file."""
        self._file.close()

    def _take(self, kind: str) -> None:
        """Take the lock in the mode `kind`: LOCK_EX or LOCK_SH. Do nothing on Windows.

        Raise CellBusy if other processes still prevent that after the patience.
        """
        if fcntl is None:
            return
        deadline = time.monotonic() + self._patience
        while not self._try(kind):
            if time.monotonic() >= deadline:
                pids = " ".join(map(str, self._holders()))
                message = "The environment of %s is used by another run, in the processes %s. End them: kill %s"
                raise CellBusy(message % (self._cell, pids, pids))
            time.sleep(0.05)

    def _try(self, kind: str) -> bool:
        """Try once to take the lock in the mode `kind`. Return False if another process prevents it."""
        try:
            fcntl.flock(self._file, getattr(fcntl, kind) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _write(self) -> None:
        """Append the id of this process to the lock file."""
        self._file.write("%d\n" % os.getpid())
        self._file.flush()

    def _holders(self) -> List[int]:
        """Return the ids of the other processes that took the lock and are alive."""
        lines = self.path.read_text(encoding="ascii").split()
        return sorted({int(line) for line in lines if int(line) != os.getpid() and _is_alive(int(line))})


def end_with_parent() -> None:
    """On Linux, tell the kernel to send SIGKILL to this process when its parent ends. On other systems, do nothing."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    """Whether a process with this id exists; it may be a process of another user."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return True

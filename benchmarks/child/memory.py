"""Measure peak memory: of a function, above the memory of the process before the call; and of a process."""

import sys
from typing import Any, Callable, Optional, Tuple

_STATUS = "/proc/self/status"


def peak_above_baseline(work: Callable[[], Any]) -> Tuple[Any, Optional[int]]:
    """Return (result of `work`, peak memory in bytes). The peak is known on Linux only; elsewhere None stands for it."""
    baseline = _reset()
    result = work()
    return result, None if baseline is None else max(0, _read("VmHWM") - baseline)


def largest_resident(children: bool = False) -> int:
    """Return the peak memory of this process in bytes, or with `children` that of its largest ended child process.

    On Linux, the peak may include the process that started this one. `ru_maxrss` has bytes on macOS, and KiB elsewhere.
    """
    import resource  # not on Windows

    usage = resource.getrusage(resource.RUSAGE_CHILDREN if children else resource.RUSAGE_SELF)
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _reset() -> Optional[int]:
    """Reset the peak memory (VmHWM) of the process. Return the resident memory in bytes; None if the kernel cannot."""
    try:
        with open("/proc/self/clear_refs", "w") as stream:
            stream.write("5")
        return _read("VmRSS")
    except OSError:
        return None


def _read(field: str) -> int:
    """Return a field of the status of this process in bytes. Raise OSError if the kernel does not report it."""
    with open(_STATUS) as stream:
        for line in stream:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise OSError("%s has no %s" % (_STATUS, field))

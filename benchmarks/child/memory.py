"""Measure the peak memory of a function, above the memory of the process before the call."""

from typing import Any, Callable, Optional, Tuple

_STATUS = "/proc/self/status"


def peak_above_baseline(work: Callable[[], Any]) -> Tuple[Any, Optional[int]]:
    """Return (result of `work`, peak memory in bytes). The peak is known on Linux only; elsewhere None stands for it."""
    baseline = _reset()
    result = work()
    return result, None if baseline is None else max(0, _read("VmHWM") - baseline)


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

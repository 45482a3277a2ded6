"""Peak memory of a piece of work, above that of the process before it."""

from typing import Any, Callable, Optional, Tuple

_STATUS = "/proc/self/status"


def peak_above_baseline(work: Callable[[], Any]) -> Tuple[Any, Optional[int]]:
    """Return the result of `work` and its peak in bytes; None where the kernel does not report it (only Linux does)."""
    baseline = _reset()
    result = work()
    return result, None if baseline is None else max(0, _read("VmHWM") - baseline)


def _reset() -> Optional[int]:
    """Reset the high-water mark of the process. Return the resident memory now, or None."""
    try:
        with open("/proc/self/clear_refs", "w") as stream:
            stream.write("5")
        return _read("VmRSS")
    except OSError:
        return None


def _read(field: str) -> int:
    with open(_STATUS) as stream:
        for line in stream:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise OSError("%s has no %s" % (_STATUS, field))

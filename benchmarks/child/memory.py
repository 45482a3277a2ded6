"""The most memory that a piece of work had at once, above what the process had before it."""

from typing import Any, Callable, Optional, Tuple

_STATUS = "/proc/self/status"


def peak_above_baseline(work: Callable[[], Any]) -> Tuple[Any, Optional[int]]:
    """What `work` returns, and its peak in bytes; None where the kernel does not tell (elsewhere than on Linux)."""
    baseline = _reset()
    result = work()
    return result, None if baseline is None else max(0, _read("VmHWM") - baseline)


def _reset() -> Optional[int]:
    """Forget the high-water mark of the past; gives the resident memory now."""
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

"""The memory of this machine, to name sizes that do not fit into it."""

import functools
import operator
import os
from typing import Any, Optional, Sequence

from onnx_compat.errors import InputError

__all__ = ["check_memory", "describe_memory_error", "physical_memory"]


def physical_memory() -> Optional[int]:
    """Return the bytes of physical memory of this machine, or None if the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


def check_memory(description: str, shape: Sequence[int], itemsize: int) -> None:
    """Raise InputError if an array would take more bytes than this machine has. Otherwise do nothing.

    If the memory of the machine is unknown, as on Windows, the limit is 2**62 bytes. `description` names the array:
    "the input 'x' of shape [2, 3]". `itemsize`: the bytes of an element.
    """
    memory, size = physical_memory(), _count_bytes(shape, itemsize)
    if size > (2**62 if memory is None else memory):
        has = "" if memory is None else ", and this machine has %.1f GB of memory" % (memory / 1e9)
        raise InputError("%s takes %.1f GB%s" % (description, size / 1e9, has), hint="give smaller sizes (--dim)")


def describe_memory_error(error: BaseException) -> str:
    """Return a text on the array that numpy could not allocate: its shape, its type and its size in GB.

    For any other error, return its message.
    """
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    itemsize: Any = getattr(dtype, "itemsize", None)
    if not isinstance(shape, tuple) or itemsize is None:
        return str(error)
    return "an array of shape %s and type %s takes %.1f GB" % (list(shape), dtype, _count_bytes(shape, itemsize) / 1e9)


def _count_bytes(shape: Sequence[int], itemsize: int) -> int:
    """Return the bytes of an array, without the overflow of numpy's integers."""
    return functools.reduce(operator.mul, map(int, shape), int(itemsize))

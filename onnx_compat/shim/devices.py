"""Parse device names, and resolve a name to a device of a framework on this machine."""

import re
from typing import Optional, Sequence, Tuple

from onnx_compat.errors import ShimError

__all__ = ["resolve"]

#: Kind names of vendors for the kind "gpu".
_ALIASES = {"cuda": "gpu", "rocm": "gpu"}
#: "gpu", "CUDA:1", and the names of TensorFlow: "/GPU:1", "/device:GPU:1".
_NAME = re.compile(r"/?(?:device:)?([a-z]+)(?::([0-9]+))?")


def resolve(name: object, available: Sequence[str], shim: str) -> str:
    """Return the entry of `available` that the device name `name` means: "CUDA" -> "gpu:0".

    Upper and lower case are equal. "cuda" and "rocm" mean "gpu". A name or an entry without a number has the number 0.

    Raises `ShimError`, which lists the available devices, if no entry has this meaning. `shim` is the name of the shim
    in the error.
    """
    device = _parse(str(name))
    for entry in available:
        if device is not None and _parse(entry) == device:
            return entry
    raise ShimError(
        "there is no device '%s'; available are: %s" % (name, ", ".join(available) or "none"),
        hint="choose one of these, or leave `device` out%s"
        % ("; a GPU needs a build of the framework for it, and its driver" if device and device[0] == "gpu" else ""),
        shim=shim,
    )


def _parse(name: str) -> Optional[Tuple[str, int]]:
    """Return the kind and the number in a device name: "/device:GPU:1" -> ("gpu", 1).

    Return None for a text that is no device name.
    """
    match = _NAME.fullmatch(name.strip().lower())
    if match is None:
        return None
    kind, number = match.groups()
    return _ALIASES.get(kind, kind), int(number or 0)

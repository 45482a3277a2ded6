"""A converted file as something that runs: which shim opens it."""

import os
from pathlib import Path
from typing import Any, NamedTuple, Optional, Tuple, Union

from onnx_compat.errors import InputError, ShimError

__all__ = ["open_converted"]


class _Format(NamedTuple):
    name: str
    shims: Tuple[str, ...]  # those that read it, the best first


_TFLITE = _Format("a TensorFlow Lite model", ("tflite", "tf2"))
_KERAS = _Format("a Keras model", ("keras",))
_GRAPHDEF = _Format("a frozen GraphDef", ("tf1", "tf2"))
_SAVED_MODEL = _Format("a SavedModel", ("tf2", "tf1"))
_BY_SUFFIX = {".tflite": _TFLITE, ".keras": _KERAS, ".pb": _GRAPHDEF}


def open_converted(path: Union[str, "os.PathLike[str]"], shim: Optional[str]) -> Any:
    """The file as a Runnable: on the shim that is named, else on the first that reads the format and works here."""
    target = Path(os.fspath(path))
    if shim is not None:
        return _shim(shim).load_converted(target)
    kind = _format(target)
    refusals = []
    for name in kind.shims:
        try:
            chosen = _shim(name)
        except ShimError as error:
            refusals.append("%s (%s)" % (name, error.reason))
            continue
        return chosen.load_converted(target)
    raise ShimError(
        "no shim here runs %s ('%s'): %s" % (kind.name, target, "; ".join(refusals)),
        hint="pip install onnx-compat-%s" % kind.shims[0],
    )


def _format(path: Path) -> _Format:
    if not path.exists():
        raise InputError("there is no file or folder '%s'" % path, hint="convert the model first")
    if path.is_dir():
        if any((path / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
            return _SAVED_MODEL
        raise InputError("the folder '%s' is not a SavedModel" % path, hint="it has no saved_model.pb")
    try:
        return _BY_SUFFIX[path.suffix.lower()]
    except KeyError:
        raise InputError(
            "the format of '%s' cannot be told from its suffix" % path,
            hint="name the shim that reads it, or use one of %s" % ", ".join(sorted(_BY_SUFFIX)),
        ) from None


def _shim(name: str) -> Any:
    from onnx_compat import select

    return select.get(name)

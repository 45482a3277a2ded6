"""Recognise the format of a file by its first bytes, for messages about a file that has the wrong suffix or argument."""

import os
from typing import Optional, Union

from onnx_compat.errors import InputError

__all__ = ["ONNX", "TFLITE", "check_suffix", "format_by_content"]

ONNX, TFLITE = "an ONNX model", "a .tflite file"
_ZIP = "a zip archive, as a .keras file, a bundle or a .npz file"
_LFS, _TEXT = "a Git LFS pointer (run `git lfs pull`)", "a text file"


def format_by_content(path: Union[str, "os.PathLike[str]"]) -> Optional[str]:
    """Return the format that the first bytes of a file show, as a text for messages: "a .tflite file".

    Return None for an unknown format, a text of less than 16 bytes, a folder, and a path that cannot be read.
    """
    try:
        with open(os.fspath(path), "rb") as file:
            start = file.read(512)
    except (OSError, ValueError):
        return None
    if start[4:8] == b"TFL3":
        return TFLITE
    if start.startswith(b"PK\x03\x04"):
        return _ZIP
    if start.startswith(b"version https://git-lfs"):
        return _LFS
    if len(start) > 2 and start[0] == 8 and 0 < start[1] < 128:  # field 1 of ModelProto, ir_version, as a varint
        return ONNX
    is_text = len(start) >= 16 and not any(byte < 9 or 13 < byte < 32 or byte > 126 for byte in start)
    return _TEXT if is_text else None


def check_suffix(path: Union[str, "os.PathLike[str]"]) -> None:
    """Raise `InputError` if a path ends in ".tflite" and its first bytes show another format."""
    if os.path.splitext(os.fspath(path))[1].lower() != ".tflite":
        return
    content = format_by_content(path)
    if content not in (None, TFLITE):
        hint = "give the file that `onnx-compat convert` wrote, or rename this file"
        raise InputError("'%s' is no .tflite file: it is %s" % (os.fspath(path), content), hint=hint)

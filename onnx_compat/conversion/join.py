"""Join converted files into a file with a signature for each, such as an encoder and a decoder."""

import os
from pathlib import Path
from typing import Dict, Mapping, Optional

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion.convert import format_of_path, formats
from onnx_compat.conversion.destinations import Destination, absolute_path
from onnx_compat.discovery import selection
from onnx_compat.errors import ConversionError, OnnxCompatError, ShimError
from onnx_compat.model.loading import StrPath

__all__ = ["join"]


@typed_errors
def join(files: Mapping[str, StrPath], path: StrPath, shim: Optional[str] = None) -> Path:
    """Write a file that holds several converted files, each as a signature. Equal weights are stored once.

    A failure leaves nothing behind, and what was at the path before stays as it was.

    Args:
        files: The name of each signature and its file: {"encode": "a.tflite", "decode": "b.tflite"}.
        path: The path to write, with the suffix of the files.
        shim: The shim that writes the file. None selects the first installed shim that works and writes the format; if
            none of these shims works, the last.

    Returns:
        The path that was written.

    Raises:
        ConversionError: No file is given, the name of a signature is empty, a suffix is unknown, or a file is missing
            or has the suffix of another format than `path`.
        InputError: The path cannot be written, or is one of the files.
        InvalidModelError: A file is damaged.
        ShimError: No installed shim writes the format, or `shim` does not write it or cannot be loaded.
        UnsupportedError: A file of the format holds only one model.

    Examples:
        >>> path = onnx_compat.convert("digits.onnx", "digits.tflite")
        >>> both = onnx_compat.join({"first": path, "second": path}, "both.tflite")
        >>> onnx_compat.load_converted(both, signature="second").outputs[0].name
        'scores'
    """
    target = absolute_path(path)
    file_format = format_of_path(target)
    parts: Dict[str, str] = {key: os.path.abspath(os.fspath(part)) for key, part in files.items()}
    if not parts or "" in parts:
        raise ConversionError("there is nothing to join", hint='name each file: {"encode": "a.tflite"}')
    for part in parts.values():
        if format_of_path(part) != file_format or not os.path.exists(part):
            raise ConversionError(
                "there is no file '%s' of the format '%s'" % (part, file_format), hint="convert the models to it first"
            )
    _write(parts, target, file_format, shim)
    return Path(target)


def _write(parts: Dict[str, str], target: str, file_format: str, shim: Optional[str]) -> None:
    """Join the files `parts` (signature -> path) into the file `target`, by the shim that writes `file_format`.

    `shim`: the name of the only shim to consider, or None.

    Raises ShimError if no shim writes the format, or `shim` cannot be loaded. Raises InputError if `target` cannot be
    written, or is one of the files. Raises the errors of `Shim.join`. An InputError and an error of `Shim.join` are
    raised with the name of the shim.
    """
    writers = formats(shim)
    if file_format not in writers:
        raise ShimError(
            "no installed shim writes the format '%s'" % file_format, hint="`onnx-compat doctor` shows what is missing"
        )
    writer = selection.find(writers[file_format][0])
    try:
        destination = Destination(target, parts.values(), folder=writer.formats[file_format][0] == "")
        with destination.scratch() as scratch:
            result_path = os.path.join(scratch, os.path.basename(target))
            writer.join(parts, result_path, file_format)
            destination.put(result_path)
    except OnnxCompatError as error:
        raise error.at(shim=writer.name) from error.__cause__

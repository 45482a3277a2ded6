"""Read inputs from a .npz file, and write outputs to a .npz file.

`npz_entries` has the names of sequences, maps and None. Strings are stored as fixed-width text, without pickled
objects. The types that numpy lacks (bfloat16, int4 …) are stored as float32 or int8.
"""

import os
import re
import zipfile
from pathlib import Path
from typing import IO, Any, Dict, Sequence, Union

import numpy as np

from onnx_compat.conversion.destinations import Destination, check_readable
from onnx_compat.errors import InputError
from onnx_compat.model.first_bytes import kind_of_file
from onnx_compat.verification.npz_entries import HINT, flatten_values, restore_values

__all__ = ["load_arrays", "load_inputs", "load_npz", "save_npz"]

#: Texts in the header of a .npy file, and the characters outside of them.
_QUOTED, _HEADER_CODE = re.compile(r"'[^'\n]*'|\"[^\"\n]*\""), re.compile(r"(?:[\s{}()\[\],:\dL]|True|False)*\Z")
_MOST_BRACKETS, _MOST_CHARACTERS = 64, 1 << 16
#: An archive that unpacks to more bytes than both of these is refused: it was made to fill the memory.
_UNPACKED_BYTES, _UNPACKED_RATIO = 1 << 30, 100


def load_npz(path: Union[str, "os.PathLike[str]"]) -> Dict[str, Any]:
    """Return the values of a .npz file by name: an array, a list for a sequence, a dict for a map, or None.

    Raise `InputError` in these cases:

    - The file does not exist, or is no readable .npz file: a .npy file, a truncated file, a folder or a pipe.
    - It has pickled objects, or unpacks to far more than its size.
    - A sequence lacks an element: `s[0]` and `s[2]` without `s[1]`. Or two entries contradict each other.
    """
    if not os.path.exists(os.fspath(path)):
        raise InputError("there is no file '%s'" % path, hint="give the .npz file that holds the inputs")
    arrays = load_arrays(path, ".npz", HINT)
    if not isinstance(arrays, dict):
        raise InputError("'%s' holds one unnamed array" % path, hint=HINT)
    return restore_values(arrays)


def load_arrays(path: Union[str, "os.PathLike[str]"], suffix: str, hint: str) -> Any:
    """Return the array of a .npy file, or the arrays of a .npz file as a dict by name.

    The first bytes of the file decide between the two formats. `suffix` only names the expected kind in errors.

    Raise `InputError` with the hint `hint` for a file of another format, a damaged file, a folder and pickled objects.
    Raise `InputError` with another hint if the path does not exist, or is a device or a pipe. The same holds for an
    archive that unpacks to far more than its size (see `_check_unpacked_size`).
    """
    check_readable(path)
    try:
        with open(os.fspath(path), "rb") as stream:
            _check_header(stream)
            stream.seek(0)
            content = np.load(stream, allow_pickle=False)
            if not hasattr(content, "files"):
                return content
            _check_unpacked_size(path, content.zip.infolist())
            for member in content.zip.namelist():
                with content.zip.open(member) as opened:
                    _check_header(opened)
            return {name: content[name] for name in content.files}
    except InputError:
        raise
    except Exception as error:  # numpy and zipfile raise a dozen unrelated classes for damaged headers and members
        if not _has_numpy_signature(path):
            kind = kind_of_file(path)
            description = "" if kind is None else ": it is %s" % kind.name
            raise InputError("'%s' is not a %s file%s" % (path, suffix, description), hint=hint) from error
        reason = "'%s' is not a readable %s file (%s)" % (path, suffix, str(error) or type(error).__name__)
        raise InputError(reason, hint=hint) from error


def _check_header(stream: IO[bytes]) -> None:
    """Raise ValueError if a .npy file has a header that numpy does not write. Other files are not checked.

    numpy parses the header as Python code. The parser of Python 3.7 ends the process for deeply nested code.
    """
    if stream.read(6) != b"\x93NUMPY":
        return
    size_bytes = 2 if stream.read(2)[:1] == b"\x01" else 4
    length = int.from_bytes(stream.read(size_bytes), "little")
    code = _QUOTED.sub("", stream.read(min(length, _MOST_CHARACTERS)).decode("latin-1"))
    if length > _MOST_CHARACTERS or not _HEADER_CODE.match(code) or sum(map(code.count, "([{")) > _MOST_BRACKETS:
        raise ValueError("the header is not that of an array")


def _check_unpacked_size(path: Union[str, "os.PathLike[str]"], members: Sequence[zipfile.ZipInfo]) -> None:
    """Raise `InputError` if the members of an archive unpack to over 1 GiB and to over 100 times the archive's size."""
    unpacked, packed = sum(info.file_size for info in members), os.path.getsize(path)
    if unpacked > max(_UNPACKED_BYTES, _UNPACKED_RATIO * packed):
        raise InputError(
            "'%s' has %d bytes and unpacks to %.1f GB" % (path, packed, unpacked / 1e9),
            hint="write it with numpy.savez, which does not compress",
        )


def load_inputs(path: Union[str, "os.PathLike[str]"], required: Sequence[str]) -> Dict[str, Any]:
    """Return the values of a .npz file, as `load_npz` does.

    Raises `InputError` as `load_npz` does. Raises `InputError` if the file lacks a name in `required`, and all names of
    the file are in `required`.

    If the file lacks a name in `required` and has another name, nothing is raised here. The run then reports the error,
    and can suggest the nearest name for a misspelt one.
    """
    values = load_npz(path)
    missing = [name for name in required if name not in values]
    if missing and all(name in required for name in values):
        held = "the file holds: %s" % ", ".join(map(repr, values)) if values else "the file holds no arrays"
        names = ", ".join(map(repr, missing))
        raise InputError("'%s' has no array for the input %s" % (path, names), hint="%s; %s" % (held, HINT))
    return values


def _has_numpy_signature(path: Union[str, "os.PathLike[str]"]) -> bool:
    """Return whether a file begins as a .npz file (a zip archive) or as a .npy file; False if it cannot be read."""
    try:
        with open(os.fspath(path), "rb") as stream:
            return stream.read(6).startswith((b"PK\x03\x04", b"PK\x05\x06", b"\x93NUMPY"))
    except OSError:
        return False


def save_npz(path: Union[str, "os.PathLike[str]"], values: Dict[str, Any]) -> Path:
    """Write values by name to a .npz file, atomically. Return the path of the file.

    A value is an array, a list, a dict or None: `load_npz` reads the same values. Raise `InputError` if the path may
    not be written, and `UnsupportedError` for a value of another type.
    """
    target = Destination(path)
    with target.scratch() as scratch:
        unfinished = os.path.join(scratch, "outputs.npz")
        # Not numpy.savez: its own argument is named "file", so no output could have that name.
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
            for name, array in flatten_values(values):
                with archive.open(name + ".npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)
        target.put(unfinished)
    return Path(os.fspath(path))

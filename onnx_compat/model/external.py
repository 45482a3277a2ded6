"""External data: find and check the files beside a model when the model is loaded, and read them on demand.

A model is untrusted input. So a location must be inside the model's folder after every symbolic link is resolved. If
the model itself is a link, as in download caches, the folder of the link's target is allowed too. Files are read and
not mapped: a read of a truncated file is an error, but an access to a truncated mapping ends the process.
"""

import hashlib
import os
import stat
from typing import Any, Callable, Dict, Optional, Tuple

import numpy as np

from onnx_compat.errors import InputError, InvalidModelError

__all__ = ["Folder"]

_LONGEST = 4096  # PATH_MAX of Linux. realpath took 17 s for a location of 10**6 characters
Array = Any  # a numpy array: the stubs of numpy 1.16 to 2.x differ
Reader = Callable[[], Array]


class Folder:
    """The folder of the external data of a model.

    `named` is its path, and `model` the path of the model, whose real folder is allowed as well. `files` has the real
    paths of the data files that tensors use, as the keys of a dict, in order of first use. Raises InputError for a path
    that is longer than any file system takes.
    """

    def __init__(self, named: str, model: Optional[str] = None) -> None:
        if len(named) > _LONGEST:
            raise InputError("the folder of the external data has a path of %d characters" % len(named))
        self.named = named
        self._resolved: Dict[str, str] = {}
        self.roots = {os.path.realpath(named)}
        if model is not None:
            self.roots.add(os.path.dirname(os.path.realpath(model)))
        self.files: Dict[str, None] = {}
        self._digests: Dict[Tuple[str, Tuple[int, ...]], str] = {}

    def reader(self, entries: Dict[str, str], needed: int, tensor: str) -> Reader:
        """Return a function that reads the external data of a tensor as a uint8 array. The file is added to `files`.

        - entries: "location", "offset", "length" and "checksum" as texts from the model. Defaults: offset 0, length
          `needed`. Without a checksum, the content of the file is not checked.
        - needed: the number of bytes that the tensor's dtype and shape need.
        - tensor: the name of the tensor, for errors.

        Raises InvalidModelError if an entry is wrong, or if the file is outside of the folder, missing or too short.
        The returned function raises InvalidModelError if the file has changed or cannot be read, or if its SHA-1 is not
        the checksum.
        """
        location = entries.get("location", "")
        path = self._resolved.get(location) or self._resolve(location, tensor)
        self._resolved[location] = path
        size, stamp = self._inspect(path, location, tensor)
        self.files[path] = None
        offset = _byte_count(entries, "offset", 0, tensor)
        length = _byte_count(entries, "length", needed, tensor)
        if length != needed:
            raise InvalidModelError(
                "the external data of tensor '%s' is %d bytes long, its type and shape need %d"
                % (tensor, length, needed),
                hint="export the model again",
            )
        if offset + length > size:
            raise InvalidModelError(
                "the external data of tensor '%s' is at bytes %d to %d of '%s', which has %d"
                % (tensor, offset, offset + length, location, size),
                hint="check that the file belongs to this model and was copied completely",
            )
        checksum = entries.get("checksum", "").strip().lower()

        def read() -> Array:
            data = self._read(path, location, tensor, offset, needed, stamp)
            if checksum and checksum != self._digest(path, stamp):
                raise InvalidModelError(
                    "the SHA-1 of the external data file '%s' of tensor '%s' is %s, and the model says '%s'"
                    % (location, tensor, self._digest(path, stamp), checksum),
                    hint="copy the file again, or export the model again",
                )
            return data

        return read

    def _digest(self, path: str, stamp: Tuple[int, ...]) -> str:
        """Return the SHA-1 of a file in hexadecimal digits. It is computed once for a stamp of the file."""
        if (path, stamp) not in self._digests:
            digest = hashlib.sha1()  # noqa: S324 (the specification of external data says SHA-1)
            with open(path, "rb") as file:
                for block in iter(lambda: file.read(1 << 20), b""):
                    digest.update(block)
            self._digests[path, stamp] = digest.hexdigest()
        return self._digests[path, stamp]

    def _resolve(self, location: str, tensor: str) -> str:
        """Return the real path of a location.

        Raises InvalidModelError in these cases:

        - The location is empty, absolute or too long.
        - The location has a part ".." or a NUL character.
        - The real path is outside of the folders that are allowed.
        """
        if len(location) > _LONGEST:
            raise InvalidModelError(
                "the location of the external data of tensor '%s' has %d characters: no file has such a name"
                % (tensor, len(location)),
                hint="export the model again",
            )
        parts = location.replace("\\", "/").split("/")
        absolute = os.path.isabs(location) or location.startswith(("/", "\\")) or bool(os.path.splitdrive(location)[0])
        path = ""
        if location and "\0" not in location and not absolute and ".." not in parts:
            path = os.path.realpath(os.path.join(self.named, location))
        if not path or not any(path.startswith(os.path.join(root, "")) for root in self.roots):
            raise InvalidModelError(
                "the external data of tensor '%s' is at '%s', which is not inside the model's folder"
                % (tensor, location),
                hint="put the data file beside the model and give its location relative to it, without links that lead out",
            )
        return path

    def _inspect(self, path: str, location: str, tensor: str) -> Tuple[int, Tuple[int, ...]]:
        """Return the size of a file in bytes, and a stamp that changes with the file (its inode, size and time).

        Raises InvalidModelError if the path does not exist or is no regular file.
        """
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            raise InvalidModelError(
                "the external data file '%s' of tensor '%s' is not in the model's folder '%s'"
                % (location, tensor, self.named),
                hint="copy it beside the model",
            ) from None
        if not stat.S_ISREG(status.st_mode):
            raise InvalidModelError("the external data '%s' of tensor '%s' is not a file" % (location, tensor))
        return status.st_size, (status.st_ino, status.st_size, status.st_mtime_ns)

    def _read(self, path: str, location: str, tensor: str, offset: int, size: int, stamp: Tuple[int, ...]) -> Array:
        """Return `size` bytes of a file from `offset` as a uint8 array.

        Raises InvalidModelError if the file cannot be read, is too short, or has another stamp than `stamp`.
        """
        data = np.zeros(0, np.uint8)
        if os.path.realpath(path) == path and self._inspect(path, location, tensor)[1] == stamp:
            try:
                with open(path, "rb") as file:
                    file.seek(offset)
                    data = np.fromfile(file, np.uint8, size)
            except OSError as error:
                raise InvalidModelError("cannot read external data '%s': %s" % (location, error.strerror)) from error
        if data.size != size:
            raise InvalidModelError(
                "the external data file '%s' of tensor '%s' changed since the model was loaded" % (location, tensor),
                hint="load the model again",
            )
        return data


def _byte_count(entries: Dict[str, str], key: str, default: int, tensor: str) -> int:
    """Return the entry `key` as a number of bytes; `default` if it is absent or empty.

    Raises InvalidModelError if the entry has another character than a decimal digit, or more than 19 digits.
    """
    text = entries.get(key, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise InvalidModelError(
            "the external data of tensor '%s' has the %s '%s', not a count of bytes" % (tensor, key, text)
        )
    return int(text)

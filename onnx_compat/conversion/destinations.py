"""Destinations: check which file or folder may be replaced, and replace it atomically.

Every path that the user chose to write goes through `Destination`. Before any work is done, it refuses a path that
cannot be written, and a path whose content must stay. The result is written in a scratch folder beside the path and
then renamed, so that a failure keeps the old content.
"""

import errno
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from typing import Any, Iterable, Iterator, List, Optional, Sequence, Tuple

from onnx_compat.conversion.folder_replacement import (
    first_foreign_entry,
    protection,
    recover,
    replace_folder,
    set_aside_path,
)
from onnx_compat.errors import InputError
from onnx_compat.model.loading import StrPath

__all__ = ["Destination", "absolute_path", "check_not_read", "check_readable", "files_of", "put_together"]

_SCRATCH = ".onnx-compat-"
_ELSEWHERE = "choose another path"
#: Errors of the file system at the destination. Any other OSError has another cause.
_LOCATION_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENAMETOOLONG)


class Destination:
    """A path that a file or a folder (a SavedModel) is written to. Raises InputError if the path may not be written.

    - path: the path that the user chose; `self.path` is the absolute path.
    - read: paths and models that are read in the same run (see `files_of`). Their files are not overwritten or deleted.
    - folder: True if a folder is written. It may replace an empty folder or a SavedModel.
    - force: True if a folder may also replace any other folder, except a protected folder (see `protection`).

    If the path is a symbolic link, the link is replaced, and the file or folder that it points to stays.
    """

    def __init__(self, path: StrPath, read: Iterable[Any] = (), folder: bool = False, force: bool = False) -> None:
        self.path = absolute_path(path)
        self.given = path
        self.folder = folder
        self.force = force
        self.read = [file for source in read for file in files_of(source)]
        self.check()

    def check(self) -> None:
        """Raise InputError if the path may not be written. Otherwise do nothing.

        If a folder is to be written, `recover` first renames a folder that a killed run had set aside back to the path.

        The path may not be written in these cases:

        - Its parent does not exist, or is no folder.
        - It is a device, a pipe, or a link to a missing file.
        - It is a folder and a file is to be written, or it is a file and a folder is to be written.
        - A file in `read` would be overwritten or deleted.
        - It is a protected folder (see `protection`).
        - It is a folder that only `force` may replace, and `force` is False.
        """
        parent = os.path.dirname(self.path)
        if not os.path.isdir(parent):
            is_there = os.path.lexists(parent)
            reason = "the folder of '%s' %s" % (self.given, "is no folder" if is_there else "does not exist")
            raise InputError(reason, hint=_ELSEWHERE if is_there else "create the folder first")
        try:
            if self.folder:
                recover(self.path)
            mode = self._mode()
        except OSError as error:
            raise self._write_error(error) from error
        check_not_read(self.path, self.read)
        if mode is None:
            return
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InputError("'%s' is a device or a pipe, not a file" % self.given, hint="choose the path of a file")
        if stat.S_ISDIR(mode) != self.folder:
            there, wanted = ("folder", "file") if stat.S_ISDIR(mode) else ("file", "folder")
            raise InputError("'%s' is a %s, and a %s is to be written" % (self.given, there, wanted), hint=_ELSEWHERE)
        if self.folder:
            self._check_folder()

    def _mode(self) -> Optional[int]:
        """Return the `st_mode` of the file or folder at the path, with links followed. None: nothing is there.

        A link into /proc, such as /dev/stdout, counts as a device. Raises InputError for a link to a missing file.
        Raises OSError for any other error of the file system.
        """
        if not os.path.islink(self.path):
            try:
                return os.stat(self.path).st_mode
            except FileNotFoundError:
                return None
        for link in _links(self.path):
            if link.startswith("/proc/"):  # /dev/stdout, whose type is that of any file it is redirected to
                return stat.S_IFCHR
        try:
            return os.stat(self.path).st_mode
        except FileNotFoundError:
            reason = "'%s' is a link to '%s', which does not exist" % (self.given, os.readlink(self.path))
            raise InputError(reason, hint="remove the link, or choose another path") from None

    def _check_folder(self) -> None:
        """Raise an InputError if the folder at the path may not be replaced. Otherwise do nothing.

        The folder may not be replaced in these cases:

        - The folder is protected (see `protection`).
        - The folder holds a file that is read.
        - `force` is False, and the folder is neither empty nor a SavedModel.
        """
        why = protection(self.path)
        if why is not None:
            raise InputError("'%s' %s: it is never replaced" % (self.given, why), hint="choose a folder inside it")
        foreign = None if self.force else first_foreign_entry(self.path)
        if foreign is not None:
            raise InputError(
                "'%s' is a folder that is no SavedModel: replacing it would delete '%s'" % (self.given, foreign),
                hint="choose another path, or replace the folder by force=True (--force)",
            )
        read = {_identity(file): file for file in self.read}
        for root, folders, names in os.walk(self.path) if read else ():
            for name in folders + names:
                file = read.get(_identity(os.path.join(root, name)))
                if file is not None:
                    raise _holding_error(self.path, file)

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """Create a scratch folder beside the path, and yield the scratch folder's path. Delete it after the block.

        The block writes the result into the scratch folder, and calls `put`, which moves the result to the path.

        Raises InputError if the scratch folder cannot be created. An OSError of the block in `_LOCATION_ERRORS`, such
        as a full disk, becomes an InputError. Other errors of the block are raised unchanged.
        """
        try:
            scratch = tempfile.mkdtemp(prefix=_SCRATCH, dir=os.path.dirname(self.path))
        except (OSError, ValueError) as error:
            raise self._write_error(error) from error
        try:
            yield scratch
        except OSError as error:
            if error.errno not in _LOCATION_ERRORS:
                raise
            raise self._write_error(error) from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def put(self, scratch_path: str) -> None:
        """Rename the result at `scratch_path`, in the scratch folder, to the path, after `check`.

        A file at the path is replaced in a single step, a folder by `replace_folder`. Raises InputError if the check or
        the rename fails.
        """
        self.check()  # the path may have changed while the work was done
        try:
            if self.folder and os.path.lexists(self.path):
                replace_folder(scratch_path, self.path)
            else:
                os.replace(scratch_path, self.path)
        except OSError as error:
            raise self._write_error(error) from error

    def _write_error(self, error: Exception) -> InputError:
        """Return the InputError for an error of the file system. If an old folder is set aside, the hint names it."""
        code = getattr(error, "errno", None)
        hint = "choose a path that can be written"
        if code in (errno.ENOSPC, errno.EDQUOT):
            hint = "make room there, or choose another path"
        aside = set_aside_path(self.path)
        if os.path.lexists(aside):
            hint += "; the folder that was there is now '%s'" % aside
        return InputError(
            "'%s' cannot be written: %s" % (self.given, getattr(error, "strerror", None) or error), hint=hint
        )


def put_together(files: Sequence[Tuple[Destination, str]]) -> None:
    """Put several files at their destinations, all or none. `files`: (destination, path of the scratch file).

    They are replaced in order. If one cannot be put, those before it get their old content back. Raises as `put` does.
    """
    for destination, _ in files:
        destination.check()
    undo: List[Tuple[str, Optional[str]]] = []
    try:
        for destination, scratch_path in files:
            old = None
            if os.path.lexists(destination.path) and len(files) > 1:
                old = scratch_path + ".old"
                _copy_name(destination.path, old)
            destination.put(scratch_path)
            undo.append((destination.path, old))
    except BaseException:
        for path, old in reversed(undo):
            if old is None:
                os.remove(path)
            else:
                os.replace(old, path)
        raise


def _copy_name(path: str, name: str) -> None:
    """Give a file a second name. A symbolic link is copied as a link."""
    try:
        os.link(path, name, follow_symlinks=False)
    except (OSError, NotImplementedError):  # a file system without hard links
        shutil.copy2(path, name, follow_symlinks=False)


def absolute_path(path: StrPath) -> str:
    """Return the absolute path of `path`. Links and "~" stay as they are.

    Raises InputError in these cases:

    - `path` is neither str nor PathLike[str], or is empty.
    - `path` has a null character, or a character that the file system cannot encode.
    - `path` is relative, and the current folder was deleted.
    """
    try:
        given = os.fspath(path)
    except TypeError:
        given = None
    if not isinstance(given, str) or not given or "\0" in given or not _is_encodable(given):
        raise InputError("%r is not a path" % (path,), hint="give a str or a pathlib.Path")
    try:
        return os.path.abspath(given)
    except OSError as error:  # the current folder was deleted
        raise InputError(
            "'%s' has no absolute path: %s" % (given, error), hint="change to a folder that exists"
        ) from error


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def files_of(source: object) -> List[str]:
    """Return the paths of the files that `source` is read from.

    - A path: the path itself, existing or not, and every file below it if it is a folder.
    - A loaded model: the model's file, if it was read from a file, and the files of its external data.
    - Anything else: an empty list. Examples: None, bytes, arrays, an empty path, a path with a null character.
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if not isinstance(path, str) or not path or "\0" in path:
            return []
        return [path, *(os.path.join(root, name) for root, _, names in os.walk(path) for name in names)]
    named = getattr(source, "path", None)
    return [path for path in (named, *getattr(source, "data_files", ())) if isinstance(path, str)]


def check_readable(path: StrPath, entries: bool = False) -> None:
    """Raise InputError if the path, with links followed, is neither a regular file nor a folder, or does not exist.

    A device, a pipe or a socket is refused, because to open it may block for ever. `entries`: whether every file below
    a folder is checked too.
    """
    if os.path.isdir(path):
        below = [os.path.join(root, name) for root, _, names in os.walk(path) for name in names] if entries else []
        for file in below:
            check_readable(file)
    elif not os.path.exists(path):
        reason = "'%s' is a link to a missing file" if os.path.islink(path) else "there is no file or folder '%s'"
        raise InputError(reason % path, hint="choose the path of a file")
    elif not os.path.isfile(path):
        raise InputError("'%s' is a device or a pipe, not a file" % path, hint="choose the path of a file")


def check_not_read(path: StrPath, read: Iterable[str]) -> None:
    """Raise InputError if writing to `path` would overwrite or delete a file in `read`. Otherwise do nothing.

    A folder at `path` is taken as replaced, with every file below it. Links are followed to compare files. InputError
    is also raised if `path` is no valid path (see `absolute_path`).
    """
    target = absolute_path(path)
    files = list(read)
    identity = _identity(target)
    for file in files:
        if _identity(file) == identity:
            raise InputError("'%s' would overwrite a file that is read: '%s'" % (target, file), hint=_ELSEWHERE)
    if os.path.isdir(target):
        for file in files:
            if _is_inside(file, target):
                raise _holding_error(target, file)


def _holding_error(folder: str, file: str) -> InputError:
    """Return the error for a folder that cannot be replaced, because it holds a file that is read."""
    reason = "'%s' holds '%s', which is used in the same run: the folder is not replaced" % (folder, file)
    return InputError(reason, hint=_ELSEWHERE)


def _identity(path: str) -> Any:
    """Return a key that is equal for all names of a file: (device, inode), or the real path if `os.stat` fails."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return os.path.normcase(os.path.realpath(path))
    return status.st_dev, status.st_ino


def _is_inside(file: str, folder: str) -> bool:
    """Whether the folder contains the file, at any depth.

    True if one of these paths of the file begins with the folder's path, as written or with all links followed:

    - the absolute path as it is written
    - the path with the links of its folders followed
    - the path with all links followed
    """
    name = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(file))), os.path.basename(file))
    names = {os.path.abspath(file), name, os.path.realpath(file)}
    roots = {os.path.abspath(folder), os.path.realpath(folder)}
    return any(
        os.path.normcase(path).startswith(os.path.normcase(os.path.join(root, ""))) for path in names for root in roots
    )


def _links(path: str) -> Iterator[str]:
    """Yield the path that each link points to, from a symbolic link along its chain to the final target.

    Yield nothing if `path` is no link. In a cycle of links, the first path that repeats is the last one yielded.
    """
    seen = set()
    while path not in seen and os.path.islink(path):
        seen.add(path)
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        yield path

"""The rules for paths that are written: which file or folder may be replaced, and how a finished one gets its name.

Every writer of a path that the user chose goes through `Destination`. It refuses, before any work is done, a path where
nothing can be written and a path whose content has to stay. What is written is made in a scratch folder beside the path
and renamed, so that a failure leaves what was there.
"""

import errno
import os
import shutil
import stat
import tempfile
from contextlib import contextmanager
from typing import Any, Iterable, Iterator, List, Optional

from onnx_compat.conversion.folder_replacement import (
    first_foreign_entry,
    protection,
    recover,
    replace_folder,
    set_aside_path,
)
from onnx_compat.errors import InputError

__all__ = ["Destination", "absolute_path", "check_not_read", "check_readable", "files_of"]

_SCRATCH = ".onnx-compat-"
_ELSEWHERE = "choose another path"
#: Errors that are about the place a file is written to. Any other failure has another cause.
_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO, errno.ENAMETOOLONG)


class Destination:
    """A path that a file is written to, or a folder (a SavedModel).

    path     what the user chose; `self.path` is the absolute path
    read     paths and models that are read in the same run: none of their files is overwritten or deleted
    folder   whether a folder is written. It replaces an empty folder or a SavedModel, and with `force` any other folder

    Raise an InputError where the path may not be written. A symbolic link to a file or folder is replaced itself: what it
    points to stays.
    """

    def __init__(self, path: Any, read: Iterable[Any] = (), folder: bool = False, force: bool = False) -> None:
        self.path = absolute_path(path)
        self.given = path
        self.folder = folder
        self.force = force
        self.read = [file for source in read for file in files_of(source)]
        self.check()

    def check(self) -> None:
        """Raise an InputError if the path may not be written now. Put a folder back that a killed run set aside."""
        parent = os.path.dirname(self.path)
        if not os.path.isdir(parent):
            is_there = os.path.lexists(parent)
            reason = "the folder of '%s' %s" % (self.given, "is no folder" if is_there else "does not exist")
            raise InputError(reason, hint=_ELSEWHERE if is_there else "make it first")
        try:
            if self.folder:
                recover(self.path)
            mode = self._mode()
        except OSError as error:
            raise self._not_written(error) from error
        check_not_read(self.path, self.read)
        if mode is None:
            return
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise InputError("'%s' is a device or a pipe, and no file" % self.given, hint="choose the path of a file")
        if stat.S_ISDIR(mode) != self.folder:
            there, wanted = ("folder", "file") if stat.S_ISDIR(mode) else ("file", "folder")
            raise InputError("'%s' is a %s, and a %s is to be written" % (self.given, there, wanted), hint=_ELSEWHERE)
        if self.folder:
            self._check_folder()

    def _mode(self) -> Optional[int]:
        """Return the type of what is at the path, through links. None: nothing is there."""
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
        """Refuse to replace a folder that is protected, or that is no SavedModel."""
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
                    raise _holds(self.path, file)

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """Make a folder beside the path, to write in what `put` then renames. The folder is removed in any case."""
        try:
            scratch = tempfile.mkdtemp(prefix=_SCRATCH, dir=os.path.dirname(self.path))
        except (OSError, ValueError) as error:
            raise self._not_written(error) from error
        try:
            yield scratch
        except OSError as error:
            if error.errno not in _PLACE:
                raise
            raise self._not_written(error) from error
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def put(self, made: str) -> None:
        """Rename what was written in a scratch folder to the path. What was there is replaced in one step."""
        self.check()  # the path may have changed while the work was done
        try:
            if self.folder and os.path.lexists(self.path):
                replace_folder(made, self.path)
            else:
                os.replace(made, self.path)
        except OSError as error:
            raise self._not_written(error) from error

    def _not_written(self, error: Exception) -> InputError:
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


def absolute_path(path: Any) -> str:
    """Return the path made absolute. Raise an InputError for anything but a path in text."""
    try:
        given = os.fspath(path)
    except TypeError:
        given = None
    if not isinstance(given, str) or not given or "\0" in given or not _is_encodable(given):
        raise InputError("%r is no path in text" % (path,), hint="give a str or a pathlib.Path")
    try:
        return os.path.abspath(given)
    except OSError as error:  # the current folder was deleted
        raise InputError("'%s' has no absolute path: %s" % (given, error), hint="change to a folder") from error


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def files_of(source: Any) -> List[str]:
    """Return the paths behind something that is read: a path, a folder with all its files, or a loaded model with its
    external data. Anything else (None, bytes, arrays) is in memory.
    """
    if isinstance(source, (str, os.PathLike)):
        path = os.fspath(source)
        if not isinstance(path, str) or not path or "\0" in path:
            return []
        return [path, *(os.path.join(root, name) for root, _, names in os.walk(path) for name in names)]
    named = getattr(source, "path", None)
    return [path for path in (named, *getattr(source, "data_files", ())) if isinstance(path, str)]


def check_readable(path: str) -> None:
    """Raise an InputError for a device, a pipe or a socket: opening one may block for ever."""
    if not os.path.isfile(path) and not os.path.isdir(path):
        raise InputError("'%s' is a device or a pipe, and no file" % path, hint="choose the path of a file")


def check_not_read(path: Any, read: Iterable[str]) -> None:
    """Raise an InputError if the path is a file that is read, or a folder that holds one. Links are followed."""
    target = absolute_path(path)
    files = list(read)
    identity = _identity(target)
    for file in files:
        if _identity(file) == identity:
            raise InputError("'%s' would be written over what is read: '%s'" % (target, file), hint=_ELSEWHERE)
    if os.path.isdir(target):
        for file in files:
            if _is_inside(file, target):
                raise _holds(target, file)


def _holds(folder: str, file: str) -> InputError:
    reason = "'%s' holds '%s', which is used in the same run: the folder is not replaced" % (folder, file)
    return InputError(reason, hint=_ELSEWHERE)


def _identity(path: str) -> Any:
    """Return the same for all names of a file: device and inode, or the resolved path where there is no file yet."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return os.path.normcase(os.path.realpath(path))
    return found.st_dev, found.st_ino


def _is_inside(file: str, folder: str) -> bool:
    """Whether the file, a link on the way to it, or what it points to lies in the folder."""
    name = os.path.join(os.path.realpath(os.path.dirname(os.path.abspath(file))), os.path.basename(file))
    names = {os.path.abspath(file), name, os.path.realpath(file)}
    roots = {os.path.abspath(folder), os.path.realpath(folder)}
    return any(
        os.path.normcase(one).startswith(os.path.normcase(os.path.join(root, ""))) for one in names for root in roots
    )


def _links(path: str) -> Iterator[str]:
    """Follow a symbolic link step by step."""
    seen = set()
    while path not in seen and os.path.islink(path):
        seen.add(path)
        path = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
        yield path

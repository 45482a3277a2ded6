"""Replace a folder so that an interrupt loses neither the old nor the new one; refuse to replace protected folders.

Linux swaps two folders in a single step (renameat2). On other systems the replacement of `out` takes three steps:

1. The old folder is set aside as `.out.onnx-compat-before` in the same parent folder.
2. The new folder is renamed to `out`.
3. The old folder is deleted.

An exception in between restores the old folder. After a SIGKILL in between, the next run that writes to the path
restores it.
"""

import os
import re
import tempfile
from contextlib import suppress
from typing import Any, Iterator, Optional

__all__ = ["first_foreign_entry", "protection", "recover", "replace_folder", "set_aside_path"]

_AT_FDCWD = -100  # fcntl.h: relative paths are relative to the current folder
_RENAME_EXCHANGE = 2  # linux/fs.h

#: The entries of a SavedModel: TensorFlow's saved_model/constants.py, and the metadata of tf.keras.
_MODELS = ("saved_model.pb", "saved_model.pbtxt", "saved_model.cpb")
_FILES = (*_MODELS, "fingerprint.pb", "keras_metadata.pb")
_FOLDERS = {
    "variables": re.compile(r"variables\.(index|data-\d+-of-\d+)"),
    "assets": re.compile(r".*", re.DOTALL),
    "assets.extra": re.compile(r".*", re.DOTALL),
    "debug": re.compile(r"saved_model_debug_info\.(pb|pbtxt|cpb)"),
}


def first_foreign_entry(folder: str) -> Optional[str]:
    """Return the first entry of the folder, in the order of names, that does not belong to a SavedModel; else None.

    The entry is a path relative to `folder`: "notes.txt", "variables/notes.txt". None: the folder is empty, or holds a
    SavedModel and nothing else. In a folder without saved_model.pb, .pbtxt or .cpb, the first entry is returned. Raises
    OSError if a folder cannot be read.
    """
    names = sorted(os.listdir(folder))
    if not names:
        return None
    if not any(os.path.isfile(os.path.join(folder, name)) for name in _MODELS):
        return names[0]
    for name in names:
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            pattern = _FOLDERS.get(name)
            if pattern is None:
                return name
            foreign = next((entry for entry in sorted(os.listdir(path)) if not pattern.fullmatch(entry)), None)
            if foreign is not None:
                return os.path.join(name, foreign)
        elif name not in _FILES:
            return name
    return None


def protection(folder: str) -> Optional[str]:
    """Return why a folder must never be replaced, or None if it may be. Example: "is a home folder, or holds one".

    Protected folders are the current folder, home folders, all folders that hold one of these, and the roots of file
    systems (mount points).
    """
    real = os.path.realpath(folder)
    if os.path.ismount(real):
        return "is the root of a file system"
    with suppress(OSError):  # the current folder was deleted
        if _holds(real, os.getcwd()):
            return "is the current folder, or holds it"
    if any(_holds(real, home) for home in _homes()):
        return "is a home folder, or holds one"
    return None


def _holds(folder: str, path: str) -> bool:
    """Return whether `path`, with links followed, is the folder itself or is inside of it."""
    inner, outer = (os.path.normcase(os.path.join(os.path.realpath(name), "")) for name in (path, folder))
    return inner.startswith(outer)


def _homes() -> Iterator[str]:
    """Yield the home folder of this user, then the home folders of all users that the system lists.

    The first is left out if it is unknown. Windows lists no users. Of the listed folders, only absolute paths are
    yielded.
    """
    if os.path.expanduser("~") != "~":
        yield os.path.expanduser("~")
    try:
        import pwd
    except ImportError:  # Windows
        return
    for entry in pwd.getpwall():
        if os.path.isabs(entry.pw_dir):
            yield entry.pw_dir


def set_aside_path(target: str) -> str:
    """Return the path to which the old folder at `target` is renamed during a replacement.

    It is `.<name>.onnx-compat-before` in the same parent folder.
    """
    folder, name = os.path.split(target)
    return os.path.join(folder, ".%s.onnx-compat-before" % name)


def recover(target: str) -> None:
    """Rename the folder at `set_aside_path(target)` to `target`, from which a killed run had moved it.

    Do nothing if there is no such folder, or if `target` exists.
    """
    aside = set_aside_path(target)
    if os.path.isdir(aside) and not os.path.lexists(target):
        os.rename(aside, target)


def replace_folder(scratch_path: str, target: str) -> None:
    """Rename a finished folder, at `scratch_path` in the scratch folder, to the path `target` of an existing folder.

    The old folder moves into the scratch folder, which the caller deletes. So does a folder that a killed run had set
    aside. After an error the old folder is at `target` again, and the error is raised.
    """
    aside = set_aside_path(target)
    old = tempfile.mkdtemp(dir=os.path.dirname(scratch_path))
    if os.path.lexists(aside):  # a run was killed before it deleted this folder; the target is newer
        os.rename(aside, os.path.join(old, "older"))
    if _swap(scratch_path, target):
        return
    try:
        os.rename(target, aside)
        os.rename(scratch_path, target)
    finally:  # test the folders: an interrupt may come between a rename and the next line
        if os.path.lexists(aside) and not os.path.lexists(target):
            os.rename(aside, target)
        elif os.path.lexists(aside) and not os.path.lexists(scratch_path):
            os.rename(aside, os.path.join(old, "before"))


def _swap(first: str, second: str) -> bool:
    """Exchange two paths in one step, and return True.

    Return False if renameat2 is missing or fails. Both paths are then unchanged.
    """
    function = _renameat2()
    if function is None:
        return False
    paths = os.fsencode(first), os.fsencode(second)
    return bool(function(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0)


def _renameat2() -> Any:
    """Return the function `renameat2` of the C library.

    Return None if ctypes or the C library cannot be loaded, or if the C library has no such function.
    """
    try:
        import ctypes

        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (ImportError, OSError, TypeError, AttributeError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function

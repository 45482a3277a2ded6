"""Where a file is made before it gets its name: whatever fails leaves nothing behind, and tells what was in the way."""

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from typing import Any, Iterator

from onnx_compat.errors import InputError

__all__ = ["beside", "check_place", "not_written"]

#: What the place has against a file. Any other failure is not of the file that is written.
_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


def check_place(path: Any, *read: Any) -> None:
    """Refuse a place where nothing can be put, or where what is there must stay: a device, and a file that is `read`."""
    target = os.path.abspath(os.fspath(path))
    if not os.path.isdir(os.path.dirname(target)):
        raise InputError("the folder of '%s' does not exist" % path, hint="make it first")
    if not os.path.exists(target):
        return
    descriptor = os.path.islink(target) and os.readlink(target).startswith("/proc/")  # /dev/stdout, whatever that is
    if descriptor or not (os.path.isfile(target) or os.path.isdir(target)):
        raise InputError("'%s' is a device or a pipe, and no file" % path, hint="choose the path of a file")
    for one in read:
        if isinstance(one, (str, os.PathLike)) and os.path.exists(one) and os.path.samefile(one, target):
            raise InputError("'%s' would be written over what is read from it" % path, hint="choose another path")


@contextmanager
def beside(path: Any, *read: Any) -> Iterator[str]:
    """A new folder in the folder of `path`, from which what is finished is renamed; it goes in any case."""
    check_place(path, *read)
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    try:
        scratch = tempfile.mkdtemp(prefix=".onnx-compat-", dir=folder)
    except OSError as error:
        raise not_written(path, error) from error
    try:
        yield scratch
    except OSError as error:
        if error.errno not in _PLACE:
            raise
        raise not_written(path, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def not_written(path: Any, error: OSError) -> InputError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "make room there, or choose another path" if full else "choose a path that can be written"
    return InputError("'%s' cannot be written: %s" % (path, error.strerror or error), hint=hint)

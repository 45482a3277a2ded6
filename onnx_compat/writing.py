"""Where a file is made before it gets its name: whatever fails leaves nothing behind, and tells what was in the way."""

import errno
import os
import shutil
import tempfile
from contextlib import contextmanager
from typing import Any, Iterator

from onnx_compat.errors import InputError

__all__ = ["beside", "not_written"]

#: What the place has against a file. Any other failure is not of the file that is written.
_PLACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)


@contextmanager
def beside(path: Any) -> Iterator[str]:
    """A new folder in the folder of `path`, from which what is finished is renamed; it goes in any case."""
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    if not os.path.isdir(folder):
        raise InputError("the folder of '%s' does not exist" % path, hint="make it first")
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

"""The boundary of the library: every error that a public function raises is an `OnnxCompatError`.

Readers, meanings and shims raise typed errors for everything that they foresee. A damaged file, a tensor that is too
large for the memory, or a defect of a framework can still raise any exception. The boundary converts such an exception
once, and keeps it as `__cause__`, with its traceback.
"""

import functools
import lzma
import zipfile
import zlib
from typing import Any, Callable, TypeVar, cast

from onnx_compat.discovery.memory import describe_memory_error
from onnx_compat.errors import InputError, InvalidModelError, OnnxCompatError, UnexpectedError, UnsupportedError

__all__ = ["DAMAGED", "typed_error", "typed_errors"]

#: The errors of archives and texts that are damaged. `zipfile` raises RuntimeError for an encrypted member.
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, UnicodeError)

Function = TypeVar("Function", bound=Callable[..., Any])


def typed_errors(function: Function) -> Function:
    """Decorate a function of the public interface: it raises an `OnnxCompatError` in place of any other exception.

    `typed_error` describes the conversion. These exceptions pass unchanged:

    - an `OnnxCompatError`;
    - a warning that the caller has turned into an exception;
    - a TypeError for a call whose arguments do not fit the signature: unknown, missing or too many;
    - an exception that is no `Exception`, such as KeyboardInterrupt.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (OnnxCompatError, Warning):
            raise
        except Exception as error:  # the boundary: see the docstring of this module
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                raise  # the call itself failed: wrong arguments
            raise typed_error(error) from error

    return cast(Function, call)


def typed_error(error: Exception) -> OnnxCompatError:
    """Return the `OnnxCompatError` for an exception. The caller raises it from the exception.

    - An OnnxCompatError: itself.
    - OSError: an InputError.
    - Damaged archives and texts (`DAMAGED`): an InvalidModelError.
    - MemoryError and RecursionError: an UnsupportedError.
    - Any other exception: an UnexpectedError.
    """
    if isinstance(error, OnnxCompatError):
        return error
    summary = "%s: %s" % (type(error).__name__, error) if str(error) else type(error).__name__
    if isinstance(error, OSError):
        file = "" if error.filename is None else " '%s'" % (error.filename,)
        return InputError("a file%s cannot be read or written: %s" % (file, error.strerror or summary))
    if isinstance(error, DAMAGED):
        return InvalidModelError("a file is damaged: " + summary, hint="write it again, or copy it again")
    if isinstance(error, MemoryError):
        details = ": %s" % describe_memory_error(error) if str(error) else ""
        return UnsupportedError("the memory does not suffice" + details, hint="try smaller sizes")
    if isinstance(error, RecursionError):
        return UnsupportedError("the model is nested too deeply: " + summary)
    return UnexpectedError(
        summary, hint="if onnx.checker accepts the model, please report this error with the model and its traceback"
    )

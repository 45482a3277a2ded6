"""Import TensorFlow without the messages that it prints while it loads. The user's logging settings are not changed."""

import importlib
import os
import sys
import tempfile
import warnings
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Tuple

from onnx_compat.shim import import_error_text
from onnx_compat_tensorflow.framework_types import TensorFlow

__all__ = ["import_or_reason", "import_tensorflow", "silence_stderr"]


def import_tensorflow() -> TensorFlow:
    """Return the module `tensorflow`. The first import is made without warnings and output on standard error.

    Raises any error of the import; the captured output is then written to standard error.
    """
    if "tensorflow" in sys.modules:
        return importlib.import_module("tensorflow")
    with silence_stderr(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("tensorflow")


def import_or_reason(extra: str) -> Tuple[Optional[Any], str]:
    """Return (module `tensorflow`, ""). If the import raises any error, return (None, reason as text for the user).

    `extra` is the extra of onnx-compat that the reason tells the user to install, such as "tf2".
    """
    try:
        return import_tensorflow(), ""
    except ModuleNotFoundError as error:
        if error.name == "tensorflow":
            return None, "TensorFlow is not installed: pip install 'onnx-compat[%s]'" % extra
        return None, "TensorFlow cannot be imported: it needs %s" % error.name
    except Exception as error:  # noqa: BLE001  (an import that does not fit its environment may raise anything)
        return None, "TensorFlow cannot be imported: %s" % import_error_text(error)


@contextmanager
def silence_stderr() -> Iterator[None]:
    """Context manager that captures standard error, also of native code.

    The output is discarded if the body does not raise. If the body raises, the output is written to standard error. In
    a process without standard error, the body runs without a capture.
    """
    try:
        standard_error = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 2)
        try:
            yield
        except BaseException:
            output.seek(0)
            os.write(standard_error, output.read())
            raise
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)

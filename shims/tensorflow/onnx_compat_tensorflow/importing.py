"""Importing TensorFlow without what it prints on the way; nothing of the user's logging is changed for good."""

import importlib
import os
import sys
import tempfile
import warnings
from contextlib import contextmanager
from typing import Any, Iterator, Optional, Tuple

from onnx_compat.shim import import_error_text

__all__ = ["found", "quiet", "tensorflow"]


def tensorflow() -> Any:
    """The module; imported silently if it is not yet."""
    if "tensorflow" in sys.modules:
        return importlib.import_module("tensorflow")
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module("tensorflow")


def found(extra: str) -> Tuple[Optional[Any], str]:
    """The module, or None and why not, in words. `extra`: what to install."""
    try:
        return tensorflow(), ""
    except ModuleNotFoundError as error:
        if error.name == "tensorflow":
            return None, "TensorFlow is not installed: pip install 'onnx-compat[%s]'" % extra
        return None, "TensorFlow cannot be imported: it needs %s" % error.name
    except Exception as error:  # noqa: BLE001  (an import that does not fit its environment may raise anything)
        return None, "TensorFlow cannot be imported: %s" % import_error_text(error)


@contextmanager
def quiet() -> Iterator[None]:
    """Standard error goes nowhere meanwhile, also what native code writes there; if it fails it is shown after all."""
    try:
        kept = os.dup(2)
    except OSError:  # there is no standard error
        yield
        return
    with tempfile.TemporaryFile() as said:
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException:
            said.seek(0)
            os.write(kept, said.read())
            raise
        finally:
            os.dup2(kept, 2)
            os.close(kept)

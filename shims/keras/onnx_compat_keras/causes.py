"""Find the sentence of a message of Keras that states the cause."""

import re

from onnx_compat.shim import error_line

__all__ = ["cause_of"]

#: What Keras puts before the error of a layer or an operation. The cause follows.
_HEADING = re.compile(r".*(Exception encountered when calling [^\n]*|Error encountered:)\n", re.DOTALL)


def cause_of(error: Exception) -> str:
    """Return the type of an error of Keras and its cause, in one line: `ValueError: Kernel shape must have …`."""
    return "%s: %s" % (type(error).__name__, error_line(_HEADING.sub("", str(error))))

"""Convert TensorFlow's run-time errors to `OnnxCompatError`, with the sentence of their message that states the cause."""

import re
from contextlib import contextmanager
from typing import Iterator

from onnx_compat.shim import OnnxCompatError, error_line
from onnx_compat_tensorflow.framework_types import TensorFlow

__all__ = ["message_text", "run_errors"]

#: "[[{{node conv/Conv2D}}]]", or "[[node conv/Conv2D (defined at ...) ]]" before TensorFlow 2.
_OPERATION = re.compile(r"\[\[(?:\{\{)?node ([^ }\]]+)")
#: Lines before the cause: several errors, the operation (TensorFlow 2.6 to 2.12), its frames. Code is indented.
_OTHER = re.compile(r"\d+ root error\(s\) found\.|Node: '|Detected at node|Graph execution error:|\s(?!\s*\(\d+\) )|$")
#: Text before the cause in its line: the number and kind of one of several errors, the function of an eager operation.
_BEFORE = re.compile(r"\s*(\(\d+\) [A-Za-z_ ]+:\s+)?(\{\{function_node [^}]*\}\}\s*)?")
#: The heading of the names of the functions that led to the operation.
_STACK = "Function call stack:"
_AFTER = re.compile(r"\s*\[Op:[^\]]*\].*$")


def message_text(message: str) -> str:
    """Return the cause of an error of TensorFlow in one line, from its message: "Bad shapes (operation 'conv/Add')".

    The part "(operation ...)" is missing if the message names no operation. The name of an operation begins with the
    name of the ONNX node. Headings, tracebacks and names of functions are left out. Returns "" for a blank message.
    """
    text = message.partition(_STACK)[0].strip()  # TensorFlow 2.0 indents the first line
    causes = [line for line in text.splitlines() if not _OTHER.match(line)]
    cause = causes[0] if causes else error_line(message)
    cause = _AFTER.sub("", _BEFORE.sub("", cause, count=1)).strip()
    operation = _OPERATION.search(message)
    return cause if operation is None else "%s (operation '%s')" % (cause, operation.group(1))


@contextmanager
def run_errors(tf: TensorFlow) -> Iterator[None]:
    """Context manager that converts a tf.errors.OpError of the body to an OnnxCompatError. Other errors are not caught.

    The new error has the cause from TensorFlow's message, and the operation.
    """
    try:
        yield
    except tf.errors.OpError as error:
        raise OnnxCompatError(
            "TensorFlow stopped with %s: %s" % (type(error).__name__, message_text(error.message or "")),
            hint="check that the model accepts the sizes and values of these inputs",
        ) from error

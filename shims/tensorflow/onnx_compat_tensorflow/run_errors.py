"""Convert TensorFlow's run-time errors to `OnnxCompatError`."""

from contextlib import contextmanager
from typing import Iterator

from onnx_compat.shim import OnnxCompatError
from onnx_compat_tensorflow.framework_types import TensorFlow

__all__ = ["run_errors"]


@contextmanager
def run_errors(tf: TensorFlow) -> Iterator[None]:
    """Context manager that converts a tf.errors.OpError of the body to an OnnxCompatError. Other errors are not caught.

    The new error has the first line of TensorFlow's message, which names the operation. The operation's name begins with the
    name of the ONNX node.
    """
    try:
        yield
    except tf.errors.OpError as error:
        text = (error.message or "").strip()
        raise OnnxCompatError(
            "TensorFlow stopped with %s: %s" % (type(error).__name__, (text.splitlines() or [""])[0]),
            hint="check that the model accepts the sizes and values of these inputs",
        ) from error

"""What can go wrong while TensorFlow runs, in the library's words."""

from contextlib import contextmanager
from typing import Any, Iterator

from onnx_compat.shim import OnnxCompatError

__all__ = ["run_errors"]


@contextmanager
def run_errors(tf: Any) -> Iterator[None]:
    """An error of TensorFlow's own becomes one of ours; it names the operation, and so the node."""
    try:
        yield
    except tf.errors.OpError as error:
        text = (error.message or "").strip()
        raise OnnxCompatError(
            "TensorFlow stopped with %s: %s" % (type(error).__name__, (text.splitlines() or [""])[0]),
            hint="check that the sizes and values of the inputs are ones that the model is made for",
        ) from error

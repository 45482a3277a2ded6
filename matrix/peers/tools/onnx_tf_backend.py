"""onnx-tf as a peer, called by `onnx_tf.backend.prepare`, the entry point in its documentation."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Sequence, Union

import numpy as np
import onnx

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: TID253 - in the environment of the peer only
from onnx_tf.backend import prepare as onnx_tf_prepare  # type: ignore[import-not-found]  # in the environment of the peer only

__all__ = ["LEAKS", "PACKAGES", "REFUSED", "prepare"]

LEAKS = True  # onnx-tf keeps the cells of recurrent networks from one model to the next
PACKAGES = ("onnx-tf", "tensorflow-cpu", "onnx", "numpy")
REFUSED = (
    "^BackendIsNotSupposedToImplementIt",
    "^OpUnsupportedException",
    "is not implemented",
    "(is|are) not supported (in|by|due)",
    "Cannot set non-1 dilation",
    # The release of onnx that onnx-tf pins is too old to read the model.
    "^ValidationError",
)

_BFLOAT16 = tf.bfloat16.as_numpy_dtype


def prepare(model: Union[str, bytes]) -> Callable[[Dict[str, Any]], Sequence[Any]]:
    """Return a function from inputs by name to the outputs of the model. `model`: a path or bytes."""
    proto = onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)
    prepared = onnx_tf_prepare(proto)
    kind = onnx.TensorProto.BFLOAT16
    bfloats = {value.name for value in proto.graph.input if value.type.tensor_type.elem_type == kind}

    def run(inputs: Dict[str, Any]) -> Sequence[Any]:
        feeds = {
            name: np.asarray(value).astype(_BFLOAT16) if name in bfloats else value for name, value in inputs.items()
        }
        return [_convert_output(value) for value in prepared.run(feeds)]

    return run


def _convert_output(value: Any) -> Any:
    """Convert an output to the recorded type: TensorFlow returns bytes for text, and bfloat16 is recorded as float32."""
    if isinstance(value, (list, tuple)):
        return [_convert_output(item) for item in value]
    if isinstance(value, bytes):
        return np.array(value.decode("utf-8"), object)
    dtype = getattr(value, "dtype", None)
    if dtype is not None and dtype.kind == "O":
        return np.array([text.decode("utf-8") for text in value.reshape(-1)], object).reshape(value.shape)
    return np.asarray(value, np.float32) if dtype == _BFLOAT16 else value

"""onnx-tf, by the entry point of its documentation."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Sequence, Union

import numpy as np
import onnx

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import tensorflow as tf  # noqa: TID253 - in the environment of the peer only
from onnx_tf.backend import prepare as onnx_tf_prepare  # type: ignore[import-not-found]

__all__ = ["PACKAGES", "REFUSED", "prepare"]

PACKAGES = ("onnx-tf", "tensorflow-cpu", "onnx", "numpy")
REFUSED = (
    "^BackendIsNotSupposedToImplementIt",
    "^OpUnsupportedException",
    "is not implemented",
    # What its onnx is too old to read.
    "^ValidationError",
)

_BFLOAT16 = tf.bfloat16.as_numpy_dtype


def prepare(model: Union[str, bytes]) -> Callable[[Dict[str, Any]], Sequence[Any]]:
    proto = onnx.load(model) if isinstance(model, str) else onnx.load_from_string(model)
    prepared = onnx_tf_prepare(proto)
    kind = onnx.TensorProto.BFLOAT16
    bfloats = {value.name for value in proto.graph.input if value.type.tensor_type.elem_type == kind}

    def run(inputs: Dict[str, Any]) -> Sequence[Any]:
        fed = {
            name: np.asarray(value).astype(_BFLOAT16) if name in bfloats else value for name, value in inputs.items()
        }
        return [_carried(value) for value in prepared.run(fed)]

    return run


def _carried(value: Any) -> Any:
    """Of TensorFlow's own bfloat16 nothing but TensorFlow can be compared; the recorded ones come as float32 here."""
    return np.asarray(value, np.float32) if getattr(value, "dtype", None) == _BFLOAT16 else value

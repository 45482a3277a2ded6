"""Check values of a training: batch sizes, new states, and numbers that are not finite."""

from typing import Any, Mapping

import numpy as np

from onnx_compat.errors import InputError, NonFiniteError
from onnx_compat.ir.dtypes import from_public
from onnx_compat.training.tensors import public_dtype
from onnx_compat.training.training_info import TrainingInfo

__all__ = ["check_array", "check_batch_size", "check_finite"]


def check_batch_size(batch_size: int) -> int:
    """Return the batch size. Raises InputError if it is below 1."""
    if batch_size < 1:
        raise InputError("the batch size is %s; it must be at least 1" % batch_size)
    return batch_size


def check_array(info: TrainingInfo, name: str, array: np.ndarray, error: Any) -> None:
    """Raise `error` if an array has another dtype or shape than the state `name`."""
    tensor = info.states[name]
    dtype, shape = public_dtype(tensor), tuple(tensor.dims)
    if array.dtype != dtype or array.shape != shape:
        raise error(
            "the state '%s' is %s%s, and its new value is %s%s"
            % (name, dtype, list(shape), array.dtype, list(array.shape)),
            hint="both must have one dtype and one shape",
        )


def check_finite(results: Mapping[str, Any], states: Mapping[str, np.ndarray]) -> None:
    """Raise NonFiniteError for the first result or state that holds NaN or infinity."""
    for kind, values in (("result", results), ("state", states)):
        for name, value in values.items():
            array = from_public(value)[0]
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise NonFiniteError(
                    "the %s '%s' is not finite" % (kind, name),
                    hint="lower the learning rate, clip the gradients, or look for wrong values in the data",
                )

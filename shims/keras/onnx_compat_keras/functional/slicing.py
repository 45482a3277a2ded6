"""Slice symbolic Keras tensors by operations that this release of Keras can save and load."""

from typing import Any, Sequence

from onnx_compat.shim import UnsupportedError
from onnx_compat_keras.features import keeps_keys
from onnx_compat_keras.framework_types import Handle, KerasOps, SymbolicTensor

__all__ = ["cut"]


def cut(ops: KerasOps, x: SymbolicTensor, key: Sequence[Any]) -> Handle:
    """Return `x[key]`. `key` has ints, slices and at most one Ellipsis.

    ops.get_item computes the result. If this Keras cannot load a saved get_item, ops.take computes it axis by axis.
    Then UnsupportedError is raised for a slice of an axis of unknown length, except for `:`, `:1` and `0:1`.
    """
    if keeps_keys():
        return ops.get_item(x, tuple(key))
    if Ellipsis in key:
        at = key.index(Ellipsis)
        key = (*key[:at], *[slice(None)] * (len(x.shape) - len(key) + 1), *key[at + 1 :])
    for axis, part in reversed([*enumerate(key)]):
        if part == slice(None):
            continue
        if part in (slice(None, 1), slice(0, 1)):
            part = [0]  # index 0 exists for every length
        elif isinstance(part, slice):
            if x.shape[axis] is None:
                raise UnsupportedError(
                    "this Keras cannot load a model that slices an axis of unknown length",
                    hint="use a newer Keras 3, or fix the length of that axis",
                )
            part = [*range(*part.indices(x.shape[axis]))]
        # Keras 3.0 makes an empty list a float64 array, which TensorFlow refuses as indices of take.
        x = ops.split(x, [0], axis=axis)[0] if part == [] else ops.take(x, part, axis=axis)
    return x

"""Pickle a loaded model as the bytes of an ONNX file, which do not depend on the release of this library."""

from typing import Any, Callable, Tuple

from onnx_compat.errors import UnsupportedError
from onnx_compat.model.graph import Model
from onnx_compat.model.write import to_proto

__all__ = ["reduce_model"]

#: A message of protobuf has at most this many bytes.
_MOST_BYTES = 2**31 - 1
_HINT = "pass the path of the model, and load it in each process"


def reduce_model(model: Model) -> Tuple[Callable[..., Model], Tuple[Any, ...]]:
    """Return the pickle of a model: the function `load`, and its argument, the bytes of an ONNX file.

    The bytes hold all weights, those of external data too. Functions stay inlined. The model's path is not kept.

    Raises UnsupportedError if the bytes would exceed 2 GB, or if one file cannot hold the nodes (see `extract`). Raises
    InvalidModelError if a weight cannot be read.
    """
    from onnx_compat.model.loading import load

    size = sum(initializer.nbytes for initializer in model.graph.initializers.values())
    if size > _MOST_BYTES:
        raise UnsupportedError("a model with %.1f GB of weights cannot be pickled" % (size / 1e9), hint=_HINT)
    try:
        proto = to_proto(model)
    except UnsupportedError as error:
        raise UnsupportedError("the model cannot be pickled: " + error.reason, hint=_HINT) from error
    for key, value in model.metadata.items():
        proto.metadata_props.add(key=key, value=value)
    try:
        return load, (bytes(proto.SerializeToString()),)
    except Exception as error:  # protobuf's own errors differ between its versions
        raise UnsupportedError("the model cannot be pickled: %s" % error, hint=_HINT) from error

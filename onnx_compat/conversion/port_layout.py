"""Inputs and outputs of a file whose channels come last, where the model has them as the second axis: [N, H, W, C].

An image is so in most places that a file is used in. Inside of the file nothing moves for it: convolutions take channels
last where the framework wants them so, and the order of the others is a pending permutation (see `onnx_compat.tracing.layout`).
"""

from typing import Any, Dict, Iterable, Mapping, Sequence, Tuple

import numpy as np

from onnx_compat.errors import InputError
from onnx_compat.model import Graph, TensorType
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.values import Tensor

__all__ = ["channels_last_port", "check_channels_last", "to_channels_first", "to_channels_last", "turned"]


def check_channels_last(graph: Graph, names: Sequence[str]) -> Tuple[str, ...]:
    """The names, if all are of inputs or outputs that have channels."""
    ports = {one.name: one.type for one in (*graph.required, *graph.outputs)}
    for name in names:
        if name not in ports:
            raise InputError(
                "the model has no input or output named '%s'" % name, hint="its names are %s" % ", ".join(ports)
            )
        kind = ports[name]
        if kind is not None and (not isinstance(kind, TensorType) or (kind.rank is not None and kind.rank < 3)):
            raise _without_channels(name, str(kind))
    return tuple(names)


def _without_channels(name: str, kind: str) -> InputError:
    return InputError(
        "'%s' has no channels to be put last: it is %s" % (name, kind),
        hint="channels_last (--channels-last) is for tensors of rank 3 or more",
    )


def channels_last_port(one: Port) -> Port:
    """As the file has it."""
    return one._replace(shape=(one.shape[0], *one.shape[2:], one.shape[1]))


def to_channels_first(x: Tensor) -> Tensor:
    """[N, spatial..., C] as [N, C, spatial...]."""
    from onnx_compat.primitives.shape import transpose

    return transpose(x, (0, x.rank - 1, *range(1, x.rank - 1)))


def to_channels_last(x: Any, name: str) -> Tensor:
    """The other way round, of an output whose rank the model need not have told."""
    from onnx_compat.primitives.shape import transpose

    if not isinstance(x, Tensor) or x.rank < 3:
        raise _without_channels(name, "of rank %d" % x.rank if isinstance(x, Tensor) else "no tensor")
    return transpose(x, (0, *range(2, x.rank), 1))


def turned(values: Mapping[str, Any], names: Iterable[str], to: str) -> Dict[str, Any]:
    """Arrays by name, with the channels of these put "first" (the second axis) or "last"."""
    found = dict(values)
    places = (1, -1) if to == "last" else (-1, 1)
    for name in names:
        if name in found and np.ndim(found[name]) > 2:
            found[name] = np.ascontiguousarray(np.moveaxis(np.asarray(found[name]), *places))
    return found

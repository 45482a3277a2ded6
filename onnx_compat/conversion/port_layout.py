"""Port layout: inputs and outputs of a file that have their channels last, [N, H, W, C], where the model has [N, C, H,
W].

Most programs that use a file hold images with channels last. A port with channels last costs no transpose in the file
if the framework's convolutions take channels last. Otherwise the permutation stays pending until an operator needs
another order (see `onnx_compat.tracing.layout`).
"""

from typing import Any, Dict, Iterable, Mapping, Sequence, Tuple

import numpy as np

from onnx_compat.errors import InputError
from onnx_compat.model import Graph, TensorType
from onnx_compat.shim.interface import Port
from onnx_compat.tracing.values import Tensor

__all__ = ["channels_last_port", "check_channels_last", "move_channels", "to_channels_first", "to_channels_last"]

#: A value while the model is traced: see `onnx_compat.execution.feeds`, which cannot be imported here.
TracedValue = Any


def check_channels_last(graph: Graph, names: Sequence[str]) -> Tuple[str, ...]:
    """Check that each name is an input or output that can have its channels last. Return `names` as a tuple.

    Raises InputError in these cases:

    - A name is neither an output nor an input without a default.
    - The declared type is no tensor, or a tensor of rank < 3. An undeclared type or rank is accepted.
    """
    ports = {port.name: port.type for port in (*graph.required, *graph.outputs)}
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
        "'%s' has no channels that can be moved to the last axis: it is %s" % (name, kind),
        hint="channels_last (--channels-last) is for tensors of rank 3 or more",
    )


def channels_last_port(port: Port) -> Port:
    """Return the port, of rank 3 or more, with its shape permuted from [N, C, spatial...] to [N, spatial..., C]."""
    return port._replace(shape=(port.shape[0], *port.shape[2:], port.shape[1]))


def to_channels_first(x: Tensor) -> Tensor:
    """Return x, a traced tensor of rank 3 or more, transposed from [N, spatial..., C] to [N, C, spatial...].

    The permutation of a run-time tensor stays pending; a known tensor is transposed at once.
    """
    from onnx_compat.primitives.shape import transpose

    return transpose(x, (0, x.rank - 1, *range(1, x.rank - 1)))


def to_channels_last(x: TracedValue, name: str) -> Tensor:
    """Return x, the traced output `name`, transposed from [N, C, spatial...] to [N, spatial..., C].

    The permutation of a run-time tensor stays pending; a known tensor is transposed at once. Raise an InputError if x
    is no tensor or has rank < 3: `check_channels_last` cannot find this where the model does not declare the rank.
    """
    from onnx_compat.primitives.shape import transpose

    if not isinstance(x, Tensor) or x.rank < 3:
        raise _without_channels(name, "of rank %d" % x.rank if isinstance(x, Tensor) else "no tensor")
    return transpose(x, (0, *range(2, x.rank), 1))


def move_channels(values: Mapping[str, Any], names: Iterable[str], to: str) -> Dict[str, Any]:
    """Return a copy of `values` (name -> array) with the channel axis of the arrays in `names` moved.

    `to` is "last" to move axis 1 to the end, or "first" to move the last axis to axis 1. Moved arrays are contiguous in
    memory. Arrays of rank below 3 stay as they are. Names that `values` lacks are ignored.
    """
    arrays = dict(values)
    axes = (1, -1) if to == "last" else (-1, 1)
    for name in names:
        if name in arrays and np.ndim(arrays[name]) > 2:
            arrays[name] = np.ascontiguousarray(np.moveaxis(np.asarray(arrays[name]), *axes))
    return arrays

"""Knowledge: what one trace of a model says about each named value: its elements, its type, and equal values."""

from typing import Any, Dict, Mapping, Optional, Sequence, Set

import numpy as np

from onnx_compat.errors import OnnxCompatError
from onnx_compat.ir import Spec
from onnx_compat.ir.dims import Dim
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import Graph, Initializer, Model, TensorType, Type, ValueInfo
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.trace import Trace
from onnx_compat.tracing.values import Tensor

__all__ = ["Knowledge", "trace_knowledge"]


class Knowledge:
    """The traced tensors of a model by name. A value that could not be traced, or that is no tensor, has no entry.

    - tensors: value name -> traced Tensor, for inputs and node outputs of the outermost graph.
    - stored: initializer name -> Initializer, decoded on demand. An initializer that a caller may replace has no entry.
    - failed: node name -> the error of its meaning.
    """

    def __init__(
        self,
        tensors: Optional[Dict[str, Tensor]] = None,
        stored: Optional[Mapping[str, Initializer]] = None,
        failed: Optional[Mapping[str, OnnxCompatError]] = None,
    ) -> None:
        self.tensors: Dict[str, Tensor] = tensors or {}
        self.stored = dict(stored or {})
        self.failed = dict(failed or {})

    def array(self, name: str) -> Optional[np.ndarray]:
        """Return the elements of a value as a carrier array; None if they are not known."""
        tensor = self.tensor(name)
        return None if tensor is None or not tensor.known else tensor.value

    def spec(self, name: str) -> Optional[Spec]:
        """Return the dtype and shape of a value; None if they are not known. A size may be symbolic."""
        if name in self.stored and name not in self.tensors:
            return Spec(self.stored[name].dtype, self.stored[name].shape)
        tensor = self.tensors.get(name)
        return None if tensor is None else tensor.spec

    def tensor(self, name: str) -> Optional[Tensor]:
        """Return the traced tensor of a value; None for a value without one. An initializer is decoded."""
        if name not in self.tensors and name in self.stored:
            initializer = self.stored[name]
            return Tensor(initializer.dtype, initializer.shape, initializer.array())
        return self.tensors.get(name)

    def note(self, name: str, array: np.ndarray, dtype: DType) -> None:
        """Note the elements of a new value."""
        self.tensors[name] = Tensor(dtype, array.shape, array)

    def note_spec(self, name: str, spec: Optional[Spec]) -> None:
        """Note the type of a new value. None: it is not known."""
        if spec is not None:
            self.tensors[name] = Tensor(spec.dtype, spec.shape)

    def identity(self, name: str) -> Any:
        """Return a key that is equal for two values with equal elements at every run.

        None: the elements of the value are known, or nothing is known of it.
        """
        tensor = self.tensors.get(name)
        if tensor is None or tensor.known:
            return None
        if tensor.ref is not None:
            return tensor.dtype, tensor.ref, tensor.order
        if tensor.value is None or not isinstance(tensor.shape, tuple):
            return None
        return tensor.dtype, tensor.value.shape, tuple(_size_key(size) for size in tensor.value.reshape(-1))


#: Names that exporters give to every unknown size.
_PLACEHOLDERS = frozenset(["None", "none", "-1", "unknown", "unk"])


def _size_key(size: Any) -> Any:
    """Return a hashable key of a size whose comparison never raises Undecided."""
    return frozenset(size.terms.items()) if isinstance(size, Dim) else int(size)


def trace_knowledge(model: Model, variable: Set[str]) -> Knowledge:
    """Trace a model once. Return the traced values as a `Knowledge`; nodes that cannot be traced are in its `failed`.

    `variable`: the names of initializers that a caller may replace, or that training changes. They are not known.

    Raises InvalidModelError for an invalid node, and LimitError above a limit.
    """
    graph = model.graph
    ports = {port.name: port for port in graph.inputs}
    ports.update((name, ValueInfo(name, graph.initializers[name].type)) for name in variable if name not in ports)
    stored = {name: value for name, value in graph.initializers.items() if name not in variable}
    traced = Graph(graph.name, list(ports.values()), graph.outputs, graph.nodes, stored)
    fed = {port.name: spec for port, spec in ((port, declared_spec(port.type)) for port in traced.required) if spec}
    tensors: Dict[str, Tensor] = {}

    def watch(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            tensors[name] = value

    interpreter = Interpreter(tolerant=True, watch=watch)

    def body(*values: Tensor) -> Sequence[Tensor]:
        by_name = dict(zip(fed, values))
        interpreter.run(traced, [by_name.get(port.name) for port in traced.inputs])
        return []

    trace = Trace()
    with trace.active():
        trace.region(list(fed.values()), body)
    return Knowledge(tensors, stored, interpreter.failed)


def declared_spec(kind: Optional[Type]) -> Optional[Spec]:
    """Return a declared type as a `Spec`. None unless it is a tensor of known dtype and rank.

    A size with a name of `_PLACEHOLDERS` becomes None: sizes that share such a name need not be equal.
    """
    if not isinstance(kind, TensorType) or kind.dtype is None or kind.shape is None:
        return None
    return Spec(kind.dtype, tuple(None if size in _PLACEHOLDERS else size for size in kind.shape))

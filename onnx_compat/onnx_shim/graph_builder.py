"""Build the graph of a target: values, calls of operators, nested graphs; then name and write what is needed.

A call that repeats an earlier call gives the values of the earlier one (common subexpressions), and equal constants are
one initializer. Calls without a use are left out when the graph is written.
"""

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np

from onnx_compat.ir.dtypes import DType
from onnx_compat.model.graph import Graph, GraphNode, ValueInfo
from onnx_compat.model.initializer import Constant, Initializer
from onnx_compat.model.names import Names
from onnx_compat.model.types import TensorType

__all__ = ["Call", "GraphBuilder", "Scope", "Value", "Writing"]

#: Constants up to this number of bytes are compared by their content, larger ones by identity.
_COMPARED_BYTES = 4096
#: Operators that give other results each time.
_RANDOM = frozenset(["RandomUniform", "RandomNormal", "RandomUniformLike", "RandomNormalLike", "Multinomial"])


class Value:
    """A tensor of the graph: its dtype, and its shape, with None for each size that is not known.

    array: the elements of a constant; None for a value that the graph computes.
    preferred_name: the name that the value gets if the name is free.
    """

    __slots__ = ("array", "dtype", "preferred_name", "shape")

    def __init__(
        self, dtype: DType, shape: Sequence[Any], array: Optional[np.ndarray] = None, preferred_name: str = ""
    ) -> None:
        self.dtype = dtype
        self.shape: Tuple[Optional[int], ...] = tuple(
            int(n) if isinstance(n, (int, np.integer)) else None for n in shape
        )
        self.array = array
        self.preferred_name = preferred_name

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return "%s%s" % (self.dtype, list(self.shape))


class Call(NamedTuple):
    """A call of an operator. An input of None is omitted; an attribute may be a `Scope`, which becomes a graph.

    `origin`: the name of the node of the model that the call computes; "" without one.
    """

    operator: str
    inputs: Tuple[Optional[Value], ...]
    outputs: Tuple[Value, ...]
    attributes: Mapping[str, Any]
    domain: str
    origin: str = ""


class Scope:
    """The calls of a graph, or of a nested graph, with its inputs and outputs.

    outer: the scope around a nested graph; None for the whole graph.
    """

    def __init__(self, outer: "Optional[Scope]" = None) -> None:
        self.outer = outer
        self.inputs: Tuple[Value, ...] = ()
        self.outputs: Tuple[Value, ...] = ()
        self.calls: List[Call] = []
        self.known_calls: Dict[Any, Tuple[Value, ...]] = {}
        self._free: Optional[Set[Value]] = None

    def find(self, key: Any) -> Optional[Tuple[Value, ...]]:
        """Return the results of the call with this key in this scope or in an outer one; None without such a call.

        Calls with equal keys have equal results: see `GraphBuilder.call`.
        """
        scope: Optional[Scope] = self
        while scope is not None:
            if key in scope.known_calls:
                return scope.known_calls[key]
            scope = scope.outer
        return None

    def has_result(self, value: Value) -> bool:
        """Whether a call of this scope itself computes the value."""
        return any(value is output for call in self.calls for output in call.outputs)

    def live(self) -> List[Call]:
        """Return the calls that the outputs depend on, in order."""
        needed = set(self.outputs)
        kept = []
        for call in reversed(self.calls):
            if not needed.isdisjoint(call.outputs):
                needed.update(_reads(call))
                kept.append(call)
        return kept[::-1]

    def free(self) -> Set[Value]:
        """Return the values of outer scopes, and the constants, that live calls and the outputs read.

        A closed scope computes them once: each outer scope asks for them, at every depth.
        """
        if self._free is not None:
            return self._free
        calls = self.live()
        read = set(self.outputs).union(*[_reads(call) for call in calls])
        return read.difference(self.inputs, *[call.outputs for call in calls])

    def close(self) -> None:
        """Keep the result of `free`. The calls and outputs must not change afterwards."""
        self._free = self.free()


def _reads(call: Call) -> Set[Value]:
    inner = [value.free() for value in call.attributes.values() if isinstance(value, Scope)]
    return {value for value in call.inputs if value is not None}.union(*inner)


class GraphBuilder:
    """Collects the calls of a graph.

    - scope: the scope of the graph that is being built.
    - origin: the name of the node of the model that is being emitted; "" without one. New calls get it.
    - producers: value -> the call that computes it.
    """

    def __init__(self) -> None:
        self.scope = Scope()
        self.origin = ""
        self.producers: Dict[Value, Call] = {}
        self._constants: Dict[Any, Value] = {}

    def constant(self, array: np.ndarray, dtype: DType) -> Value:
        """Return the constant with these elements. `array` is a carrier array.

        Equal constants are one value. Numeric arrays of more than `_COMPARED_BYTES` are equal if they are one object.
        """
        key: Any = (dtype, id(array))
        if array.dtype == object:
            key = (dtype, array.shape, tuple(array.reshape(-1)))
        elif array.nbytes <= _COMPARED_BYTES:
            key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = Value(dtype, array.shape, array)
        return self._constants[key]

    def call(
        self,
        operator: str,
        inputs: Sequence[Optional[Value]],
        results: Sequence[Value],
        attributes: Mapping[str, Any],
        domain: str = "",
    ) -> Tuple[Value, ...]:
        """Add a call with the new values `results`. Return `results`, or those of an equal earlier call.

        A call of a random operator, and a call with a nested graph, equals no earlier call.
        Omitted inputs at the end are left out: onnxruntime ends the process for the empty name of a LayerNormalization.
        """
        while inputs and inputs[-1] is None:
            inputs = inputs[:-1]
        key = None
        if operator not in _RANDOM and not any(isinstance(value, Scope) for value in attributes.values()):
            key = (domain, operator, tuple(inputs), len(results), _freeze(attributes))
            earlier = self.scope.find(key)
            if earlier is not None:
                return earlier
        call = Call(operator, tuple(inputs), tuple(results), attributes, domain, self.origin)
        self.scope.calls.append(call)
        self.producers.update((value, call) for value in call.outputs)
        if key is not None:
            self.scope.known_calls[key] = call.outputs
        return call.outputs

    def producer_of(self, value: Value, operator: str) -> Optional[Call]:
        """Return the call that computes a value, if it calls `operator` of ai.onnx; else None."""
        call = self.producers.get(value)
        return call if call is not None and call.operator == operator and not call.domain else None

    @contextmanager
    def open_graph(self, inputs: Sequence[Value]) -> Iterator[Scope]:
        """Return a context in which calls are added to a new nested graph with these inputs. Yield its scope."""
        outer, self.scope = self.scope, Scope(self.scope)
        self.scope.inputs = tuple(inputs)
        try:
            yield self.scope
            self.scope.close()
        finally:
            self.scope = outer


def _freeze(value: Any) -> Any:
    if isinstance(value, Mapping):
        return tuple(sorted((name, _freeze(item)) for name, item in value.items()))
    if isinstance(value, Constant):
        return value.dtype, value.shape, value.array.tobytes()
    return tuple(map(_freeze, value)) if isinstance(value, (list, tuple)) else value


class Writing:
    """Writes scopes as graphs: gives names to values and nodes, and collects the constants as initializers.

    - names: the names in use.
    - prefix: the beginning of every new name.
    - opsets: domain -> version of the nodes.
    - origins: name of a written node -> name of the node of the model that it computes. It is filled.
    """

    def __init__(self, names: Names, prefix: str, opsets: Mapping[str, int]) -> None:
        self._names = names
        self._prefix = prefix
        self._opsets = opsets
        self._named: Dict[Value, str] = {}
        self.initializers: Dict[str, Initializer] = {}
        self.origins: Dict[str, str] = {}

    def name(self, value: Value, name: str) -> None:
        """Give a value a name that the caller has chosen."""
        self._named[value] = name

    def nodes(self, scope: Scope) -> List[GraphNode]:
        """Return the live calls of a scope as nodes."""
        return [self._node(call) for call in scope.live()]

    def name_of(self, value: Optional[Value], preferred_name: str = "value") -> str:
        """Return the name of a value; "" for None. A value without a name gets one. A constant becomes an initializer.

        `preferred_name`: the end of a new name, for a value that prefers no name and is no constant.
        """
        if value is None:
            return ""
        if value not in self._named:
            base = value.preferred_name or ("constant" if value.array is not None else preferred_name)
            name = self._named[value] = self._names.fresh(self._prefix + base)
            if value.array is not None:
                array = value.array
                self.initializers[name] = Initializer(name, value.dtype, array.shape, lambda: array)
        return self._named[value]

    def _node(self, call: Call) -> GraphNode:
        inputs = [self.name_of(value) for value in call.inputs]
        attributes = {
            name: self._graph(value) if isinstance(value, Scope) else value for name, value in call.attributes.items()
        }
        outputs = [self.name_of(value, call.operator) for value in call.outputs]
        name = self._names.fresh("%s%s_node" % (self._prefix, call.operator))
        if call.origin:
            self.origins[name] = call.origin
        return GraphNode(call.operator, inputs, outputs, attributes, call.domain, self._opsets[call.domain], name)

    def _graph(self, scope: Scope) -> Graph:
        inputs = [self._info(value) for value in scope.inputs]
        nodes = self.nodes(scope)
        return Graph("body", inputs, [self._info(value) for value in scope.outputs], nodes)

    def _info(self, value: Value) -> ValueInfo:
        return ValueInfo(self.name_of(value), TensorType(value.dtype, value.shape))

"""Walking an ONNX graph: every node's meaning is applied to traced values, in order."""

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from onnx_compat.errors import InvalidModelError, OnnxCompatError, UnsupportedError
from onnx_compat.ir import Origin, Spec
from onnx_compat.ir.dims import Extent, Undecided, atoms_of
from onnx_compat.model import Constant, Graph, GraphNode
from onnx_compat.ops import Operator, dtype_constraints, lookup
from onnx_compat.ops.attribute_types import is_own
from onnx_compat.primitives.base import apply
from onnx_compat.primitives.linear import spatial_order
from onnx_compat.shim.interface import Native
from onnx_compat.tracing.layout import normalize_order
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["Context", "Interpreter"]

Natives = Mapping[Tuple[str, str], Native]
Scope = Dict[str, Any]


class Context:
    """What the meaning of an operator may ask about the node that it is applied for."""

    def __init__(self, interpreter: "Interpreter", node: GraphNode, scope: Scope, graph: Graph) -> None:
        self.node = node
        self.opset = node.opset
        self.scope = scope
        self.graph = graph
        self.interpreter = interpreter

    def wants(self, output: int) -> bool:
        """Whether the output of this number is used by anybody."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    @property
    def outputs(self) -> int:
        """How many outputs the node names."""
        return len(self.node.outputs)

    def body(self, graph: Graph) -> Callable[..., List[Any]]:
        """A subgraph as a function of its inputs; it sees the values around the node."""
        return lambda *inputs: self.interpreter.run(graph, inputs, self.scope)


class _Missing:
    """The output of a node that could not be applied."""


_MISSING = _Missing()


class Interpreter:
    """Applies the nodes of a graph to values. When it is `tolerant`, an operator that cannot be applied does not end
    the walk: it is noted in `failed`, and what reads its outputs in `unseen`. `watch` is told each input and each result
    of the outermost graph, by name.
    """

    def __init__(
        self,
        natives: Optional[Natives] = None,
        tolerant: bool = False,
        watch: Optional[Callable[[str, Any], None]] = None,
    ) -> None:
        self.natives: Natives = natives or {}
        self.tolerant = tolerant
        self.watch = watch
        #: Node name -> 'native' or 'composed', as it was done.
        self.done: Dict[str, str] = {}
        self.failed: Dict[str, OnnxCompatError] = {}
        self.unseen: Set[str] = set()
        #: The values that failed and unseen nodes read: the walk must go on computing them.
        self.read: List[Tensor] = []

    def run(self, graph: Graph, inputs: Sequence[Any], outer: Optional[Scope] = None) -> List[Any]:
        """The graph's outputs for these inputs (missing ones take their default)."""
        scope: Scope = dict(outer or {})
        scope.update((one.name, value) for one, value in zip(graph.inputs, inputs) if value is not None)
        if self.tolerant and outer is None:  # an input of which not even the rank is told
            scope.update((name, _MISSING) for name in (one.name for one in graph.required) if name not in scope)
        for name, initializer in graph.initializers.items():
            if not (scope.get(name) is not None and name in {one.name for one in graph.inputs}):
                array = initializer.array()
                scope[name] = Tensor(initializer.dtype, array.shape, array)
        watch = self.watch if outer is None else None
        if watch is not None:
            for one in graph.inputs:
                watch(one.name, scope.get(one.name))
        last = self._last_uses(graph)
        for k, node in enumerate(graph.nodes):
            for name, value in zip(node.outputs, self._apply(node, scope, graph)):
                if name:
                    scope[name] = value
                    if outer is None and isinstance(value, Tensor) and value.ref is not None:
                        value.ref.name = value.ref.name or name
                    if watch is not None:
                        watch(name, value)
            for name in last.get(k, ()):
                scope.pop(name, None)
        return [scope[one.name] for one in graph.outputs]

    @staticmethod
    def _last_uses(graph: Graph) -> Dict[int, List[str]]:
        """After which node each value is needed no more; so that an execution does not hold what nobody reads."""
        last: Dict[str, int] = {}
        for k, node in enumerate(graph.nodes):
            for name in node.inputs + tuple(node.captures()) + node.outputs:
                last[name] = k
        for one in graph.outputs:
            last.pop(one.name, None)
        found: Dict[int, List[str]] = {}
        for name, k in last.items():
            found.setdefault(k, []).append(name)
        return found

    def _apply(self, node: GraphNode, scope: Scope, graph: Graph) -> Sequence[Any]:
        trace = current_trace()
        outer, trace.origin = trace.origin, Origin(node.name, node.operator, node.opset)
        try:
            inputs = [scope[name] if name else None for name in node.inputs]
            meaning = lookup(node.domain, node.operator, node.opset)
            if any(scope.get(name) is _MISSING for name in node.inputs + tuple(node.captures())):
                self.unseen.add(node.name)
                return self._missing(node, scope)
            if is_own(meaning.function):
                dtype_constraints.check(node.domain, node.operator, inputs)
            attributes = meaning.bind(inputs, {name: _value(v) for name, v in node.attributes.items()})
            results = self._composed(meaning, Context(self, node, scope, graph), inputs, attributes)
            return self._native(node, graph, inputs, attributes, results)
        except OnnxCompatError as error:
            error.at(**node.where)
            if not self.tolerant or isinstance(error, InvalidModelError):
                raise
            self.failed[node.name] = error
            return self._missing(node, scope)
        finally:
            trace.origin = outer

    def _missing(self, node: GraphNode, scope: Scope) -> Sequence[Any]:
        read = [scope.get(name) for name in node.inputs + tuple(node.captures())]
        self.read.extend(value for value in read if isinstance(value, Tensor) and not value.known)
        return [_MISSING] * len(node.outputs)

    def _composed(
        self, meaning: Operator, context: Context, inputs: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Sequence[Any]:
        if meaning.context:
            inputs = [context, *inputs]
        while inputs and inputs[-1] is None:  # trailing inputs that are left out take their defaults
            inputs = inputs[:-1]
        try:
            results = meaning.function(*inputs, **attributes)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, AssertionError) as error:
            reason = "its meaning could not be applied to these inputs: %s: %s" % (type(error).__name__, error)
            raise UnsupportedError(reason, hint=_hint(meaning)) from error
        self.done[context.node.name] = "composed"
        if not isinstance(results, (tuple, list)) or isinstance(results, (SequenceValue, MapValue)):
            results = (results,)
        _check_results(context.node, results, meaning)
        return results  # type: ignore[no-any-return]

    def _native(
        self,
        node: GraphNode,
        graph: Graph,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any],
        composed: Sequence[Any],
    ) -> Sequence[Any]:
        """The shim's own version of the operator, if it takes this case. What the composed meaning recorded says what
        the results are; nobody uses it then, so it is not emitted: a size that comes from its nodes is not told, but the
        result's own.
        """
        native = self.natives.get((node.domain, node.operator))
        if native is None:
            return composed
        read = _as_read(node, graph)
        wanted = max((k for k, name in enumerate(read.outputs) if name), default=0) + 1
        results = [value for value in composed[:wanted] if value is not None]
        if any(not isinstance(value, Tensor) or value.known for value in results):
            return composed
        if not _accepted(native, read, inputs, attributes):
            return composed
        first = spatial_order(results[0].rank) if native.spatial and results[0].rank > 2 else native.stored
        orders = [first, *[None] * (len(results) - 1)]
        args = [
            None
            if v is None
            else current_trace().argument(
                v, normalize_order(spatial_order(v.rank)) if native.spatial and k == 0 else None
            )
            for k, v in enumerate(inputs)
        ]
        origin = current_trace().origin
        specs = [Spec(v.dtype, tuple(None if _comes_from(origin, size) else size for size in v.shape)) for v in results]
        self.done[node.name] = "native"
        return apply(native.method, args, dict(attributes), specs, orders)


def _comes_from(origin: Optional[Origin], size: Extent) -> bool:
    made = [atom.args[0].node for atom in atoms_of(size)]
    return any(node is not None and node.origin is origin for node in made)


def _as_read(node: GraphNode, graph: Graph) -> GraphNode:
    """The node, without the names of results that nobody reads."""
    if len(node.outputs) == 1:
        return node
    readers = graph.consumers()
    outputs = [name if readers.get(name) else "" for name in node.outputs]
    return GraphNode(
        node.operator, node.inputs, outputs, node.attributes, node.domain, node.opset, node.name, node.overload
    )


def _accepted(native: Native, node: GraphNode, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
    """A native that asks for a size which is not known yet does not take the case."""
    try:
        return native.accepts(node, inputs, attributes)
    except Undecided:
        return False


def _check_results(node: GraphNode, results: Sequence[Any], meaning: Operator) -> None:
    for name, result in zip(node.outputs, results):
        if (
            name
            and result is not None
            and not isinstance(result, (Tensor, SequenceValue, MapValue, type(EMPTY_OPTIONAL)))
        ):
            reason = "its meaning gives %s for '%s', not a Tensor" % (type(result).__name__, name)
            raise UnsupportedError(reason, hint=_hint(meaning))
    if any(node.outputs[len(results) :]):
        reason = "its meaning gives %d outputs, the node names %d" % (len(results), len(node.outputs))
        raise UnsupportedError(reason, hint=_hint(meaning))


def _hint(meaning: Operator) -> str:
    if is_own(meaning.function):
        return "if onnx.checker accepts the model, this is a defect of onnx-compat: please report it with the model"
    code = meaning.function.__code__
    return "look at the meaning in %s, line %d: is it made of onnx_compat.primitives?" % (
        code.co_filename,
        code.co_firstlineno,
    )


def _value(value: Any) -> Any:
    """An attribute as a meaning takes it: a stored tensor becomes a Tensor."""
    if isinstance(value, Constant):
        return Tensor(value.dtype, value.array.shape, value.array)
    return value

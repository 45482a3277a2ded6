"""Interpret an ONNX graph: apply the meaning of each node to traced values, in order."""

import functools
import operator
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from onnx_compat.boundary import typed_error
from onnx_compat.errors import InvalidModelError, LimitError, NeedsKnownError, OnnxCompatError, UnsupportedError
from onnx_compat.ir import Origin, Spec
from onnx_compat.ir.dims import Extent, Undecided, atoms_of
from onnx_compat.model import Constant, Graph, GraphNode
from onnx_compat.ops import Operator, dtype_constraints, lookup, ranks
from onnx_compat.ops.attribute_types import is_own
from onnx_compat.primitives.base import apply
from onnx_compat.primitives.linear import spatial_order
from onnx_compat.shim.natives import Native
from onnx_compat.tracing.layout import normalize_order
from onnx_compat.tracing.trace import current_trace
from onnx_compat.tracing.values import EMPTY_OPTIONAL, OMITTED, MapValue, SequenceValue, Tensor

__all__ = ["Context", "Interpreter"]

Natives = Mapping[Tuple[str, str], Native]
Scope = Dict[str, Any]


class Context:
    """The node whose meaning is applied: its outputs, its opset, its subgraphs, and the values in scope."""

    def __init__(self, interpreter: "Interpreter", node: GraphNode, scope: Scope, graph: Graph) -> None:
        self.node = node
        self.opset = node.opset
        self.scope = scope
        self.graph = graph
        self.interpreter = interpreter

    def wants(self, output: int) -> bool:
        """Whether the node names output number `output` (from 0), so that the meaning must compute it."""
        return output < len(self.node.outputs) and bool(self.node.outputs[output])

    @property
    def outputs(self) -> int:
        """The number of outputs in the node's list, with omitted outputs ("") counted."""
        return len(self.node.outputs)

    def body(self, graph: Graph) -> Callable[..., List[Any]]:
        """Return a subgraph as a function: input values -> list of output values.

        The subgraph may read values in the node's scope. The function raises InvalidModelError if it gets more
        inputs than the subgraph has, or too few: an input may be left out that has an initializer.
        """

        def run(*inputs: Any) -> List[Any]:
            rest = graph.inputs[len(inputs) :]
            if len(inputs) > len(graph.inputs) or any(port.name not in graph.initializers for port in rest):
                counts = len(graph.inputs), self.node.operator, len(inputs)
                raise InvalidModelError("the body has %d inputs, this %s gives it %d" % counts)
            return self.interpreter.run_subgraph(graph, inputs, self.scope)

        return run


class _Unavailable:
    """The placeholder for an output that has no value, because its node failed or reads a placeholder."""


_UNAVAILABLE = _Unavailable()


class _SubgraphFailed(Exception):
    """Raised if an output of a subgraph has no value. `cause`: the error of a node in the subgraph, at any depth."""

    def __init__(self, cause: OnnxCompatError) -> None:
        super().__init__(str(cause))
        self.cause = cause


class Interpreter:
    """Applies the meanings of the nodes of a graph to traced values, in order.

    - natives: (domain, operator) -> `Native`, for the operators that the shim implements as a whole; by default none.
    - tolerant: whether to go on after a node that raises an OnnxCompatError. An InvalidModelError, a LimitError and an
      unexpected error of a custom operator are raised in any case.
    - watch: called with the name and the value of each input and each named node output of the outermost graph.
    - observe: called with each node, also of subgraphs, its input values and its results, each time that its meaning is
      applied. A value that could not be computed is neither a Tensor nor another traced value.

    A tolerant interpreter fills `failed` (node name -> error) and `unseen`. `unseen` has the names of the nodes that
    were skipped, because they depend on a failed node or on an input without a value.
    """

    def __init__(
        self,
        natives: Optional[Natives] = None,
        tolerant: bool = False,
        watch: Optional[Callable[[str, Any], None]] = None,
        observe: Optional[Callable[[GraphNode, Sequence[Any], Sequence[Any]], None]] = None,
    ) -> None:
        self.natives: Natives = natives or {}
        self.tolerant = tolerant
        self.watch = watch
        self.observe = observe
        #: Node name -> "native" or "composed".
        self.done: Dict[str, str] = {}
        self.failed: Dict[str, OnnxCompatError] = {}
        self.unseen: Set[str] = set()
        #: The values that failed and unseen nodes read: the program must compute them for the fallback.
        self.read: List[Tensor] = []

    def run(self, graph: Graph, inputs: Sequence[Any], outer: Optional[Scope] = None) -> List[Any]:
        """Return the values of the graph's outputs, in order.

        - inputs: the values in the order of `graph.inputs`. An input of None takes the initializer of its name. For the
          nodes that read an input of OMITTED, the input is omitted.
        - outer: value name -> value of the enclosing graph, for a subgraph.

        By default, the OnnxCompatError of the first node that fails is raised. A tolerant interpreter returns a
        placeholder for an output that it cannot compute. It goes on after errors, except those that `Interpreter`
        names. An input without a value gives an UnexpectedError if a node reads the input, and a KeyError if it is an
        output.
        """
        scope: Scope = dict(outer or {})
        given = [(port.name, value) for port, value in zip(graph.inputs, inputs) if value is not None]
        scope.update((name, None if value is OMITTED else value) for name, value in given)
        if self.tolerant and outer is None:  # required inputs without a value have no known rank
            scope.update((name, _UNAVAILABLE) for name in (port.name for port in graph.required) if name not in scope)
        for name, initializer in graph.initializers.items():
            if not (scope.get(name) is not None and name in {port.name for port in graph.inputs}):
                array = initializer.array()
                scope[name] = Tensor(initializer.dtype, array.shape, array)
                _mark_weight(scope[name], name)
        watch = self.watch if outer is None else None
        if watch is not None:
            for port in graph.inputs:
                watch(port.name, scope.get(port.name))
        _note_stored_elements(graph, outer)
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
        return [scope[port.name] for port in graph.outputs]

    def run_subgraph(self, graph: Graph, inputs: Sequence[Any], outer: Scope) -> List[Any]:
        """Return the values of a subgraph's outputs, as `run` does. `read` gets no entry of the subgraph.

        A tolerant interpreter raises `_SubgraphFailed` if it cannot compute an output. The cause is the first error of
        a node in the subgraph that is no NeedsKnownError. Without such an error, it is the first NeedsKnownError.
        """
        count = len(self.read)
        values = self.run(graph, inputs, outer)
        del self.read[count:]  # values of the subgraph are not in scope outside; the outer node reads its captures
        if any(value is _UNAVAILABLE for value in values):
            causes = [self.failed[node.name] for node in graph.walk() if node.name in self.failed]
            causes.sort(key=lambda cause: isinstance(cause, NeedsKnownError))
            if causes:
                raise _SubgraphFailed(causes[0])
        return values

    @staticmethod
    def _last_uses(graph: Graph) -> Dict[int, List[str]]:
        """Return node position -> names of the values that can be freed after that node (liveness).

        The node is the last that reads the value; a value that no node reads is freed after its producer. Outputs of
        the graph are not in the lists.
        """
        last: Dict[str, int] = {}
        for k, node in enumerate(graph.nodes):
            for name in node.inputs + tuple(node.captures()) + node.outputs:
                last[name] = k
        for port in graph.outputs:
            last.pop(port.name, None)
        expiring: Dict[int, List[str]] = {}
        for name, k in last.items():
            expiring.setdefault(k, []).append(name)
        return expiring

    def _apply(self, node: GraphNode, scope: Scope, graph: Graph) -> Sequence[Any]:
        """Compute the results of a node, and give them to `observe`. Return the results in order."""
        results = self._compute(node, scope, graph)
        if self.observe is not None:
            self.observe(node, [scope.get(name) for name in node.inputs], results)
        return results

    def _compute(self, node: GraphNode, scope: Scope, graph: Graph) -> Sequence[Any]:
        """Return the results of a node: of its meaning, or of the shim's native operator.

        Raises the OnnxCompatError of a node that fails. A tolerant interpreter returns placeholders instead, except for
        the errors that `Interpreter` names. It returns placeholders also for a node that reads a placeholder.
        """
        trace = current_trace()
        outer, trace.origin = trace.origin, Origin(node.name, node.operator, node.opset)
        try:
            inputs = [scope[name] if name else None for name in node.inputs]
            meaning = lookup(node.domain, node.operator, node.opset)
            if any(scope.get(name) is _UNAVAILABLE for name in node.inputs + tuple(node.captures())):
                self.unseen.add(node.name)
                return self._mark_unavailable(node, scope)
            if is_own(meaning.function):
                dtype_constraints.check(node.domain, node.operator, inputs)
            attributes = meaning.bind(inputs, {name: _attribute(v) for name, v in node.attributes.items()})
            results = self._apply_meaning(meaning, Context(self, node, scope, graph), inputs, attributes)
            return self._apply_native(node, graph, inputs, attributes, results)
        except OnnxCompatError as error:
            error.at(**node.where)
            if not self.tolerant or isinstance(error, (InvalidModelError, LimitError)):
                raise
            self.failed[node.name] = error
            return self._mark_unavailable(node, scope)
        except _SubgraphFailed as failure:
            self.failed[node.name] = failure.cause
            return self._mark_unavailable(node, scope)
        except Exception as error:  # a custom operator may raise anything
            raise typed_error(error).at(**node.where) from error
        finally:
            trace.origin = outer

    def _mark_unavailable(self, node: GraphNode, scope: Scope) -> Sequence[Any]:
        """Add the run-time values that a node reads to `read`. Return a placeholder for each output of the node."""
        read = [scope.get(name) for name in node.inputs + tuple(node.captures())]
        self.read.extend(value for value in read if isinstance(value, Tensor) and not value.known)
        return [_UNAVAILABLE] * len(node.outputs)

    def _apply_meaning(
        self, meaning: Operator, context: Context, inputs: Sequence[Any], attributes: Mapping[str, Any]
    ) -> Sequence[Any]:
        """Call the meaning of a node with its inputs and attributes, and check the results. Return them in order.

        Raises UnsupportedError if the call raises a Python error such as TypeError, or gives wrong results. Other
        errors of the meaning propagate.
        """
        if meaning.context:
            inputs = [context, *inputs]
        while inputs and inputs[-1] is None:  # omitted trailing inputs take the defaults of the meaning
            inputs = inputs[:-1]
        try:
            results = meaning.function(*inputs, **attributes)
        except (TypeError, ValueError, IndexError, KeyError, AttributeError, ArithmeticError, AssertionError) as error:
            if is_own(meaning.function):
                ranks.check(context.node.domain, context.node.operator, inputs[1:] if meaning.context else inputs)
            reason = "its meaning could not be applied to these inputs: %s: %s" % (type(error).__name__, error)
            raise UnsupportedError(reason, hint=_hint(meaning)) from error
        self.done[context.node.name] = "composed"
        is_single = not isinstance(results, (tuple, list)) or isinstance(results, (SequenceValue, MapValue))
        outputs: Sequence[Any] = (results,) if is_single else results
        _check_results(context.node, outputs, meaning)
        if context.node.operator == "Constant" and getattr(outputs[0], "size", 1) != 1:  # not a number of the code
            _mark_weight(outputs[0], context.node.outputs[0])
        return outputs

    def _apply_native(
        self,
        node: GraphNode,
        graph: Graph,
        inputs: Sequence[Any],
        attributes: Mapping[str, Any],
        composed: Sequence[Any],
    ) -> Sequence[Any]:
        """Record the shim's native operator for a node. Return its results, up to the last output that is read.

        `composed` has the results of the node's meaning. Their types become the types of the native's results.
        `composed` itself is returned in these cases:

        - The shim has no native for the operator, or the native does not accept the node.
        - A result in `composed`, up to the last output that is read, is not a Tensor.
        - Such a result is known, and the native does not keep the node.

        A symbolic size that depends on nodes of the meaning is replaced by a size of the native's result. Dead code
        elimination drops the nodes of the meaning.
        """
        native = self.natives.get((node.domain, node.operator))
        if native is None:
            return composed
        read = _drop_unread_outputs(node, graph)
        wanted = max((k for k, name in enumerate(read.outputs) if name), default=0) + 1
        results = composed[:wanted]
        if not all(isinstance(value, Tensor) for value in results):
            return composed
        if any(value.known for value in results) and not native.keeps(inputs):
            return composed
        if not _is_accepted(native, read, inputs, attributes):
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
        specs = [Spec(v.dtype, tuple(None if _depends_on(origin, size) else size for size in v.shape)) for v in results]
        self.done[node.name] = "native"
        return apply(native.method, args, dict(attributes), specs, orders)


def _note_stored_elements(graph: Graph, outer: Optional[Scope]) -> None:
    """Store in the current trace how many elements the initializers of the graph have.

    Large values that the trace folds may have as many elements in total. Do nothing for a subgraph, which has an
    `outer` scope.
    """
    if outer is None:
        shapes = [initializer.shape for initializer in graph.initializers.values()]
        current_trace().stored_elements = sum(functools.reduce(operator.mul, shape, 1) for shape in shapes)


def _mark_weight(value: Any, name: str) -> None:
    """Store `name` as the weight name of a known float tensor of rank 1 or more, in place. Leave any other value alone.

    A tensor without axes is a number of the architecture, such as an epsilon or an exponent.
    """
    if isinstance(value, Tensor) and value.known and value.dtype.kind == "f" and value.rank:
        value.weight = name


def _depends_on(origin: Optional[Origin], size: Extent) -> bool:
    """Whether a size contains a value that a primitive of the ONNX node `origin` computes."""
    producers = [atom.args[0].node for atom in atoms_of(size)]
    return any(node is not None and node.origin is origin for node in producers)


def _drop_unread_outputs(node: GraphNode, graph: Graph) -> GraphNode:
    """Return a copy of the node in which outputs that nothing reads have the name "". A graph output counts as read.

    A node with one output is returned itself.
    """
    if len(node.outputs) == 1:
        return node
    readers = graph.consumers()
    outputs = [name if readers.get(name) else "" for name in node.outputs]
    return GraphNode(
        node.operator, node.inputs, outputs, node.attributes, node.domain, node.opset, node.name, node.overload
    )


def _is_accepted(native: Native, node: GraphNode, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> bool:
    """Whether a native accepts a node. False if the decision depends on a symbolic size."""
    try:
        return native.accepts(node, inputs, attributes)
    except Undecided:
        return False


def _check_results(node: GraphNode, results: Sequence[Any], meaning: Operator) -> None:
    """Raise UnsupportedError if a result for a named output has a wrong class, or if results are missing."""
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


def _attribute(value: Any) -> Any:
    """Convert an attribute value for a meaning: a `Constant` becomes a known Tensor, any other value stays."""
    if isinstance(value, Constant):
        return Tensor(value.dtype, value.array.shape, value.array)
    return value

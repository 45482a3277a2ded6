"""A model cut into parts, where a shim cannot do all of it: the others run in the fallback.

The parts run one after the other and hand their values over as arrays. A part is prepared when its inputs are there
for the first time, so its types need not be known before; and a value that an operator needs to be known is an input
of a part of its own, which then specialises on it.
"""

import threading
from typing import Any, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from onnx_compat.errors import OnnxCompatError
from onnx_compat.execution.feeds import Feed, MapItems
from onnx_compat.model import Graph, GraphNode, MapType, Model, SequenceType, TensorType, Type, ValueInfo
from onnx_compat.tracing.values import EMPTY_OPTIONAL

__all__ = ["Part", "PartitionedPlan", "cut_parts", "enclosing_nodes", "is_indivisible", "part_model"]


class Part(NamedTuple):
    """Nodes that run together, what they read from outside and what others need of them."""

    nodes: Tuple[GraphNode, ...]
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    fallback: bool


def enclosing_nodes(graph: Graph, names: Collection[str]) -> Set[str]:
    """The nodes of the graph itself that go where these go: they are among them, or hold one of them inside."""
    return {node.name for node in graph.nodes if node.name in names or _holds(node, names)}


def is_indivisible(graph: Graph) -> bool:
    """Whether there is a node that looks at those around it, so that none can be cut off."""
    derivative = ("ai.onnx.preview.training", "Gradient")
    return any((node.domain, node.operator) == derivative for node in graph.nodes)


def _holds(node: GraphNode, names: Collection[str]) -> bool:
    return any(inner.name in names for graph in node.subgraphs() for inner in graph.walk())


def cut_parts(graph: Graph, fallback: Set[str], staged: Set[str], sizes: Collection[str] = ()) -> List[Part]:
    """The nodes in as few parts as a greedy walk gives: all that is ready of one kind, then all of the other.

    `fallback`: names of nodes that the shim cannot do. `staged`: nodes that may not share a part with what they read.
    `sizes`: nodes that only compute with sizes, which each part of the shim's that reads one does for itself: handed
    over as values they would not be known to the trace.
    """
    waiting = list(graph.nodes)
    made = {one.name for one in graph.inputs} | set(graph.initializers)
    groups: List[Tuple[bool, List[GraphNode]]] = []
    want, idle = False, 0
    while waiting and idle < 2:
        taken = _ready(waiting, made, want, fallback, staged)
        if taken:
            groups.append((want, taken))
            made.update(name for node in taken for name in node.outputs)
            done = {id(node) for node in taken}
            waiting = [node for node in waiting if id(node) not in done]
        idle = 0 if taken else idle + 1
        want = not want
    own = {name: node for node in graph.nodes if node.name in sizes for name in node.outputs}
    return _parts(graph, [(kind, nodes if kind else _sized(nodes, own)) for kind, nodes in groups])


def _sized(nodes: Sequence[GraphNode], sizes: Mapping[str, GraphNode]) -> List[GraphNode]:
    """The nodes after those that compute the sizes which they read."""
    present = {node.name for node in nodes}
    found: List[GraphNode] = []

    def visit(node: GraphNode) -> None:
        for name in node.inputs + tuple(node.captures()):
            before = sizes.get(name)
            if before is not None and before.name not in present:
                present.add(before.name)
                visit(before)
                found.append(before)

    for node in nodes:
        visit(node)
    return found + list(nodes)


def _ready(
    waiting: Sequence[GraphNode], made: Set[str], want: bool, fallback: Set[str], staged: Set[str]
) -> List[GraphNode]:
    """The nodes of the wanted kind that can run now, in order, with those that become ready through them."""
    local = set(made)
    taken: List[GraphNode] = []
    for node in waiting:
        reads = {name for name in node.inputs + tuple(node.captures()) if name}
        inside = made if node.name in staged else local
        if (node.name in fallback) == want and reads <= inside:
            taken.append(node)
            local.update(node.outputs)
    return taken


def _parts(graph: Graph, groups: Sequence[Tuple[bool, Sequence[GraphNode]]]) -> List[Part]:
    needed_later: Set[str] = {one.name for one in graph.outputs}
    parts: List[Part] = []
    for fallback, nodes in reversed(list(groups)):
        made = {name for node in nodes for name in node.outputs if name}
        reads = dict.fromkeys(n for node in nodes for n in node.inputs + tuple(node.captures()) if n and n not in made)
        inputs = tuple(name for name in reads if name not in graph.initializers or _overridable(graph, name))
        ordered = [name for node in nodes for name in node.outputs if name in needed_later]
        parts.append(Part(tuple(nodes), inputs, tuple(ordered), fallback))
        needed_later.update(inputs)
    return parts[::-1]


def _overridable(graph: Graph, name: str) -> bool:
    return any(one.name == name for one in graph.inputs)


def part_model(model: Model, part: Part, types: Mapping[str, Optional[Type]]) -> Model:
    """A part as a model of its own, whose inputs have these types where the whole declares none. An input that is not
    among them takes its default.
    """
    graph = model.graph
    reads = {name for node in part.nodes for name in node.inputs + tuple(node.captures())}
    declared = {one.name: one.type for one in graph.inputs}
    inputs = [ValueInfo(name, declared.get(name) or types[name]) for name in part.inputs if name in types]
    initializers = {name: one for name, one in graph.initializers.items() if name in reads and name not in types}
    outputs = [ValueInfo(name, graph.value_info.get(name)) for name in part.outputs]
    inner = Graph(graph.name, inputs, outputs, part.nodes, initializers, graph.value_info)
    return Model(inner, model.opsets, model.ir_version, model.path, model.functions, source=model.source)


def _type_of(value: Any) -> Any:
    if value is EMPTY_OPTIONAL:
        return None
    if isinstance(value, list):
        return SequenceType(_type_of(value[0]) if value else None)
    if isinstance(value, MapItems):
        return MapType(value.keys[1], TensorType(value.values[1], ()))
    array, dtype = value
    return TensorType(dtype, (None,) * array.ndim)


class PartitionedPlan:
    """The parts, each prepared by `prepare(model, fallback)` when first reached, by one thread at a time."""

    native = None

    def __init__(self, model: Model, parts: Sequence[Part], prepare: Any, reasons: Dict[str, OnnxCompatError]) -> None:
        self.model = model
        self.parts = list(parts)
        self._reasons = reasons
        self._prepare = prepare
        self._runnables: List[Optional[Any]] = [None] * len(parts)
        self._preparing = threading.Lock()

    @property
    def fallbacks(self) -> List[str]:
        """The nodes that run in the fallback, as far as is known (a part tells more once it was prepared)."""
        own = [node.name for part in self.parts if part.fallback for node in part.nodes]
        inner = [n for part, r in zip(self.parts, self._runnables) if r and not part.fallback for n in r.fallbacks]
        return own + inner

    @property
    def reasons(self) -> Dict[str, OnnxCompatError]:
        """Why they do: what was known when the model was cut, and what its parts turned out to need."""
        found = dict(self._reasons)
        for part, runnable in zip(self.parts, self._runnables):
            if runnable is not None and not part.fallback:
                found.update(runnable.reasons)
        return found

    @property
    def traces(self) -> int:
        return sum(runnable.traces for runnable in self._runnables if runnable is not None)

    def run(self, feed: Feed) -> List[Any]:
        values: Dict[str, Any] = dict(feed)
        for k, part in enumerate(self.parts):
            given = {name: values[name] for name in part.inputs if name in values}
            runnable = self._runnables[k] or self._prepared(k, given)
            values.update(zip(part.outputs, runnable.run_checked(given)))
        return [values[one.name] for one in self.model.graph.outputs]

    def _prepared(self, k: int, given: Feed) -> Any:
        """The part of this number, prepared for the types of the values that come to it first."""
        with self._preparing:
            if self._runnables[k] is None:
                part = self.parts[k]
                types = {name: _type_of(value) for name, value in given.items()}
                self._runnables[k] = self._prepare(part_model(self.model, part, types), part.fallback)
            return self._runnables[k]

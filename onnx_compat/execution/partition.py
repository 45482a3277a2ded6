"""Partition: a model cut into parts for the shim and parts for the fallback, and the plan that runs them in order.

A part reads values of earlier parts as arrays. It is prepared when its inputs arrive for the first time, because their
types may be unknown before. A value that an operator needs as a constant becomes an input of a later part. That part is
specialised on the value.
"""

import threading
from typing import Callable, Collection, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from onnx_compat.errors import OnnxCompatError
from onnx_compat.execution.fallback import PartRunner
from onnx_compat.execution.feeds import CheckedValue, Feed, MapItems
from onnx_compat.model import Graph, GraphNode, MapType, Model, SequenceType, TensorType, Type, ValueInfo
from onnx_compat.tracing.values import EMPTY_OPTIONAL

__all__ = ["Part", "PartitionedPlan", "cut_parts", "enclosing_nodes", "is_indivisible", "part_model"]


class Part(NamedTuple):
    """Nodes that run together on one side: on the shim, or in the fallback if `fallback` is True.

    - nodes: in the order in which they run.
    - inputs: the names of the values that the nodes read from outside. Initializers are left out, except for those that
      are defaults of graph inputs.
    - outputs: the names of the results that later parts or the caller read.
    """

    nodes: Tuple[GraphNode, ...]
    inputs: Tuple[str, ...]
    outputs: Tuple[str, ...]
    fallback: bool


def enclosing_nodes(graph: Graph, names: Collection[str]) -> Set[str]:
    """Return the names of the nodes of `graph` that are in `names`, or that have a node in `names` in a subgraph.

    The names of the nodes in subgraphs are not in the result.
    """
    return {node.name for node in graph.nodes if node.name in names or _holds(node, names)}


def is_indivisible(graph: Graph) -> bool:
    """Whether the graph must stay one part: it has a Gradient node, which differentiates the nodes before it."""
    derivative = ("ai.onnx.preview.training", "Gradient")
    return any((node.domain, node.operator) == derivative for node in graph.nodes)


def _holds(node: GraphNode, names: Collection[str]) -> bool:
    return any(inner.name in names for graph in node.subgraphs() for inner in graph.walk())


def cut_parts(graph: Graph, fallback: Set[str], staged: Set[str], sizes: Collection[str] = ()) -> List[Part]:
    """Cut a graph into parts for the shim and parts for the fallback. Return the parts in the order in which they run.

    The parts alternate: all nodes of the shim that can run, then all nodes of the fallback that can run, and so on.

    - fallback: the names of the nodes that the shim cannot run.
    - staged: the names of the nodes that may not read results of their own part.
    - sizes: the names of the nodes that only compute sizes. Each part of the shim repeats the size nodes that it needs.
      The cause: a size that is an input of the part is not known while tracing.
    """
    waiting = list(graph.nodes)
    available = {port.name for port in graph.inputs} | set(graph.initializers)
    groups: List[Tuple[bool, List[GraphNode]]] = []
    on_fallback, idle_rounds = False, 0
    while waiting and idle_rounds < 2:
        ready = _ready_nodes(waiting, available, on_fallback, fallback, staged)
        if ready:
            groups.append((on_fallback, ready))
            available.update(name for node in ready for name in node.outputs)
            done = {id(node) for node in ready}
            waiting = [node for node in waiting if id(node) not in done]
        idle_rounds = 0 if ready else idle_rounds + 1
        on_fallback = not on_fallback
    size_producers = {name: node for node in graph.nodes if node.name in sizes for name in node.outputs}
    return _make_parts(
        graph, [(kind, nodes if kind else _add_size_nodes(nodes, size_producers)) for kind, nodes in groups]
    )


def _add_size_nodes(nodes: Sequence[GraphNode], size_producers: Mapping[str, GraphNode]) -> List[GraphNode]:
    """Return `nodes`, preceded by the size nodes that they need, directly or indirectly.

    `size_producers`: value name -> the node that computes this size. Nodes that are in `nodes` already are not
    repeated.
    """
    present = {node.name for node in nodes}
    size_nodes: List[GraphNode] = []

    def visit(node: GraphNode) -> None:
        for name in node.inputs + tuple(node.captures()):
            producer = size_producers.get(name)
            if producer is not None and producer.name not in present:
                present.add(producer.name)
                visit(producer)
                size_nodes.append(producer)

    for node in nodes:
        visit(node)
    return size_nodes + list(nodes)


def _ready_nodes(
    waiting: Sequence[GraphNode], available: Set[str], on_fallback: bool, fallback: Set[str], staged: Set[str]
) -> List[GraphNode]:
    """Return the nodes in `waiting` that one side can run now, in order.

    - on_fallback: the side: True for the fallback, which runs the nodes named in `fallback`; False for the shim.
    - available: the names of the values that exist already. A node may also read results of earlier nodes of the
      returned list.
    - staged: the names of nodes that may read values in `available` only.
    """
    available_within = set(available)
    ready: List[GraphNode] = []
    for node in waiting:
        reads = {name for name in node.inputs + tuple(node.captures()) if name}
        readable = available if node.name in staged else available_within
        if (node.name in fallback) == on_fallback and reads <= readable:
            ready.append(node)
            available_within.update(node.outputs)
    return ready


def _make_parts(graph: Graph, groups: Sequence[Tuple[bool, Sequence[GraphNode]]]) -> List[Part]:
    """Return a part for each group of nodes, with its inputs and outputs, in the order of `groups`.

    A group is a pair (whether its nodes run in the fallback, its nodes). The groups are visited last to first, to know
    which values later groups read.
    """
    needed_later: Set[str] = {port.name for port in graph.outputs}
    parts: List[Part] = []
    for fallback, nodes in reversed(list(groups)):
        produced = {name for node in nodes for name in node.outputs if name}
        reads = dict.fromkeys(
            n for node in nodes for n in node.inputs + tuple(node.captures()) if n and n not in produced
        )
        inputs = tuple(name for name in reads if name not in graph.initializers or _is_graph_input(graph, name))
        ordered = [name for node in nodes for name in node.outputs if name in needed_later]
        parts.append(Part(tuple(nodes), inputs, tuple(ordered), fallback))
        needed_later.update(inputs)
    return parts[::-1]


def _is_graph_input(graph: Graph, name: str) -> bool:
    return any(port.name == name for port in graph.inputs)


def part_model(model: Model, part: Part, types: Mapping[str, Optional[Type]]) -> Model:
    """Return a model of the nodes of a part, with the part's ports and the initializers that the nodes read.

    `types`: value name -> type, for the inputs of the part that are fed. If the value is an input of `model` with a
    declared type, that type is used. An input of the part without an entry is a default of the model: it stays an
    initializer, and is no input of the result.
    """
    graph = model.graph
    reads = {name for node in part.nodes for name in node.inputs + tuple(node.captures())}
    declared = {port.name: port.type for port in graph.inputs}
    inputs = [ValueInfo(name, declared.get(name) or types[name]) for name in part.inputs if name in types]
    initializers = {
        name: initializer for name, initializer in graph.initializers.items() if name in reads and name not in types
    }
    outputs = [ValueInfo(name, graph.value_info.get(name)) for name in part.outputs]
    inner = Graph(graph.name, inputs, outputs, part.nodes, initializers, graph.value_info)
    return Model(inner, model.opsets, model.ir_version, model.path, model.functions, source=model.source)


def _type_of(value: CheckedValue) -> Optional[Type]:
    """Return the type of a checked value, with open sizes; None for an empty optional.

    A sequence takes the type of its first item; an empty sequence has no element type.
    """
    if value is EMPTY_OPTIONAL:
        return None
    if isinstance(value, list):
        return SequenceType(_type_of(value[0]) if value else None)
    if isinstance(value, MapItems):
        return MapType(value.keys[1], TensorType(value.values[1], ()))
    array, dtype = value
    return TensorType(dtype, (None,) * array.ndim)


class PartitionedPlan:
    """A plan that runs the parts of a model one after another.

    The arguments of the constructor:

    - parts: in the order in which they run (see `cut_parts`).
    - prepare: a function that returns the object which runs a part. It takes the model of the part, and whether the
      part is for the fallback. It is called when the part first runs.
    - reasons: node name -> the error for which the node runs in the fallback.
    """

    native = None

    def __init__(
        self,
        model: Model,
        parts: Sequence[Part],
        prepare: Callable[[Model, bool], PartRunner],
        reasons: Dict[str, OnnxCompatError],
    ) -> None:
        self.model = model
        self.parts = list(parts)
        self._reasons = reasons
        self._prepare = prepare
        self._runnables: List[Optional[PartRunner]] = [None] * len(parts)
        self._preparing = threading.Lock()

    @property
    def fallbacks(self) -> List[str]:
        """The names of the nodes that run in the fallback.

        Nodes in a part for the shim are included once this part is prepared, because its runnable may use the fallback.
        """
        outer = [node.name for part in self.parts if part.fallback for node in part.nodes]
        inner = [n for part, r in zip(self.parts, self._runnables) if r and not part.fallback for n in r.fallbacks]
        return outer + inner

    @property
    def reasons(self) -> Dict[str, OnnxCompatError]:
        """Node name -> the error for which the node runs in the fallback.

        Nodes in a part for the shim are included once this part is prepared and its runnable uses the fallback.
        """
        reasons = dict(self._reasons)
        for part, runnable in zip(self.parts, self._runnables):
            if runnable is not None and not part.fallback:
                reasons.update(runnable.reasons)
        return reasons

    @property
    def fallback_runtimes(self) -> Dict[str, str]:
        """Node name -> the runtime of the fallback that runs the node, for the parts that are prepared."""
        runnables = [runnable for runnable in self._runnables if runnable is not None]
        return {name: runtime for runnable in runnables for name, runtime in runnable.fallback_runtimes.items()}

    @property
    def traces(self) -> int:
        return sum(runnable.traces for runnable in self._runnables if runnable is not None)

    def run(self, feed: Feed) -> List[CheckedValue]:
        """Run the parts in order. Return the outputs of the model as a list of checked values.

        A part that is not prepared yet is prepared for the types of its inputs in this run, and kept for later runs.
        Errors of a part are raised unchanged.
        """
        values: Feed = dict(self._stored_outputs())
        values.update(feed)
        for index, part in enumerate(self.parts):
            part_feed = {name: values[name] for name in part.inputs if name in values}
            runnable = self._runnables[index] or self._prepare_part(index, part_feed)
            values.update(zip(part.outputs, runnable.run_checked(part_feed)))
        return [values[port.name] for port in self.model.graph.outputs]

    def _stored_outputs(self) -> Feed:
        """Return the outputs of the model that are initializers, as checked values: no part computes them."""
        initializers = self.model.graph.initializers
        stored = {port.name: initializers[port.name] for port in self.model.graph.outputs if port.name in initializers}
        return {name: (initializer.array().copy(), initializer.dtype) for name, initializer in stored.items()}

    def _prepare_part(self, index: int, feed: Feed) -> PartRunner:
        """Return the object that runs the part at `index`. Make it for the types of `feed`, the inputs of the part.

        If another thread has made it meanwhile, nothing is made.
        """
        with self._preparing:
            if self._runnables[index] is None:
                part = self.parts[index]
                types = {name: _type_of(value) for name, value in feed.items()}
                self._runnables[index] = self._prepare(part_model(self.model, part, types), part.fallback)
            return self._runnables[index]

"""Which nodes of a model go into files of a framework's format, and which into the fallback.

A file must know, before anything runs, the type and the rank of whatever it reads. The trace tells nearly all of them;
what it does not tell may be declared; and a node that reads one which nobody tells goes into the fallback too.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set

from onnx_compat.errors import OnnxCompatError, UnsupportedError
from onnx_compat.execution.partition import Part, cut_parts, enclosing_nodes, is_indivisible, part_model
from onnx_compat.execution.plan import Specialisation
from onnx_compat.execution.support import declared_forms, may_fall_back, survey
from onnx_compat.model import (
    Graph,
    GraphNode,
    Initializer,
    MapType,
    Model,
    OptionalType,
    SequenceType,
    TensorType,
    Type,
)
from onnx_compat.shim.interface import Shim
from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["Division", "divide"]

Types = Dict[str, Optional[Type]]


class Division(NamedTuple):
    """The parts in the order in which they run, the types of what goes between them, and for the nodes of the fallback
    why they are there. `model` is the one that was given, without the nodes whose results are known already.
    """

    model: Model
    parts: List[Part]
    types: Types
    reasons: Dict[str, OnnxCompatError]

    @property
    def fallback(self) -> List[GraphNode]:
        return [node for part in self.parts if part.fallback for node in part.nodes]

    @property
    def impossible(self) -> List[GraphNode]:
        """The nodes that nothing here runs, subgraphs included."""
        nodes = [inner for node in self.fallback for inner in _within(node)]
        return [node for node in nodes if node.name in self.reasons and not may_fall_back(node)]

    def reason(self, node: GraphNode) -> OnnxCompatError:
        """Why a node is in the fallback: for itself, for one that it holds, or because it stays with the others."""
        found = (self.reasons[inner.name] for inner in _within(node) if inner.name in self.reasons)
        return next(found, _TOGETHER)

    def part_model(self, part: Part) -> Model:
        return _model_of(self.model, part, self.types)


_TOGETHER = UnsupportedError("another node of the model looks at the nodes around it, so that all stay together")


def divide(model: Model, shim: Shim, refused: Optional[Mapping[str, OnnxCompatError]] = None) -> Division:
    """`refused`: nodes that are known to be refused, beside those that are found here."""
    watch = _Watch(model)
    failed = dict(refused or {})
    forms = {name: form for name, form in declared_forms(model.graph).items() if form.kind == "tensor"}
    failed.update(
        survey(model, shim, forms, Specialisation(), watch=watch).failed
    )  # how long a sequence is, nobody tells
    failed.pop("", None)
    model = _folded(model, watch.known)
    types: Types = dict(watch.types)
    for name, kind in model.graph.value_info.items():
        types.setdefault(name, kind)
    while True:
        parts = cut_parts(model.graph, _falling(model.graph, failed), set(), watch.sizing(model.graph))
        parts = [part for part in parts if part.outputs]
        more = next(filter(None, (_refused(model, part, shim, types) for part in parts if not part.fallback)), None)
        if more is None:
            return Division(model, parts, types, failed)
        failed.update(more)


def _falling(graph: Graph, failed: Mapping[str, OnnxCompatError]) -> Any:
    names = enclosing_nodes(graph, failed)
    return {node.name for node in graph.nodes} if names and is_indivisible(graph) else names


def _refused(model: Model, part: Part, shim: Shim, types: Types) -> Dict[str, OnnxCompatError]:
    """The nodes of a part that cannot be in a file after all. If there are none, `types` learns what the part tells."""
    untold = {name for name in part.inputs if not _plain(types.get(name))}
    found = {node.name: _untold(name) for node in part.nodes for name in _reads(node) if name in untold}
    if found:
        return found
    inner = _model_of(model, part, types)
    watch = _Watch(inner)
    found = dict(survey(inner, shim, declared_forms(inner.graph), Specialisation(), watch=watch).failed)
    found.pop("", None)
    if found:
        return found
    for name, kind in watch.types.items():
        types.setdefault(name, kind)
    given = {name for name in part.outputs if not _plain(types.get(name))}
    return {node.name: _untold(name) for node in part.nodes for name in node.outputs if name in given}


def _model_of(model: Model, part: Part, types: Types) -> Model:
    return part_model(model, part, {name: types.get(name) for name in part.inputs})


def _reads(node: GraphNode) -> List[str]:
    return [name for name in (*node.inputs, *node.captures()) if name]


def _within(node: GraphNode) -> List[GraphNode]:
    return [node, *(inner for graph in node.subgraphs() for inner in graph.walk())]


def _plain(kind: Optional[Type]) -> bool:
    """Whether a file can have an input or an output of this type."""
    return isinstance(kind, TensorType) and kind.dtype is not None and kind.shape is not None


def _untold(name: str) -> OnnxCompatError:
    return UnsupportedError(
        "the value '%s' is no tensor, or its type and rank are only known when the model runs" % name
    )


class _Watch:
    """Notes the type of each value of a trace, and the value where it is known. Sizes that are equal bear one name."""

    def __init__(self, model: Model) -> None:
        self.types: Types = {}
        self.known: Dict[str, Tensor] = {}
        self._declared = {one.name: one.type for one in model.graph.inputs}
        self._taken = {size for kind in model.graph.types().values() for size in getattr(kind, "shape", None) or ()}
        self._names: Dict[Any, str] = {}
        self._sizing: Set[str] = set()

    def __call__(self, name: str, value: Any) -> None:
        declared = self._declared.get(name)
        if isinstance(value, Tensor):
            told = declared.shape if isinstance(declared, TensorType) else None
            sizes = [self._size(size, told[k] if told else None) for k, size in enumerate(value.shape)]
            self.types[name] = TensorType(value.dtype, tuple(sizes))
            if value.known:
                self.known[name] = value
            elif value.value is not None:
                self._sizing.add(name)
        elif declared is not None:
            self.types[name] = declared
        elif isinstance(value, SequenceValue):
            self.types[name] = SequenceType(TensorType(value.dtype))
        elif isinstance(value, MapValue):
            self.types[name] = MapType(value.keys.dtype, TensorType(value.dtype, (None,)))
        elif value is EMPTY_OPTIONAL:
            self.types[name] = OptionalType(None)

    def sizing(self, graph: Graph) -> Set[str]:
        """The nodes whose results are known as sizes: Shape, and what computes with it."""
        return {
            node.name for node in graph.nodes if node.outputs and self._sizing.issuperset(filter(None, node.outputs))
        }

    def _size(self, size: Any, declared: Any) -> Any:
        if isinstance(size, int):
            return size
        if size not in self._names:
            name = declared if isinstance(declared, str) else "size.%d" % len(self._names)
            while name in self._taken and name != declared:
                name += "."
            self._names[size] = name
        return self._names[size]


def _folded(model: Model, known: Dict[str, Tensor]) -> Model:
    """The model without the nodes whose results are known (a part that reads one holds it itself), and without the
    inputs that have a default; an output that is an initializer is copied from it.
    """
    graph = model.graph
    ends = {one.name for one in graph.outputs}
    stored = dict(graph.initializers)
    nodes: List[GraphNode] = []
    for node in graph.nodes:
        made = [name for name in node.outputs if name]
        if made and all(name in known and name not in ends for name in made):
            stored.update((name, _stored(name, known[name])) for name in made)
        else:
            nodes.append(node)
    for name in sorted(ends & set(stored)):
        source = name + ".stored"
        while source in graph.names:
            source += "."
        stored[source] = stored.pop(name)
        nodes.insert(0, GraphNode("Identity", [source], [name], opset=model.opset or 13, name=source))
    inner = Graph(graph.name, graph.required, graph.outputs, nodes, stored, graph.value_info, graph.doc)
    return Model(inner, model.opsets, model.ir_version, model.path, model.functions, producer=model.producer)


def _stored(name: str, value: Tensor) -> Initializer:
    array: Any = value.value
    return Initializer(name, value.dtype, array.shape, lambda: array)

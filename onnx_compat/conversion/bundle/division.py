"""Division: assign each node of a model to a file in the format of a framework, or to the fallback.

A file has to declare the dtype and the rank of each tensor that it reads or returns. A trace finds nearly all of them,
and the model may declare the others. A value of unknown dtype or rank cannot be an input or output of a file: the nodes
that would read it or compute it there go to the fallback.
"""

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set

from onnx_compat.errors import OnnxCompatError, UnsupportedError
from onnx_compat.execution.feeds import TracedValue
from onnx_compat.execution.partition import Part, cut_parts, enclosing_nodes, is_indivisible, part_model
from onnx_compat.execution.plan import Specialisation
from onnx_compat.execution.support import declared_structures, may_fall_back, survey
from onnx_compat.ir.dims import Extent
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
from onnx_compat.model.types import Dim
from onnx_compat.shim.interface import Shim
from onnx_compat.tracing.values import EMPTY_OPTIONAL, MapValue, SequenceValue, Tensor

__all__ = ["Division", "divide", "node_and_inner"]

Types = Dict[str, Optional[Type]]


class Division(NamedTuple):
    """A model divided into parts for a shim and parts for the fallback.

    - model: the given model without the nodes whose results are constants.
    - parts: in the order in which they run.
    - types: value name -> type; None or no entry if the type is unknown. The type of each input and output of a part
      for the shim is known.
    - reasons: node name -> why a file cannot hold the node, for nodes of the model and of its subgraphs.
    """

    model: Model
    parts: List[Part]
    types: Types
    reasons: Dict[str, OnnxCompatError]

    @property
    def fallback(self) -> List[GraphNode]:
        """Return the nodes of the model that run in the fallback, in the order in which they run."""
        return [node for part in self.parts if part.fallback for node in part.nodes]

    @property
    def impossible(self) -> List[GraphNode]:
        """Return the nodes that neither the shim nor, as predicted by `may_fall_back`, the fallback can run.

        Nodes in subgraphs of the nodes in `fallback` are included.
        """
        nodes = [inner for node in self.fallback for inner in node_and_inner(node)]
        return [node for node in nodes if node.name in self.reasons and not may_fall_back(node)]

    def reason(self, node: GraphNode) -> OnnxCompatError:
        """Return why a node of `fallback` is there: its own reason, else that of the first inner node with a reason.

        Without both, the reason is that the graph is indivisible.
        """
        reasons = (self.reasons[inner.name] for inner in node_and_inner(node) if inner.name in self.reasons)
        return next(reasons, _INDIVISIBLE)

    def part_model(self, part: Part) -> Model:
        """Return the model of a part: its nodes, with `part.inputs` and `part.outputs` as inputs and outputs."""
        return _model_of(self.model, part, self.types)


_INDIVISIBLE = UnsupportedError(
    "a Gradient node of the model differentiates the nodes before it, so that all nodes stay together"
)


def divide(model: Model, shim: Shim, refused: Optional[Mapping[str, OnnxCompatError]] = None) -> Division:
    """Divide a model into parts for a shim and parts for the fallback. Return a `Division`.

    These nodes go to the fallback:

    - nodes that the shim cannot run (see `survey`)
    - the nodes in `refused` (node name -> error), because the caller knows that the format cannot hold them
    - nodes with an input or result at the border of a part that is no tensor, or whose dtype or rank is unknown (see
      `_find_failed`)
    - nodes that have one of these nodes in a subgraph
    - all nodes of an indivisible graph (see `is_indivisible`), if it has one of these nodes

    Nodes whose results are constants become initializers (see `_fold_known`). Parts whose results nothing reads are
    dropped. A node that only computes sizes may be in several parts. A node that the fallback cannot run raises no
    error here: see `Division.impossible`.

    Raises InvalidModelError for an invalid node.
    """
    recorder = _TypeRecorder(model)
    failed = dict(refused or {})
    # The length of a sequence is not declared, so a sequence cannot be traced ahead of time.
    structures = {
        name: structure for name, structure in declared_structures(model.graph).items() if structure.kind == "tensor"
    }
    failed.update(survey(model, shim, structures, Specialisation(), watch=recorder).failed)
    failed.pop("", None)
    model = _fold_known(model, recorder.known)
    types: Types = dict(recorder.types)
    for name, kind in model.graph.value_info.items():
        types.setdefault(name, kind)
    while True:
        parts = cut_parts(model.graph, _fallback_names(model.graph, failed), set(), recorder.size_nodes(model.graph))
        parts = [part for part in parts if part.outputs]
        newly_failed = next(
            filter(None, (_find_failed(model, part, shim, types) for part in parts if not part.fallback)), None
        )
        if newly_failed is None:
            return Division(model, parts, types, failed)
        failed.update(newly_failed)


def _fallback_names(graph: Graph, failed: Mapping[str, OnnxCompatError]) -> Set[str]:
    """Return the names of the nodes of `graph` that go to the fallback.

    A node goes to the fallback if it is named in `failed`, or has a node named in `failed` in a subgraph. If there is
    such a node and the graph is indivisible, return the names of all nodes of the graph.
    """
    names = enclosing_nodes(graph, failed)
    return {node.name for node in graph.nodes} if names and is_indivisible(graph) else names


def _find_failed(model: Model, part: Part, shim: Shim, types: Types) -> Dict[str, OnnxCompatError]:
    """Return node name -> error for nodes of `part` that a file cannot hold; empty if a file can hold the part.

    The dict has the first of these groups that is not empty:

    - nodes that read an input of the part which is not a tensor of known dtype and rank, by `types`
    - nodes that the shim cannot run, in the part or in subgraphs of its nodes
    - nodes that compute an output of the part which is not a tensor of known dtype and rank

    `types` maps value names to types. If the shim can run all nodes, the types that the trace found are added to
    `types`, in place, for the values without an entry.
    """
    undeclared = {name for name in part.inputs if not _is_declared_tensor(types.get(name))}
    failed = {node.name: _undeclared_error(name) for node in part.nodes for name in _reads(node) if name in undeclared}
    if failed:
        return failed
    inner = _model_of(model, part, types)
    recorder = _TypeRecorder(inner)
    failed = dict(survey(inner, shim, declared_structures(inner.graph), Specialisation(), watch=recorder).failed)
    failed.pop("", None)
    if failed:
        return failed
    for name, kind in recorder.types.items():
        types.setdefault(name, kind)
    undeclared_outputs = {name for name in part.outputs if not _is_declared_tensor(types.get(name))}
    return {
        node.name: _undeclared_error(name) for node in part.nodes for name in node.outputs if name in undeclared_outputs
    }


def _model_of(model: Model, part: Part, types: Types) -> Model:
    return part_model(model, part, {name: types.get(name) for name in part.inputs})


def _reads(node: GraphNode) -> List[str]:
    return [name for name in (*node.inputs, *node.captures()) if name]


def node_and_inner(node: GraphNode) -> List[GraphNode]:
    """Return a node and the nodes of its subgraphs, at any depth."""
    return [node, *(inner for graph in node.subgraphs() for inner in graph.walk())]


def _is_declared_tensor(kind: Optional[Type]) -> bool:
    """Whether a file can have an input or an output of this type: a tensor of known dtype and rank. False for None."""
    return isinstance(kind, TensorType) and kind.dtype is not None and kind.shape is not None


def _undeclared_error(name: str) -> OnnxCompatError:
    return UnsupportedError(
        "the value '%s' is no tensor, or its type and rank are only known when the model runs" % name
    )


class _TypeRecorder:
    """Records the type of each value in `types` and each known value in `known`, while a model is traced.

    `types` maps a value name to the type. `known` maps the name of a known value to its Tensor. `survey` calls the
    object with the name and the traced value of each input and result, except in subgraphs. Equal symbolic
    sizes get equal names in the types. An input that is no tensor keeps the type that the model declares.
    """

    def __init__(self, model: Model) -> None:
        self.types: Types = {}
        self.known: Dict[str, Tensor] = {}
        self._declared = {port.name: port.type for port in model.graph.inputs}
        self._used_symbols = {
            size for kind in model.graph.types().values() for size in getattr(kind, "shape", None) or ()
        }
        self._names: Dict[Any, str] = {}
        self._size_values: Set[str] = set()

    def __call__(self, name: str, value: TracedValue) -> None:
        declared = self._declared.get(name)
        if isinstance(value, Tensor):
            declared_shape = declared.shape if isinstance(declared, TensorType) else None
            sizes = [
                self._size(size, declared_shape[k] if declared_shape else None) for k, size in enumerate(value.shape)
            ]
            self.types[name] = TensorType(value.dtype, tuple(sizes))
            if value.known:
                self.known[name] = value
            elif value.value is not None:
                self._size_values.add(name)
        elif declared is not None:
            self.types[name] = declared
        elif isinstance(value, SequenceValue):
            self.types[name] = SequenceType(TensorType(value.dtype))
        elif isinstance(value, MapValue):
            self.types[name] = MapType(value.keys.dtype, TensorType(value.dtype, (None,)))
        elif value is EMPTY_OPTIONAL:
            self.types[name] = OptionalType(None)

    def size_nodes(self, graph: Graph) -> Set[str]:
        """Return the names of the nodes of `graph` that only compute sizes, such as a Shape, or an Add of its elements.

        The elements of each result are sizes, and at least one size in each result is symbolic. Nodes whose results are
        constants do not count.
        """
        return {
            node.name
            for node in graph.nodes
            if node.outputs and self._size_values.issuperset(filter(None, node.outputs))
        }

    def _size(self, size: Extent, declared: Dim) -> Dim:
        """Return a size for a type: an int unchanged, a name for a symbolic size. Equal symbolic sizes get equal names.

        `declared`: the size of this axis in the model: an int, a name or None. A symbolic size that was named before
        keeps its name. A new symbolic size gets the name in `declared`. If `declared` is no name, the size gets the
        name "size.<count>", with dots appended until the model does not use the name.
        """
        if isinstance(size, int):
            return size
        if size not in self._names:
            name = declared if isinstance(declared, str) else "size.%d" % len(self._names)
            while name in self._used_symbols and name != declared:
                name += "."
            self._names[size] = name
        return self._names[size]


def _fold_known(model: Model, known: Dict[str, Tensor]) -> Model:
    """Constant folding: return a new model in which initializers replace the nodes whose results are all in `known`.

    - A node that computes an output of the model is kept.
    - The new model has no inputs with a default: they stay initializers.
    - An output that is an initializer is computed by an Identity of that initializer, which gets another name. The
      cause: each output must be the result of a node of a part.
    """
    graph = model.graph
    output_names = {port.name for port in graph.outputs}
    stored = dict(graph.initializers)
    nodes: List[GraphNode] = []
    for node in graph.nodes:
        results = [name for name in node.outputs if name]
        if results and all(name in known and name not in output_names for name in results):
            stored.update((name, _initializer(name, known[name])) for name in results)
        else:
            nodes.append(node)
    for name in sorted(output_names & set(stored)):
        source = name + ".stored"
        while source in graph.names:
            source += "."
        stored[source] = stored.pop(name)
        nodes.insert(0, GraphNode("Identity", [source], [name], opset=model.opset or 13, name=source))
    inner = Graph(graph.name, graph.required, graph.outputs, nodes, stored, graph.value_info, graph.doc)
    return Model(inner, model.opsets, model.ir_version, model.path, model.functions, producer=model.producer)


def _initializer(name: str, value: Tensor) -> Initializer:
    array: Any = value.value
    return Initializer(name, value.dtype, array.shape, lambda: array)

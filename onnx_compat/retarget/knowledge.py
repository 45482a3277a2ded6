"""Knowledge: the types, shapes and known values at each node of an onnx.ModelProto, learned by one trace of the model.

The trace reads a copy of the model without its weights: an initializer of more than `SMALL` elements becomes an input.
So the copy is small, and no weight is decoded.
"""

from typing import TYPE_CHECKING, Any, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import OnnxCompatError
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import GraphNode, load
from onnx_compat.retarget.protos import value_info, walk
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.values import SequenceValue, Tensor

if TYPE_CHECKING:
    import onnx

__all__ = ["NO_FACT", "SMALL", "Fact", "ModelFacts", "NodeFacts", "learn", "nodes_of"]

#: The largest number of elements of an initializer that the trace knows, and of a known value that is kept.
SMALL = 4096

Shape = Optional[Tuple[Optional[int], ...]]


class Fact(NamedTuple):
    """The facts about a value; None for an unknown fact.

    - type: the ONNX type as text: "tensor(float)", "seq(tensor(int64))".
    - shape: the sizes of a tensor; None in it for a symbolic size.
    - value: the elements of a tensor, as a carrier array.
    - extents: the sizes of a tensor, where equal symbolic sizes are equal objects. None if `shape` is merged.
    """

    type: Optional[str] = None
    shape: Shape = None
    value: Optional[np.ndarray] = None
    extents: Optional[Tuple[Extent, ...]] = None

    @property
    def dtype(self) -> Optional[DType]:
        """The dtype of a tensor; None if it is unknown, or the value is no tensor."""
        return DType.of(self.type) if self.type is not None and self.type.startswith("tensor(") else None

    @property
    def rank(self) -> Optional[int]:
        return None if self.shape is None else len(self.shape)


NO_FACT = Fact()


class NodeFacts(NamedTuple):
    """The facts of a node's inputs and outputs, and of the outer values that its subgraphs read.

    `node` is the node as the trace saw it; None if the trace did not see it.
    """

    inputs: Tuple[Fact, ...] = ()
    outputs: Tuple[Fact, ...] = ()
    node: Optional[GraphNode] = None
    captured: Mapping[str, Fact] = {}

    def input(self, index: int) -> Fact:
        return self.inputs[index] if index < len(self.inputs) else NO_FACT

    def output(self, index: int) -> Fact:
        return self.outputs[index] if index < len(self.outputs) else NO_FACT


class ModelFacts:
    """The facts of each node. `of` takes the position of a node in the order of `nodes_of`.

    `error` is the error that ended the trace; None if it did not end early.
    """

    def __init__(self) -> None:
        self.facts: Dict[str, NodeFacts] = {}
        self.values: Dict[str, Fact] = {}
        self.error: Optional[OnnxCompatError] = None

    def of(self, key: str) -> NodeFacts:
        return self.facts.get(key, NodeFacts())

    def observe(self, node: GraphNode, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Merge the values of one application of a node into the facts of the node. See `Interpreter`.

        The name of a node of the copy ends with its key: that of a function's node is "call/key".
        """
        key = node.name.rpartition("/")[2]
        read, computed = tuple(map(_fact_of, inputs)), tuple(map(_fact_of, results))
        captured = {name: self.values.get(name, NO_FACT) for name in node.captures()}
        self.values.update(zip(node.inputs, read))
        self.values.update(zip(node.outputs, computed))
        facts = NodeFacts(read, computed, node, captured)
        earlier = self.facts.get(key)
        self.facts[key] = facts if earlier is None else _merge(earlier, facts)


def _fact_of(value: object) -> Fact:
    if isinstance(value, Tensor):
        shape = tuple(size if is_static(size) else None for size in value.shape)
        is_small = value.known and value.value is not None and value.value.size <= SMALL
        return Fact("tensor(%s)" % value.dtype.spelling, shape, value.value if is_small else None, value.shape)
    if isinstance(value, SequenceValue) and all(isinstance(item, Tensor) for item in value.items):
        return Fact("seq(tensor(%s))" % value.dtype.spelling)
    return NO_FACT


def _merge(first: NodeFacts, second: NodeFacts) -> NodeFacts:
    """Return the facts that hold in both applications of a node."""

    def merge(pair: Tuple[Fact, Fact]) -> Fact:
        earlier, later = pair
        if earlier.type != later.type:
            return NO_FACT
        shape: Shape = None
        if earlier.shape is not None and later.shape is not None and len(earlier.shape) == len(later.shape):
            shape = tuple(a if a == b else None for a, b in zip(earlier.shape, later.shape))
        value = earlier.value
        if value is not None and (later.value is None or not np.array_equal(value, later.value)):
            value = None
        return Fact(earlier.type, shape, value)

    return NodeFacts(
        tuple(map(merge, zip(first.inputs, second.inputs))),
        tuple(map(merge, zip(first.outputs, second.outputs))),
        first.node,
        {name: merge((fact, second.captured[name])) for name, fact in first.captured.items()},
    )


def nodes_of(model: "onnx.ModelProto") -> "Iterator[Tuple[str, onnx.NodeProto]]":
    """Yield (key, node) for every node of the main graph, then of each function. Nodes of subgraphs follow their node."""
    for position, node in enumerate(walk(model.graph.node)):
        yield "n%d" % position, node
    for number, function in enumerate(model.functions):
        for position, node in enumerate(walk(function.node)):
            yield "f%d_%d" % (number, position), node


def learn(model: "onnx.ModelProto") -> ModelFacts:
    """Trace a copy of the model without weights, and return the facts of its nodes.

    The default of an input counts as its value: a rule that uses it fixes the input. An error of the trace ends it early, and is kept in the result. Errors of `load` pass.
    """
    from onnx_compat.discovery import selection

    knowledge = ModelFacts()
    copy = _without_weights(model)
    loaded = load(copy.SerializeToString())
    interpreter = Interpreter(tolerant=True, observe=knowledge.observe)
    try:
        with selection.find(selection.REFERENCE).scratch() as emitter:
            trace_model(loaded, emitter, declared_structures(loaded.graph), Specialisation(), interpreter)
    except OnnxCompatError as error:
        knowledge.error = error
    if interpreter.unseen or knowledge.error is not None:
        _fill_in(knowledge, copy)
    return knowledge


def _fill_in(knowledge: ModelFacts, copy: "onnx.ModelProto") -> None:
    """Add to `knowledge` the types that the shape inference of onnx finds, for values that the trace did not reach."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(copy).graph
    except Exception:  # noqa: BLE001 (its errors have no common base, and the trace is the first source)
        graph = copy.graph
    declared = {port.name: _fact_of_type(port.type) for port in [*graph.value_info, *graph.input, *graph.output]}
    for tensor in copy.graph.initializer:
        declared[tensor.name] = Fact("tensor(%s)" % DType.of(tensor.data_type).spelling, tuple(tensor.dims))

    def better(fact: Fact, name: str) -> Fact:
        return declared.get(name, fact) if fact.type is None else fact

    for node in walk(copy.graph.node):
        facts = knowledge.of(node.name)
        inputs = tuple(better(facts.input(k), name) for k, name in enumerate(node.input))
        outputs = tuple(better(facts.output(k), name) for k, name in enumerate(node.output))
        knowledge.facts[node.name] = NodeFacts(inputs, outputs, facts.node)


def _fact_of_type(kind: "onnx.TypeProto") -> Fact:
    """Return the fact that a declared tensor type states. Nothing is known of other types."""
    if not kind.HasField("tensor_type") or not kind.tensor_type.elem_type:
        return NO_FACT
    tensor = kind.tensor_type
    shape: Shape = None
    if tensor.HasField("shape"):
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim)
    return Fact("tensor(%s)" % DType.of(tensor.elem_type).spelling, shape)


def _without_weights(model: "onnx.ModelProto") -> "onnx.ModelProto":
    """Return a copy of the model for the trace. Its nodes are named by their keys, and its large initializers are inputs."""
    import onnx

    copy = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    stored = [tensor for tensor in model.graph.initializer if _is_small(tensor)]
    kept = {tensor.name for tensor in stored}
    graph = copy.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(model.graph.value_info)
    graph.sparse_initializer.extend(model.graph.sparse_initializer)
    graph.initializer.extend(stored)
    types = {tensor.name: tensor for tensor in model.graph.initializer if tensor.name not in kept}
    for port in model.graph.input:
        tensor = types.pop(port.name, None)
        graph.input.append(port if tensor is None else value_info(tensor))
    graph.input.extend(value_info(tensor) for tensor in types.values())
    for key, node in nodes_of(copy):
        node.name = key
    return copy


def _is_small(tensor: "onnx.TensorProto") -> bool:
    count = 1
    for size in tensor.dims:
        count *= size
    return count <= SMALL and tensor.data_location != tensor.EXTERNAL

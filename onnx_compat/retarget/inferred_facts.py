"""Inferred facts: the types, shapes and known values at each node of an onnx.ModelProto, from one trace of the model.

The trace reads a copy of the model without its weights: an initializer of more than `SMALL` elements becomes an input.
So the copy is small, and no weight is decoded.
"""

from typing import TYPE_CHECKING, Any, Collection, Dict, Iterator, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import OnnxCompatError
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.ir.dims import Extent, is_static
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import GraphNode, load
from onnx_compat.model.protos import graphs_of, walk
from onnx_compat.retarget.protos import value_info
from onnx_compat.retarget.stand_ins import replace_large_tensors
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.values import SequenceValue, Tensor

if TYPE_CHECKING:
    import onnx

__all__ = ["NO_FACT", "SMALL", "Fact", "ModelFacts", "NodeFacts", "infer_facts", "is_small", "nodes_of"]

#: The largest number of elements of an initializer that the trace knows, and of a known value that is kept.
SMALL = 4096

Shape = Optional[Tuple[Optional[int], ...]]


class Fact(NamedTuple):
    """The facts about a value: its type, shape and elements. None stands for an unknown fact.

    - type: the ONNX type as text: "tensor(float)", "seq(tensor(int64))".
    - shape: the sizes of a tensor. A symbolic or unknown size is None.
    - value: the elements of a tensor of at most `SMALL` elements, as a carrier array.
    - extents: the sizes of a tensor as ints and symbolic sizes. None if only `shape` is known, as after the merge of
      several applications of a node.
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

    - node: the node as the trace saw it; None if the trace did not see it. The names of a function's node are those of
      the first call.
    - captured: name in `node` -> fact, of the outer values. Of a function's node, only its keys hold for all calls.
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
    """Collect the facts of each node in a trace. `of` returns those of the node with a key: see `nodes_of`.

    `error` is the error that ended the trace; None if the trace did not end early.
    """

    def __init__(self) -> None:
        self.facts: Dict[str, NodeFacts] = {}
        self.values: Dict[str, Fact] = {}
        self.error: Optional[OnnxCompatError] = None

    def of(self, key: str) -> NodeFacts:
        """Return the facts of the node with a key. Nothing is known of a node that the trace did not see."""
        return self.facts.get(key, NodeFacts())

    def observe(self, node: GraphNode, inputs: Sequence[Any], results: Sequence[Any]) -> None:
        """Merge the values of one application of a node into the facts of the node. The interpreter calls this.

        - inputs, results: the traced values of this application.
        - node: a node of the copy that `infer_facts` traces. Its name is its key, and "call/key" for a function's node.

        After several applications, only the facts that hold in all of them stay.
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
    """Return the fact of a traced value. `NO_FACT` for any value but a Tensor or a sequence of Tensors."""
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
        {name: merge((fact, second.captured.get(name, NO_FACT))) for name, fact in first.captured.items()},
    )


def nodes_of(model: "onnx.ModelProto") -> "Iterator[Tuple[str, onnx.NodeProto]]":
    """Yield (key, node) for every node: of the main graph, then of each function. A node precedes its subgraphs.

    The key is "n" and a position in the main graph, or "f", the number of the function, "_" and a position there.
    """
    for position, node in enumerate(walk(model.graph.node)):
        yield "n%d" % position, node
    for number, function in enumerate(model.functions):
        for position, node in enumerate(walk(function.node)):
            yield "f%d_%d" % (number, position), node


def infer_facts(model: "onnx.ModelProto", open_inputs: Collection[str] = (), is_checked: bool = True) -> ModelFacts:
    """Trace a copy of the model without weights, and return the facts of the model's nodes.

    - open_inputs: the names of inputs with a default that a caller may replace. Their values count as unknown. The
      default of any other input is known.
    - is_checked: whether the model is valid, so that `load` accepts it. Then the errors of `load` are raised.
      Otherwise they are treated like those of the trace.

    An OnnxCompatError of the trace is stored in the result and ends the trace. For values that the trace did not reach,
    the facts are those that are declared, constant or inferred by onnx.
    """
    from onnx_compat.discovery import selection

    model_facts = ModelFacts()
    copy = _without_weights(model, open_inputs)
    interpreter = Interpreter(tolerant=True, observe=model_facts.observe)
    loaded = load(copy.SerializeToString()) if is_checked else None
    try:
        loaded = load(copy.SerializeToString()) if loaded is None else loaded
        with selection.find(selection.REFERENCE).scratch() as emitter:
            trace_model(loaded, emitter, declared_structures(loaded.graph), Specialisation(), interpreter)
    except OnnxCompatError as error:
        model_facts.error = error
    is_observed = all(node.name in model_facts.facts for _, node in nodes_of(copy))
    if interpreter.unseen or not is_observed or _has_optionals(copy):
        _fill_in(model_facts, copy)
    return model_facts


def _has_optionals(model: "onnx.ModelProto") -> bool:
    """Whether values of the model are optionals, which the trace replaces by their content."""
    ports = [*model.graph.input, *model.graph.output]
    return any(port.type.HasField("optional_type") for port in ports) or any(
        node.op_type == "Optional" for _, node in nodes_of(model)
    )


def _fill_in(model_facts: ModelFacts, copy: "onnx.ModelProto") -> None:
    """Add the facts that are declared, constant or inferred by onnx to `model_facts`, for values without a traced fact.

    The type of an optional replaces the traced type of its content. `copy`: the model that was traced.
    """
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(copy).graph
    except Exception:  # noqa: BLE001 (its errors have no common base, and the trace is the first source)
        graph = copy.graph
    declared = {port.name: _fact_of_type(port.type) for port in [*graph.value_info, *graph.input, *graph.output]}
    declared.update(_constants_in(copy.graph.node))
    for inner in graphs_of(copy.graph):
        declared.update((tensor.name, _fact_of_tensor(tensor)) for tensor in inner.initializer)
    _add_declared(model_facts, copy.graph.node, declared)
    for function in copy.functions:
        _add_declared(model_facts, function.node, _constants_in(function.node))


def _add_declared(model_facts: ModelFacts, nodes: "Sequence[onnx.NodeProto]", declared: Mapping[str, Fact]) -> None:
    """Add facts in `declared` (value name -> fact) to `model_facts`, for the values that the nodes read and compute.

    Nodes of subgraphs are included. A fact that `model_facts` has stays, unless the value is declared as an optional.
    The name of each node is its key.
    """

    def better(fact: Fact, name: str) -> Fact:
        known = declared.get(name, NO_FACT)
        return known if fact.type is None or (known.type or "").startswith("optional") else fact

    for node in walk(nodes):
        facts = model_facts.of(node.name)
        inputs = tuple(better(facts.input(k), name) for k, name in enumerate(node.input))
        outputs = tuple(better(facts.output(k), name) for k, name in enumerate(node.output))
        model_facts.facts[node.name] = facts._replace(inputs=inputs, outputs=outputs)


def _constants_in(nodes: "Sequence[onnx.NodeProto]") -> Dict[str, Fact]:
    """Return value name -> fact of each Constant node with a tensor, an int or a list of ints, also in subgraphs."""
    constants: Dict[str, Fact] = {}
    for node in walk(nodes):
        for attribute in node.attribute:
            if node.op_type == "Constant" and not node.domain and not attribute.ref_attr_name:
                if attribute.name == "value":
                    constants[node.output[0]] = _fact_of_tensor(attribute.t)
                elif attribute.name in ("value_int", "value_ints"):
                    elements = np.asarray(attribute.i if attribute.name == "value_int" else attribute.ints, np.int64)
                    constants[node.output[0]] = Fact("tensor(int64)", elements.shape, elements)
    return constants


def _fact_of_tensor(tensor: "onnx.TensorProto") -> Fact:
    """Return the fact of a tensor: its type and its shape.

    Its elements are included if there are at most `SMALL` in the model, and numpy has their integer or float dtype.
    """
    from onnx import numpy_helper

    dtype, shape = DType.of(tensor.data_type), tuple(tensor.dims)
    is_known = is_small(tensor) and dtype.native and dtype.kind in "iuf"
    return Fact("tensor(%s)" % dtype.spelling, shape, numpy_helper.to_array(tensor) if is_known else None)


def _fact_of_type(kind: "onnx.TypeProto") -> Fact:
    """Return the fact that a declared type states: the type as text, and the shape of a tensor."""
    shape: Shape = None
    if kind.HasField("tensor_type") and kind.tensor_type.HasField("shape"):
        shape = tuple(dim.dim_value if dim.HasField("dim_value") else None for dim in kind.tensor_type.shape.dim)
    return Fact(_type_text(kind), shape)


def _type_text(kind: "onnx.TypeProto") -> Optional[str]:
    """Return a type in the text form of the schemas of onnx: "optional(tensor(float))".

    None: a part of the type is not declared, or it is a map.
    """
    name = kind.WhichOneof("value")
    if name in ("tensor_type", "sparse_tensor_type"):
        number = getattr(kind, name).elem_type
        return "%s(%s)" % (name[: -len("_type")], DType.of(number).spelling) if number else None
    if name in ("sequence_type", "optional_type"):
        element = _type_text(getattr(kind, name).elem_type)
        outer = "seq" if name == "sequence_type" else "optional"
        return None if element is None else "%s(%s)" % (outer, element)
    return None


def _without_weights(model: "onnx.ModelProto", open_inputs: Collection[str]) -> "onnx.ModelProto":
    """Return a copy of the model for the trace. The name of each node is its key (see `nodes_of`).

    The large initializers of the main graph are inputs. Other large tensors are random numbers. The inputs in
    `open_inputs` have no default.
    """
    import onnx

    copy = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    stored = [tensor for tensor in model.graph.initializer if tensor.name not in open_inputs and is_small(tensor)]
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
        is_declared = port.name in open_inputs and bool(port.type.tensor_type.elem_type)
        graph.input.append(port if tensor is None or is_declared else value_info(tensor))
    graph.input.extend(value_info(tensor) for tensor in types.values())
    for key, node in nodes_of(copy):
        node.name = key
    replace_large_tensors(copy)
    return copy


def is_small(tensor: "onnx.TensorProto") -> bool:
    """Whether a trace knows the elements of a tensor: there are at most `SMALL`, and they are no external data."""
    count = 1
    for size in tensor.dims:
        count *= size
    return count <= SMALL and tensor.data_location != tensor.EXTERNAL

"""Compose a node: record its meaning over primitives, and write the primitives with the operators of the target."""

import functools
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import numpy as np

from onnx_compat.errors import InvalidModelError, NeedsKnownError
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.support import declared_structures
from onnx_compat.ir.dims import is_static
from onnx_compat.ir.dtypes import int64
from onnx_compat.model import Graph, GraphNode, Model, TensorType, ValueInfo
from onnx_compat.model.initializer import Initializer
from onnx_compat.model.names import Names
from onnx_compat.model.protos import walk
from onnx_compat.model.types import Type
from onnx_compat.model.write import node_proto, tensor_proto
from onnx_compat.retarget.edited_node import Inexpressible
from onnx_compat.retarget.forms import write_form
from onnx_compat.retarget.inferred_facts import Fact, NodeFacts
from onnx_compat.retarget.rewriting import Composed
from onnx_compat.retarget.runtime_axes import NodeWriter, write_runtime_axes
from onnx_compat.retarget.stand_ins import STAND_IN
from onnx_compat.shim.interface import Port, Program
from onnx_compat.tracing.interpreter import Interpreter
from onnx_compat.tracing.recording import record_program
from onnx_compat.tracing.values import Tensor, lift

if TYPE_CHECKING:
    import onnx

    from onnx_compat.onnx_shim.operator_sets import OperatorOffer

__all__ = ["LARGE_WEIGHT", "compose_node"]

#: The reason why a node is refused that is composed if the model is read with the weights of its subgraphs.
LARGE_WEIGHT = "its subgraphs have large weights"
#: Operator -> the number of its input that names an axis.
_AXIS_INPUTS = {"CumProd": 1, "CumSum": 1, "DFT": 2}
#: Name -> fact, for each value that a node reads.
Reads = Dict[str, Fact]


def compose_node(node: "onnx.NodeProto", facts: NodeFacts, names: Names, opset: int) -> Composed:
    """Compose a node: return nodes that compute its results with the operators of an opset.

    - facts: the facts of `node`.
    - names: the names in use, to which the names of new values and nodes are added.
    - opset: the version of ai.onnx.

    Raises Inexpressible if the node cannot be composed: its types are not known, a call of its function sets an
    attribute, its subgraphs have large weights, or a result is no tensor.

    Raises an OnnxCompatError if the trace fails or the operators of the opset do not suffice.
    """
    form = write_form(node, facts, names, opset)
    if form is not None:
        return form
    traced = facts.node
    if traced is None:
        raise Inexpressible("its types are not known")
    if any(attribute.ref_attr_name for inner in walk([node]) for attribute in inner.attribute):
        raise Inexpressible("each call of its function sets its attributes")
    if any(inner.name.endswith(STAND_IN) for graph in traced.subgraphs() for inner in graph.walk()):
        raise Inexpressible(LARGE_WEIGHT)
    reads: Reads = {name: facts.input(k) for k, name in enumerate(node.input) if name}
    reads.update(facts.captured)
    # a function's node has the names of a call, which may give one value for two inputs
    parts = (traced.operator, node.input, node.output, traced.attributes, traced.domain, traced.opset, traced.name)
    traced = GraphNode(*parts)
    try:
        return _emit(traced, node, reads, names, opset, all_known=False)
    except NeedsKnownError:
        pass
    try:
        return _emit(traced, node, reads, names, opset, all_known=True)
    except NeedsKnownError:
        composed = (
            write_runtime_axes(node, facts, names, opset)
            or _compose_at_run_time(node, facts, names, opset)
            or _choose_axis(node, facts, names, opset)
        )
        if composed is None:
            raise
        return composed


def _choose_axis(node: "onnx.NodeProto", facts: NodeFacts, names: Names, opset: int) -> Optional[Composed]:
    """Compose a CumSum, CumProd or DFT for each axis, and choose one of the results by nested Ifs at run time.

    Return the nodes. An axis that is invalid for the operator is left out. Return None in these cases:

    - The operator is another one, the node has no axis input, or its axis is known.
    - The rank of the data is not known, or every axis is invalid.

    Raises Inexpressible, or an OnnxCompatError other than InvalidModelError, if a valid axis cannot be composed. Raises
    Inexpressible also if the dtype of the data is not known.
    """
    position = _AXIS_INPUTS.get(node.op_type)
    rank = facts.input(0).rank
    if position is None or rank is None or node.domain or len(node.input) <= position or not node.input[position]:
        return None
    writer = NodeWriter(node, facts, names, opset)
    axis = facts.input(position)
    if axis.value is not None:
        return None
    flag = writer.call(
        "Cast", writer.call("Reshape", node.input[position], writer.constant(np.zeros(0))), to=int64.onnx
    )
    parts: List[Tuple[int, onnx.GraphProto]] = []
    for number in range(rank):
        known = axis._replace(value=np.reshape(np.asarray(number, np.int64), [1] * (axis.rank or 0)))
        inputs = (*facts.inputs[:position], known, *facts.inputs[position + 1 :])
        copy = type(node)()
        copy.CopyFrom(node)
        copy.output[0] = names.fresh("%s/axis_%d" % (node.output[0], number))
        try:
            composed = compose_node(copy, facts._replace(inputs=inputs), names, opset)
        except InvalidModelError:  # no axis for this operator: the last axis of a DFT
            continue
        writer.initializers.extend(composed.initializers)
        parts.append((number, writer.branch(composed.nodes, copy.output[0], flag)))
    if not parts:
        return None
    writer.choose(flag, parts, rank)
    return Composed(writer.nodes, writer.initializers, {"": opset})


def _compose_at_run_time(node: "onnx.NodeProto", facts: NodeFacts, names: Names, opset: int) -> Optional[Composed]:
    """Compose a Dropout, Pad, Resize or Slice whose inputs besides the data are only known when the model runs.

    Return its nodes. Return None in these cases:

    - The operator is another one, or its version has attributes in place of the inputs.
    - The trace did not see the node.

    Raises Inexpressible if a type is not known, and NeedsKnownError for a Resize that crops.
    """
    from onnx_compat.onnx_shim.emitter import OnnxEmitter
    from onnx_compat.onnx_shim.operator_sets import OperatorOffer
    from onnx_compat.ops.run_time_values import AT_RUN_TIME

    traced, form = facts.node, AT_RUN_TIME.get(node.op_type)
    if form is None or node.domain or traced is None or traced.opset < form.begin:
        return None
    symbols: Dict[Any, str] = {}
    ports: Dict[int, Port] = {}
    known: Dict[int, Tensor] = {}
    for position, name in enumerate(node.input):
        fact = facts.input(position)
        if name and position and fact.value is not None:
            known[position] = lift(fact.value, fact.dtype)
        elif name:
            kind = _type_of(fact, symbols)
            assert isinstance(kind, TensorType) and kind.dtype is not None and kind.shape is not None
            ports[position] = Port(name, kind.dtype, kind.shape)

    def body(*tensors: Tensor) -> List[Tensor]:
        given = {**known, **dict(zip(ports, tensors))}
        results = form.compute([given.get(position) for position in range(len(node.input))], traced.attributes)
        return [result for result, name in zip(results, node.output) if name]

    offer = OperatorOffer(opset)
    program = record_program(body, list(ports.values()), OnnxEmitter(offer))
    outputs = tuple(port._replace(name=name) for port, name in zip(program.outputs, filter(None, node.output)))
    return _write(program._replace(outputs=outputs), node, names, offer)


def _emit(
    traced: GraphNode, node: "onnx.NodeProto", reads: Reads, names: Names, opset: int, all_known: bool
) -> Composed:
    """Trace a graph of the node alone. Return the nodes of the recorded program.

    - traced, node: the same node, as a GraphNode and as a NodeProto.
    - reads: name -> fact, for each value that the node reads.
    - all_known: whether a known float tensor of several elements is a constant of the graph. Otherwise it is an input.

    Raises Inexpressible if a result is a sequence, a map or an optional, or if the type of an input is not known.
    Raises NeedsKnownError if an input must be a constant, and any other OnnxCompatError of the trace.
    """
    from onnx_compat.onnx_shim.emitter import OnnxEmitter
    from onnx_compat.onnx_shim.operator_sets import OperatorOffer

    offer = OperatorOffer(opset)
    graph = _graph_of(traced, reads, all_known)
    emitter = OnnxEmitter(offer)
    recorded = trace_model(
        Model(graph, {traced.domain: traced.opset}, 0),
        emitter,
        declared_structures(graph),
        Specialisation(),
        Interpreter(emitter.natives()),
        whole=True,
    )
    if not all(isinstance(tree, int) for tree in recorded.tree):
        raise Inexpressible("it gives a sequence, a map or an optional")
    return _write(recorded.program, node, names, offer)


def _write(program: Program, node: "onnx.NodeProto", names: Names, offer: "OperatorOffer") -> Composed:
    """Write a program with the operators that `offer` has. Return its nodes and initializers.

    `node` is the node that the program computes; new names begin with the name of this node. The ports of the program
    have the names of the values that the node reads and computes.
    """
    from onnx_compat.onnx_shim.emission import emit_fragment

    base = node.name or next(filter(None, node.output), node.op_type)
    fragment = emit_fragment(
        program,
        offer,
        [port.name for port in program.inputs],
        [port.name for port in program.outputs],
        base + "/",
        names,
    )
    nodes: List[onnx.NodeProto] = [node_proto(inner) for inner in fragment.nodes]
    tensors = [
        tensor_proto(initializer.array(), initializer.dtype, name)
        for name, initializer in fragment.initializers.items()
    ]
    return Composed(nodes, tensors, fragment.opsets)


def _graph_of(traced: GraphNode, reads: Reads, all_known: bool) -> Graph:
    """Return a graph whose only node is `traced`. Its inputs and constants are the values in `reads` (name -> fact).

    A known value becomes a constant, any other value an input. `all_known`: whether this holds also for a float tensor
    of several elements, which is an input otherwise. Raises Inexpressible if the type of an input is not known.
    """
    inputs: List[ValueInfo] = []
    constants: Dict[str, Initializer] = {}
    symbols: Dict[Any, str] = {}
    for name, fact in reads.items():
        dtype, array = fact.dtype, fact.value
        if dtype is not None and array is not None and (all_known or dtype.kind != "f" or array.size <= 1):
            constants[name] = Initializer(name, dtype, array.shape, functools.partial(np.asarray, array))
        else:
            inputs.append(ValueInfo(name, _type_of(fact, symbols)))
    outputs = [ValueInfo(name, None) for name in traced.outputs if name]
    return Graph("node", inputs, outputs, [traced], constants)


def _type_of(fact: Fact, symbols: Dict[Any, str]) -> Type:
    """Return the tensor type of a value. Raises Inexpressible if its dtype or its rank is not known.

    A symbolic size becomes a name. `symbols` maps symbolic sizes to names and gets an entry for each new size, so equal
    sizes of several values have one name.
    """
    if fact.dtype is None or fact.shape is None:
        raise Inexpressible("the type of a value that it reads is not known")
    extents = fact.shape if fact.extents is None else fact.extents
    sizes: List[Any] = []
    for extent in extents:
        if extent is None or is_static(extent):
            sizes.append(extent)
        else:
            sizes.append(symbols.setdefault(extent, "size_%d" % len(symbols)))
    return TensorType(fact.dtype, tuple(sizes))

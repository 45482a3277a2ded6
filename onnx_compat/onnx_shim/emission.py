"""Write programs as ONNX: as the nodes of a fragment, or as a whole model."""

import functools
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from onnx_compat.errors import UnsupportedError
from onnx_compat.ir import dtypes
from onnx_compat.ir.dtypes import DType
from onnx_compat.model.graph import Graph, GraphNode, Model, ValueInfo
from onnx_compat.model.initializer import Initializer
from onnx_compat.model.names import Names
from onnx_compat.model.types import TensorType
from onnx_compat.model.write import to_proto
from onnx_compat.onnx_shim.emitter import OnnxEmitter
from onnx_compat.onnx_shim.graph_builder import Value, Writing
from onnx_compat.onnx_shim.guards import remove_guards
from onnx_compat.onnx_shim.operator_sets import OperatorOffer
from onnx_compat.onnx_shim.recognition import recognize_operators
from onnx_compat.onnx_shim.signatures import newest_opset
from onnx_compat.shim.emission import emit
from onnx_compat.shim.interface import Port, Program

__all__ = ["Fragment", "emit_fragment", "write_program", "write_values"]

#: The bytes from which on an initializer is shared with a session. Copies of smaller ones take little memory.
_SHARED_BYTES = 1 << 20
#: The largest size of a protobuf message, in bytes, less room for the nodes.
_LARGEST_MESSAGE = 2**31 - 2**24
#: The file name of a shared initializer. The session gets its array, so no file is read.
_NO_FILE = "shared"

#: An onnx.ModelProto: `onnx` is imported late.
ModelProto = Any


class Fragment(NamedTuple):
    """A part of a graph: nodes in topological order, and the constants that they read.

    - initializers: name -> initializer.
    - opsets: domain -> version, of the operators of the nodes.
    - origins: name of a node -> name of the node of the model that it computes. Nodes of subgraphs are included.
    """

    nodes: Tuple[GraphNode, ...]
    initializers: Dict[str, Initializer]
    opsets: Dict[str, int]
    origins: Dict[str, str]


def emit_fragment(
    program: Program,
    offer: OperatorOffer,
    input_names: Sequence[str],
    output_names: Sequence[str],
    prefix: str = "",
    names: Optional[Names] = None,
    carriers: bool = False,
    entropy_name: str = "",
) -> Fragment:
    """Return the nodes that compute a program on a target. The program was recorded with an `OnnxEmitter`.

    - input_names: the names of the values that the nodes read as the inputs of the program. They may repeat.
    - output_names: the names of the values that the nodes compute. Each is the output of a node.
    - prefix: the beginning of all other names.
    - names: the names in use; new names are added to it. By default only the names of inputs and outputs are in use.
    - carriers: whether ports have the dtypes of carriers, such as float32 for bfloat16.
    - entropy_name: the name of an int64 scalar that has a random value at each run. Random numbers without a seed are
      computed from it. By default operators draw them.

    Raises UnsupportedError, with the node of the model, for what the target cannot express.
    """
    emitter = OnnxEmitter(offer)
    emitter.has_entropy = bool(entropy_name)
    carried = [(port, _carrier(port.dtype)) for port in program.inputs]
    inputs = [emitter.placeholder_of(kind if carriers else port.dtype, port.shape) for port, kind in carried]
    handles = [emitter.convert(value, kind) for value, (_, kind) in zip(inputs, carried)]
    results = emit(remove_guards(program.region, offer), emitter, handles)
    if not carriers:
        results = [emitter.narrow(result, port.dtype) for result, port in zip(results, program.outputs)]
    if entropy_name:
        inputs, input_names = [*inputs, emitter.entropy()], [*input_names, entropy_name]
    return _write_scope(emitter, inputs, results, input_names, output_names, prefix, names)


def _write_scope(
    emitter: OnnxEmitter,
    inputs: Sequence[Value],
    results: Sequence[Value],
    input_names: Sequence[str],
    output_names: Sequence[str],
    prefix: str = "",
    names: Optional[Names] = None,
) -> Fragment:
    """Return the calls of an emitter that `results` depend on, as the nodes of a `Fragment`.

    - input_names, output_names: the names of `inputs` and of `results`.
    - prefix: the beginning of all other names.
    - names: the names in use; new names are added to it. By default only the names of inputs and outputs are in use.
    """
    scope = emitter.builder.scope
    scope.inputs = tuple(inputs)
    for result in results:
        scope.outputs += (emitter.graph_output(result),)
    offer = emitter.offer
    names = Names() if names is None else names
    names.reserve([*input_names, *output_names])
    writing = Writing(names, prefix, offer.opsets)
    for value, name in [*zip(inputs, input_names), *zip(scope.outputs, output_names)]:
        writing.name(value, name)
    nodes = writing.nodes(scope)
    return Fragment(tuple(nodes), writing.initializers, {"": offer.opset, **_domains(nodes)}, writing.origins)


def _carrier(dtype: DType) -> DType:
    return dtypes.string if dtype.kind == "s" else DType.of(dtype.numpy)


def _domains(nodes: Sequence[GraphNode]) -> Dict[str, int]:
    return {node.domain: node.opset for node in _all_nodes(nodes)}


def _all_nodes(nodes: Sequence[GraphNode]) -> List[GraphNode]:
    return [inner for node in nodes for inner in [node, *_inner(node)]]


def _inner(node: GraphNode) -> List[GraphNode]:
    return [inner for graph in node.subgraphs() for inner in graph.walk()]


def write_values(
    emitter: OnnxEmitter,
    inputs: Sequence[Value],
    results: Sequence[Value],
    input_names: Sequence[str],
    output_names: Sequence[str],
) -> ModelProto:
    """Return an onnx.ModelProto of the calls of an emitter that compute `results` from `inputs`.

    `input_names`, `output_names`: the names of its inputs and outputs.
    """
    fragment = _write_scope(emitter, inputs, results, input_names, output_names)
    ports = [
        [ValueInfo(name, TensorType(value.dtype, value.shape)) for name, value in zip(names, values)]
        for names, values in ((input_names, inputs), (output_names, results))
    ]
    graph = Graph("graph", ports[0], ports[1], fragment.nodes, fragment.initializers)
    return _proto_for(emitter.offer, Model(graph, fragment.opsets, 0))


def write_program(
    program: Program,
    opset: Optional[int] = None,
    ir_version: Optional[int] = None,
    offer: Optional[OperatorOffer] = None,
    carriers: bool = False,
    entropy_name: str = "",
    shared: Optional[Dict[str, np.ndarray]] = None,
    origins: Optional[Dict[str, str]] = None,
) -> ModelProto:
    """Return a program as an onnx.ModelProto. The program was recorded with an `OnnxEmitter`.

    - opset: the version of ai.onnx. `offer` replaces it: a target that has only some operators of its operator set.
    - ir_version: the version of the file format; by default the oldest that the operator sets and dtypes need, or the
      newest that the target reads if that is older. Before version 4, each initializer is an input too.
    - carriers: whether ports have the dtypes of carriers, such as float32 for bfloat16.
    - entropy_name: the name of an int64 scalar, from which random numbers without a seed are computed. It is the last
      input of the model, and exists only if the model has such numbers. By default operators draw them.
    - shared: is filled with name -> array for each large initializer. The model then refers to them as external data
      without a file. None: the model holds every initializer.
    - origins: is filled with the name of each written node -> the name of the node of the source that it computes.

    Raises UnsupportedError for what the target cannot express, and for an IR version that is too old. Initializers that
    exceed the size of a protobuf message raise it too.
    """
    if offer is None:
        offer = OperatorOffer(newest_opset() if opset is None else opset)
    program = program._replace(region=recognize_operators(program.region, offer))
    names = Names([entropy_name])
    inputs, outputs = ([names.fresh(port.name) for port in ports] for ports in (program.inputs, program.outputs))
    fragment = emit_fragment(program, offer, inputs, outputs, "", None, carriers, entropy_name)
    if origins is not None:
        origins.update(fragment.origins)
    ports = [
        [ValueInfo(name, _type(port, carriers)) for name, port in zip(given, of)]
        for given, of in ((inputs, program.inputs), (outputs, program.outputs))
    ]
    if entropy_name and any(entropy_name in node.inputs for node in _all_nodes(fragment.nodes)):
        ports[0].append(ValueInfo(entropy_name, TensorType(dtypes.int64, ())))
    initializers = fragment.initializers if shared is None else _move_large(fragment.initializers, shared)
    _check_size(initializers)
    graph = Graph(program.name or "graph", ports[0], ports[1], fragment.nodes, initializers)
    proto = _proto_for(offer, Model(graph, fragment.opsets, 0))
    for tensor in proto.graph.initializer:
        if shared is not None and tensor.name in shared:
            _refer_to_array(tensor, shared[tensor.name])
    return proto if ir_version is None else _with_ir_version(proto, ir_version)


def _move_large(initializers: Dict[str, Initializer], shared: Dict[str, np.ndarray]) -> Dict[str, Initializer]:
    """Put the arrays of large initializers into `shared`. Return all initializers, the large ones without elements."""
    kept = dict(initializers)
    for name, initializer in initializers.items():
        if initializer.dtype.native and initializer.dtype.kind != "s" and _bytes_of(initializer) >= _SHARED_BYTES:
            shared[name] = np.ascontiguousarray(initializer.array())
            nothing = np.zeros(0, initializer.dtype.numpy)
            kept[name] = Initializer(name, initializer.dtype, (0,), functools.partial(np.asarray, nothing))
    return kept


def _bytes_of(initializer: Initializer) -> int:
    return int(np.prod(initializer.shape, dtype=np.int64)) * initializer.dtype.bits // 8


def _check_size(initializers: Dict[str, Initializer]) -> None:
    """Raise UnsupportedError if a protobuf message cannot hold the initializers."""
    total = sum(map(_bytes_of, initializers.values()))
    if total > _LARGEST_MESSAGE:
        raise UnsupportedError(
            "the weights have %d bytes, and an ONNX file holds at most %d" % (total, _LARGEST_MESSAGE),
            hint="convert the ONNX model with external_data, which writes the weights beside it",
        )


def _refer_to_array(tensor: Any, array: np.ndarray) -> None:
    """Make a tensor of a proto, in place, refer to an array that the session gets by its name."""
    tensor.ClearField("raw_data")
    del tensor.dims[:]
    tensor.dims.extend(array.shape)
    tensor.data_location = tensor.EXTERNAL
    tensor.external_data.add(key="location", value=_NO_FILE)


def _proto_for(offer: OperatorOffer, model: Model) -> ModelProto:
    """Return a model as an onnx.ModelProto of an IR version that the target reads.

    A runtime that has the kernels of an operator set may read older IR versions only. Its trials decide what works.
    """
    proto = to_proto(model)
    if offer.newest_ir_version is not None:
        proto.ir_version = min(proto.ir_version, offer.newest_ir_version)
    return proto


def _type(port: Port, carriers: bool) -> TensorType:
    return TensorType(_carrier(port.dtype) if carriers else port.dtype, port.shape)


def _with_ir_version(proto: ModelProto, version: int) -> ModelProto:
    """Set the IR version of `proto`, in place, and return it. Before version 4, each initializer becomes an input too.

    Raises UnsupportedError if the model needs a later version.
    """
    needed = proto.ir_version if proto.ir_version > 4 else 3
    if version < needed:
        raise UnsupportedError("the model needs IR version %d, not %d" % (needed, version))
    proto.ir_version = version
    if version < 4:
        for tensor in proto.graph.initializer:
            port = proto.graph.input.add(name=tensor.name)
            port.type.tensor_type.elem_type = tensor.data_type
            for size in tensor.dims:
                port.type.tensor_type.shape.dim.add(dim_value=size)
    return proto

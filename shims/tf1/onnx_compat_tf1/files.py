"""Write and read frozen GraphDefs and SavedModels of TensorFlow 1.

A GraphDef has no signature. So the node of each input and output has its port as JSON in an attribute that TensorFlow ignores.
The signature of a SavedModel has the names of the ONNX model.
"""

import json
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from onnx_compat_tensorflow.framework_types import Sides, TensorFlow, TfGraph, TfGraphDef, TfTensor
from onnx_compat_tensorflow.graph_ops import preview_operations
from onnx_compat_tensorflow.port_files import (
    DAMAGED_PORTS,
    KeyedPorts,
    damaged_ports_error,
    port_from_data,
    port_from_tensor,
    port_to_data,
    read_ports,
    write_ports,
)

from onnx_compat.shim import Compiled, ConversionError, Port, Preview
from onnx_compat_tf1.graph import BuiltGraph, SessionModel, session_for

__all__ = ["load_graphdef", "load_saved_model", "preview_graph", "save_graphdef", "save_saved_model"]

Loaded = Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]
#: The inputs or outputs of a graph in order: (tensor, port) pairs.
TensorPorts = List[Tuple[TfTensor, Port]]
_PORT = "_onnx_compat_port"


def save_graphdef(built: BuiltGraph, path: str) -> None:
    """Write a graph to a GraphDef file, with the ports in attributes of the nodes of inputs and outputs.

    Weights are constants. Nodes that no output needs are left out, except the nodes of inputs. An old file is replaced.
    """
    frozen, roles = _freeze(built)
    for node in frozen.node:
        if node.name in roles:
            node.attr[_PORT].s = json.dumps(roles[node.name]).encode("utf-8")
    with open(path, "wb") as file:
        file.write(frozen.SerializeToString())


def preview_graph(built: BuiltGraph, form: str) -> Preview:
    """Return a `Preview` of the file of a graph: its operations, in total and for each ONNX node. Nothing is written.

    `form`: the format of the file, "graphdef" or "saved_model".
    """
    nodes = (_freeze(built)[0] if form == "graphdef" else built.graph.as_graph_def()).node
    return preview_operations(((node.name, node.op) for node in nodes), built.program)


def _freeze(built: BuiltGraph) -> Tuple[TfGraphDef, Dict[str, Dict[str, Any]]]:
    """Return (GraphDef of a graph, {name of the graph node of an input or output: its port}).

    Nodes that no output needs are left out of the GraphDef, except the nodes of inputs. A port is the dict of
    `port_to_data`, with two more keys: "role" ("input" or "output"), and "place" (the index among the inputs or
    outputs).
    """
    program = built.program
    roles: Dict[str, Dict[str, Any]] = {}
    for role, tensors, ports in (
        ("input", built.inputs, program.inputs),
        ("output", built.outputs, program.outputs),
    ):
        for position, (tensor, port) in enumerate(zip(tensors, ports)):
            roles[tensor.op.name] = dict(port_to_data(port), role=role, place=position)
    return _prune(built.graph.as_graph_def(), list(roles)), roles


def _prune(graph_def: TfGraphDef, names: List[str]) -> TfGraphDef:
    """Return a GraphDef with only the nodes `names` and the nodes that they depend on.

    Raises KeyError for an unknown name.
    """
    inputs = {node.name: node.input for node in graph_def.node}
    needed: Set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(source.lstrip("^").split(":")[0] for source in inputs[name])
    part = type(graph_def)(versions=graph_def.versions, library=graph_def.library)
    part.node.extend(node for node in graph_def.node if node.name in needed)
    return part


def load_graphdef(tf: TensorFlow, path: str) -> Loaded:
    """Load a frozen GraphDef. Return (compiled model, input ports, output ports).

    If the file has no ports, they come from the graph (see `_infer_ports`).

    Raises ConversionError if the file is missing, or if TensorFlow cannot parse or import it. Raises InvalidModelError
    for damaged ports, and for an inferred port of unknown rank. Raises UnsupportedError for a port whose dtype ONNX
    lacks.
    """
    frozen = tf.compat.v1.GraphDef()
    try:
        with open(path, "rb") as file:
            frozen.ParseFromString(file.read())
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(frozen, name="")
    except Exception as error:
        raise ConversionError("'%s' is no GraphDef that TensorFlow can read: %s" % (path, error)) from error
    try:
        inputs, outputs = _read_node_ports(graph, frozen) or _infer_ports(graph)
    except DAMAGED_PORTS as error:
        raise damaged_ports_error(path, error) from error
    fed, fetched = [[tensor for tensor, _ in pairs] for pairs in (inputs, outputs)]
    ports = [tuple(port for _, port in pairs) for pairs in (inputs, outputs)]
    return SessionModel(tf, graph, fed, fetched), ports[0], ports[1]


def _read_node_ports(graph: TfGraph, frozen: TfGraphDef) -> Optional[Tuple[TensorPorts, TensorPorts]]:
    """Return (inputs, outputs) that `save_graphdef` stored in node attributes.

    Each is a list of (tensor, port) pairs in the order of the model. Returns None if no node is marked as an output.
    Raises an error of `DAMAGED_PORTS` for a damaged attribute.
    """
    entries: Dict[str, List[Tuple[int, TfTensor, Port]]] = {"input": [], "output": []}
    for node in frozen.node:
        if _PORT in node.attr:
            data = json.loads(node.attr[_PORT].s.decode("utf-8"))
            tensor = graph.get_tensor_by_name(node.name + ":0")
            entries[data["role"]].append((data["place"], tensor, port_from_data(data)))
    if not entries["output"]:
        return None
    inputs, outputs = (sorted(entries[role], key=lambda entry: entry[0]) for role in ("input", "output"))
    return [entry[1:] for entry in inputs], [entry[1:] for entry in outputs]


def _infer_ports(graph: TfGraph) -> Tuple[TensorPorts, TensorPorts]:
    """Return (inputs, outputs) of a graph without ports, each as a list of (tensor, port) pairs in operation order.

    The inputs are the placeholders. An output is the first result of an operation whose results no operation reads. A
    placeholder that no operation reads is an input and an output.
    """
    operations = graph.get_operations()
    inputs = [op.outputs[0] for op in operations if op.type == "Placeholder"]
    ends = [op.outputs[0] for op in operations if op.outputs and not any(tensor.consumers() for tensor in op.outputs)]
    sources, results = (
        [(tensor, port_from_tensor(tensor.op.name, tensor)) for tensor in side] for side in (inputs, ends)
    )
    return sources, results


def save_saved_model(built: BuiltGraph, path: str) -> None:
    """Write a graph as a SavedModel folder with the signature `serving_default`, and with the ports in a JSON file."""
    tf, program = built.tf, built.program
    inputs = {port.name: tensor for port, tensor in zip(program.inputs, built.inputs)}
    outputs = {port.name: tensor for port, tensor in zip(program.outputs, built.outputs)}
    with built.graph.as_default(), session_for(tf, built.graph) as session:
        saved = tf.compat.v1.saved_model
        with _silence_deprecations(tf):
            builder = saved.Builder(path)
            signature = saved.signature_def_utils.predict_signature_def(inputs, outputs)
            builder.add_meta_graph_and_variables(session, [saved.SERVING], {"serving_default": signature})
            builder.save()
    named = [[(port.name, port) for port in ports] for ports in (program.inputs, program.outputs)]
    write_ports(path, *named)


def load_saved_model(tf: TensorFlow, path: str) -> Loaded:
    """Load the signature `serving_default` of a SavedModel folder. Return (compiled model, input ports, output ports).

    If the folder has no port file, the ports have the keys of the signature, and the dtypes and shapes of its tensors.

    Raises ConversionError if TensorFlow cannot load the folder, or if the folder has no such signature. Raises
    InvalidModelError for damaged ports, and for a tensor of unknown rank. Raises UnsupportedError for a port whose
    dtype ONNX lacks.
    """
    graph = tf.Graph()
    session = session_for(tf, graph)
    try:
        with graph.as_default(), _silence_deprecations(tf):
            loaded = tf.compat.v1.saved_model.load(session, [tf.compat.v1.saved_model.SERVING], path)
        signature = loaded.signature_def["serving_default"]
    except Exception as error:
        session.close()
        raise ConversionError("'%s' is no SavedModel that TensorFlow can load: %s" % (path, error)) from error
    sides: Sides = [
        {key: graph.get_tensor_by_name(info.name) for key, info in infos.items()}
        for infos in (signature.inputs, signature.outputs)
    ]
    try:
        ports = read_ports(path, *sides) or _ports_of_tensors(sides)
    except ValueError as error:  # a tensor of unknown rank
        raise damaged_ports_error(path, error) from error
    fed, fetched = [[side[key] for key, _ in pairs] for side, pairs in zip(sides, ports)]
    inputs, outputs = [tuple(port for _, port in pairs) for pairs in ports]
    return SessionModel(tf, graph, fed, fetched, session), inputs, outputs


@contextmanager
def _silence_deprecations(tf: TensorFlow) -> Iterator[None]:
    """Context manager that suppresses TensorFlow's log messages below errors.

    The functions of TensorFlow 1 for SavedModels log that they are deprecated. TensorFlow 1 has no other functions for
    SavedModels.
    """
    logging = tf.compat.v1.logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _ports_of_tensors(sides: Sides) -> Tuple[KeyedPorts, KeyedPorts]:
    inputs, outputs = ([(key, port_from_tensor(key, tensor)) for key, tensor in side.items()] for side in sides)
    return inputs, outputs

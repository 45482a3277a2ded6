"""Frozen GraphDefs and SavedModels, written and read.

A GraphDef has no place for a signature: each placeholder and output carries, in an attribute that TensorFlow ignores,
which port of the model it is. A SavedModel has the model's own names in its signature.
"""

import json
import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Set, Tuple

from onnx_compat_tensorflow.ports import described, port_of, ports_of, text_of

from onnx_compat.shim import Compiled, ConversionError, DType, Port
from onnx_compat_tf1.graph import BuiltGraph, SessionModel, session_for

__all__ = ["load_graphdef", "load_saved_model", "save_graphdef", "save_saved_model"]

Loaded = Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]
_PORT = "_onnx_compat_port"
_PORTS = os.path.join("assets.extra", "onnx_compat.json")


def save_graphdef(built: BuiltGraph, path: str) -> None:
    """Write the graph, whose weights are constants already, as one file."""
    program = built.program
    roles: Dict[str, Dict[str, Any]] = {}
    for role, tensors, ports in (
        ("input", built.inputs, program.inputs),
        ("output", built.outputs, program.outputs),
    ):
        for place, (tensor, port) in enumerate(zip(tensors, ports)):
            roles[tensor.op.name] = dict(described(port), role=role, place=place)
    frozen = _needed(built.graph.as_graph_def(), list(roles))
    for node in frozen.node:
        if node.name in roles:
            node.attr[_PORT].s = json.dumps(roles[node.name]).encode("utf-8")
    with open(path, "wb") as file:
        file.write(frozen.SerializeToString())


def _needed(whole: Any, names: List[str]) -> Any:
    """The nodes that these need, in order."""
    inputs = {node.name: node.input for node in whole.node}
    needed: Set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting.extend(source.lstrip("^").split(":")[0] for source in inputs[name])
    part = type(whole)(versions=whole.versions, library=whole.library)
    part.node.extend(node for node in whole.node if node.name in needed)
    return part


def load_graphdef(tf: Any, path: str) -> Loaded:
    """A frozen GraphDef: one of ours, or any whose inputs are its placeholders and outputs what nobody reads."""
    frozen = tf.compat.v1.GraphDef()
    try:
        with open(path, "rb") as file:
            frozen.ParseFromString(file.read())
        graph = tf.Graph()
        with graph.as_default():
            tf.import_graph_def(frozen, name="")
    except Exception as error:
        raise ConversionError("'%s' is no GraphDef that TensorFlow can read: %s" % (path, error)) from error
    inputs, outputs = _marked(graph, frozen) or _guessed(graph)
    fed, fetched = [[tensor for tensor, _ in pairs] for pairs in (inputs, outputs)]
    ports = [tuple(port for _, port in pairs) for pairs in (inputs, outputs)]
    return SessionModel(tf, graph, fed, fetched), ports[0], ports[1]


def _marked(graph: Any, frozen: Any) -> Any:
    found: Dict[str, List[Any]] = {"input": [], "output": []}
    for node in frozen.node:
        if _PORT in node.attr:
            data = json.loads(node.attr[_PORT].s.decode("utf-8"))
            found[data["role"]].append((data["place"], graph.get_tensor_by_name(node.name + ":0"), port_of(data)))
    if not found["output"]:
        return None
    return tuple([pair[1:] for pair in sorted(found[role], key=lambda one: one[0])] for role in ("input", "output"))


def _guessed(graph: Any) -> Any:
    operations = graph.get_operations()
    inputs = [op.outputs[0] for op in operations if op.type == "Placeholder"]
    ends = [op.outputs[0] for op in operations if op.outputs and not any(tensor.consumers() for tensor in op.outputs)]
    return [[(tensor, _port(tensor.op.name, tensor)) for tensor in tensors] for tensors in (inputs, ends)]


def save_saved_model(built: BuiltGraph, path: str) -> None:
    """Write a folder with the signature `serving_default`."""
    tf, program = built.tf, built.program
    inputs = {port.name: tensor for port, tensor in zip(program.inputs, built.inputs)}
    outputs = {port.name: tensor for port, tensor in zip(program.outputs, built.outputs)}
    with built.graph.as_default(), session_for(tf, built.graph) as session:
        saved = tf.compat.v1.saved_model
        with _undeprecated(tf):
            builder = saved.Builder(path)
            signature = saved.signature_def_utils.predict_signature_def(inputs, outputs)
            builder.add_meta_graph_and_variables(session, [saved.SERVING], {"serving_default": signature})
            builder.save()
    os.makedirs(os.path.join(path, os.path.dirname(_PORTS)))
    with open(os.path.join(path, _PORTS), "w", encoding="utf-8") as file:
        named = [[(port.name, port) for port in ports] for ports in (program.inputs, program.outputs)]
        file.write(text_of(*named))


def load_saved_model(tf: Any, path: str) -> Loaded:
    """A SavedModel folder: one of ours, or any with a default signature."""
    graph = tf.Graph()
    session = session_for(tf, graph)
    try:
        with graph.as_default(), _undeprecated(tf):
            loaded = tf.compat.v1.saved_model.load(session, [tf.compat.v1.saved_model.SERVING], path)
        signature = loaded.signature_def["serving_default"]
    except Exception as error:
        session.close()
        raise ConversionError("'%s' is no SavedModel that TensorFlow can load: %s" % (path, error)) from error
    sides = [
        {key: graph.get_tensor_by_name(info.name) for key, info in infos.items()}
        for infos in (signature.inputs, signature.outputs)
    ]
    ports = _ports(path, sides)
    fed, fetched = [[side[key] for key, _ in pairs] for side, pairs in zip(sides, ports)]
    inputs, outputs = [tuple(port for _, port in pairs) for pairs in ports]
    return SessionModel(tf, graph, fed, fetched, session), inputs, outputs


@contextmanager
def _undeprecated(tf: Any) -> Iterator[None]:
    """TensorFlow 1 has no other way to do it, and says meanwhile that this one is deprecated."""
    logging = tf.compat.v1.logging
    before = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _ports(path: str, sides: List[Dict[str, Any]]) -> Any:
    beside = os.path.join(path, _PORTS)
    if os.path.exists(beside):
        with open(beside, encoding="utf-8") as file:
            return ports_of(file.read())
    return [[(key, _port(key, tensor)) for key, tensor in side.items()] for side in sides]


def _port(name: str, tensor: Any) -> Port:
    return Port(name, DType.of(tensor.dtype.base_dtype.name), tuple(tensor.shape.as_list()))

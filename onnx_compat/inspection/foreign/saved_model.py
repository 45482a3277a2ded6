"""Describe a SavedModel from its `saved_model.pb`. The variables are not read."""

import json
import os
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional

from onnx_compat.errors import InputError, InvalidModelError
from onnx_compat.model.schema import link_messages, message
from onnx_compat.model.wire import FileSource, Message, parse
from onnx_compat.shim.description import Description

__all__ = ["FILE", "describe_saved_model"]

FILE = "saved_model.pb"
_PORT_TYPES = os.path.join("assets.extra", "onnx_compat.json")  # the shims write it: a signature has no names of sizes
_LARGEST = 1 << 25  # the largest number of characters of that file that is read
_DEFAULT = "serving_default"
_INITIAL = "__saved_model_init_op"  # a signature that only the loader of TensorFlow runs

_TYPES = (
    "? float32 float64 int32 uint8 int16 int8 string complex64 int64 bool qint8 quint8 qint32 bfloat16 qint16 quint16 uint16"
    " complex128 float16 resource variant uint32 uint64"
).split()

_SAVED = link_messages(
    message("Axis", size=(1, "int")),
    message("Shape", axes=(2, "Axis*"), unknown_rank=(3, "int")),
    message("Port", tensor=(1, "text"), dtype=(2, "int"), shape=(3, "Shape")),
    message("NamedPort", name=(1, "text"), port=(2, "Port")),
    message("Signature", inputs=(1, "NamedPort*"), outputs=(2, "NamedPort*")),
    message("NamedSignature", name=(1, "text"), signature=(2, "Signature")),
    message("Node", op=(2, "text")),
    message("Function", nodes=(3, "Node*")),
    message("Library", functions=(1, "Function*")),
    message("Graph", nodes=(1, "Node*"), library=(2, "Library")),
    message("About", tags=(4, "text*"), tensorflow=(5, "text")),
    message("MetaGraph", about=(1, "About"), graph=(2, "Graph"), signatures=(5, "NamedSignature*")),
    message("SavedModel", version=(1, "int"), graphs=(2, "MetaGraph*")),
)["SavedModel"]

Row = Dict[str, Any]


def describe_saved_model(path: str) -> Description:
    """Return the description of a SavedModel folder: facts, and tables of signatures and of operator counts.

    Only the first graph is described.

    - Raises `InputError` if `saved_model.pb` cannot be read.
    - Raises `InvalidModelError` if `saved_model.pb` is damaged, or holds no graph.
    """
    try:
        saved = _parse_file(os.path.join(path, FILE))
    except OSError as error:
        raise InputError("'%s' cannot be read: %s" % (path, error.strerror or error)) from error
    except (InvalidModelError, ValueError) as error:
        reason = "the %s in '%s' is no SavedModel, or it is damaged" % (FILE, path)
        raise InvalidModelError(reason, hint="check that the folder was copied completely") from error
    if not saved.graphs:
        raise InvalidModelError("the SavedModel '%s' holds no graph" % path)
    first = saved.graphs[0]
    nodes = Counter(node.op for node in _iterate_nodes(first.graph))
    sizes = {os.path.relpath(file, path): os.lstat(file).st_size for file in _iterate_files(path)}
    facts = {
        "format": "SavedModel",
        "bytes": sum(sizes.values()),
        "variable_bytes": sum(size for name, size in sizes.items() if name.startswith("variables" + os.sep)),
        "tensorflow_version": first.about.tensorflow if first.about is not None else "",
        "tags": list(first.about.tags) if first.about is not None else [],
        "graphs": len(saved.graphs),
        "nodes": sum(nodes.values()),
        "functions": len(first.graph.library.functions) if first.graph and first.graph.library else 0,
    }
    counts = sorted(nodes.items(), key=lambda item: (-item[1], item[0]))
    tables = {
        "signatures": list(_signature_rows(first, _read_port_types(path))),
        "operator_counts": [{"operator": op, "count": count} for op, count in counts],
    }
    return Description(facts, tables)


def _parse_file(path: str) -> Message:
    """Return the parsed message of a `saved_model.pb`.

    Raises `ValueError` if the path is no regular file or the file is empty. Raises `InvalidModelError` if the file is
    damaged, and `OSError` if the file cannot be read.
    """
    if not os.path.isfile(path):  # opening a pipe would block
        raise ValueError("'%s' is no file" % path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if not size:
            raise ValueError("'%s' is empty" % path)
        return parse(FileSource(file, size), _SAVED)[0]


def _iterate_files(path: str) -> Iterator[str]:
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)


def _iterate_nodes(graph: Optional[Message]) -> Iterator[Message]:
    """Yield the nodes of a graph, then the nodes of the functions in its library; nothing for None."""
    if graph is not None:
        yield from graph.nodes
        for function in graph.library.functions if graph.library is not None else ():
            yield from function.nodes


def _signature_rows(graph: Message, port_types: Dict[str, Dict[str, Row]]) -> Iterator[Row]:
    """Yield a table row for each input and output of each signature, except the one that initializes the model.

    A row has the columns "signature", "" ("input" or "output"), "name", "type" and "shape". In the default signature,
    the entries of `port_types` (see `_read_port_types`) replace type and shape. A port without a type has the type "?"
    and the shape None.
    """
    for entry in graph.signatures:
        if entry.name == _INITIAL or entry.signature is None:
            continue
        for kind, ports in (("input", entry.signature.inputs), ("output", entry.signature.outputs)):
            model_types = port_types.get(kind, {}) if entry.name == _DEFAULT else {}
            for port in ports:
                row = {"signature": entry.name, "": kind, "name": port.name, "type": "?", "shape": None}
                if port.port is not None:
                    row.update(_port_type(port.port))
                yield dict(row, **model_types.get(port.name, {}))


def _port_type(port: Message) -> Row:
    """Return the columns "type" and "shape" of an input or an output.

    A shape has None for an open size. Without a shape, or with an unknown rank, "shape" is None. The type of
    an unknown dtype number n is "type n".
    """
    is_listed = 0 <= port.dtype < len(_TYPES)
    axes = None if port.shape is None or port.shape.unknown_rank else port.shape.axes
    sizes = None if axes is None else [axis.size for axis in axes]
    shape: Optional[List[Optional[int]]] = None if sizes is None else [None if size < 0 else size for size in sizes]
    return {"type": _TYPES[port.dtype] if is_listed else "type %d" % port.dtype, "shape": shape}


def _read_port_types(path: str) -> Dict[str, Dict[str, Row]]:
    """Return the types of the model's ports: {"input": {name: row}, "output": {name: row}}.

    A row is {"type": dtype, "shape": list of sizes}. The types come from a file that the shims write (`_PORT_TYPES`).
    Its shapes have names for open sizes, which a signature lacks. Return an empty dict if the file is absent, damaged
    or too large.
    """
    types_path = os.path.join(path, _PORT_TYPES)
    if not os.path.isfile(types_path):
        return {}
    try:
        with open(types_path, encoding="utf-8") as file:
            text = file.read(_LARGEST + 1)
        data = json.loads(text) if len(text) <= _LARGEST else {}
        return {
            kind: {
                str(port["name"]): {"type": str(port["dtype"]), "shape": list(port["shape"])}
                for port in data[kind + "s"]
            }
            for kind in ("input", "output")
        }
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}

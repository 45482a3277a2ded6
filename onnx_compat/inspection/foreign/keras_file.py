"""Describe a .keras file: a zip archive with the structure of the model as JSON. The weights are not read."""

import json
import os
import zipfile
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional, Tuple

from onnx_compat.boundary import DAMAGED
from onnx_compat.errors import InputError, InvalidModelError
from onnx_compat.shim.description import KERAS_PORTS, Description

__all__ = ["describe_keras_file"]

_LARGEST = 1 << 26  # bytes of JSON: parsed, they take up to thirty times as much memory
#: Classes of layers whose output has the shape of the input.
_SHAPE_PRESERVING = ("Activation", "Identity")
#: Errors of a damaged zip archive, and of JSON with a structure that Keras does not write.
_PARSE_ERRORS = (
    *DAMAGED,
    NotImplementedError,
    RuntimeError,
    KeyError,
    AttributeError,
    TypeError,
    ValueError,
)

Row = Dict[str, Any]
Json = Any  # a parsed JSON value: its structure is only known after a check


def describe_keras_file(path: str) -> Description:
    """Return the description of a .keras file: facts on the model, a table of ports and a table of layer counts.

    The facts have the format, the model, the bytes of the file and of its weights, the layers, the Keras version and
    the date. An InputLayer is not counted. A layer that holds layers counts as its inner layers.

    Raises `InputError` if the file cannot be read. Raises `InvalidModelError` if the file is damaged, or its layers are
    nested too deep.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            config, metadata = _read_json(archive, "config.json"), _read_json(archive, "metadata.json")
            ports = _read_json(archive, KERAS_PORTS) if KERAS_PORTS in archive.namelist() else {}
            weights = [info.file_size for info in archive.infolist() if info.filename.startswith("model.weights")]
        layers = list(_iterate_layers(config))
        modules = Counter("%s" % layer["class_name"] for layer in layers if layer["class_name"] != "InputLayer")
        custom = {str(layer["class_name"]) for layer in layers if not _is_stock(layer)}
        facts = {
            "format": "Keras model",
            "model": "%s '%s'" % (config["class_name"], config["config"].get("name", "")),
            "bytes": os.path.getsize(path),
            "weight_bytes": sum(weights),
            "layers": sum(modules.values()),
            "custom_layers": sorted(custom),
            "keras_version": str(metadata.get("keras_version", "")),
            "saved": str(metadata.get("date_saved", "")),
        }
        counts = sorted(modules.items(), key=lambda item: (-item[1], item[0]))
        tables = {
            "inputs_and_outputs": _restore_ports(_port_rows(config), ports),
            "layer_counts": [{"layer": k, "count": n} for k, n in counts],
        }
    except OSError as error:
        raise InputError("'%s' cannot be read: %s" % (path, error.strerror or error)) from error
    except RecursionError:
        raise InvalidModelError("the layers in '%s' are nested too deep" % path) from None
    except _PARSE_ERRORS as error:
        reason = "'%s' is no .keras file, or it is damaged: %s: %s" % (path, type(error).__name__, error)
        raise InvalidModelError(
            reason, hint="check that the file was copied completely; Keras 2 writes .h5 files"
        ) from error
    return Description(facts, tables)


def _read_json(archive: zipfile.ZipFile, name: str) -> Dict[str, Any]:
    """Return the parsed content of the JSON file `name` in the archive. It should be a dict; this is not checked.

    - Raises `KeyError` if the archive has no such file.
    - Raises `ValueError` if the file is no JSON, or is larger than `_LARGEST` bytes.
    - Raises the errors of `zipfile` for a damaged archive.
    """
    info = archive.getinfo(name)
    if info.file_size > _LARGEST:
        raise ValueError("%s has %d bytes" % (name, info.file_size))
    document: Dict[str, Any] = json.loads(archive.read(info).decode("utf-8"))
    return document


def _iterate_layers(model: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """Yield the JSON object of each layer that holds no layers itself, at any depth of a model."""
    for layer in model["config"].get("layers", ()):
        if "layers" in layer["config"]:
            yield from _iterate_layers(layer)
        else:
            yield layer


def _is_stock(layer: Dict[str, Any]) -> bool:
    """Return whether Keras itself defines the class of a layer.

    It does if the module of the class is in `keras`, and the layer has no registered name of a custom class. Keras
    stores a custom class under a registered name "package>class", and an operation of keras.ops under its own name.
    """
    is_registered = layer.get("registered_name") not in (None, "", layer["class_name"])
    return str(layer.get("module") or "").split(".")[0] == "keras" and not is_registered


def _port_rows(model: Dict[str, Any]) -> List[Row]:
    """Return a table row for each input, then for each output of a model.

    A row has the columns "" ("input" or "output"), "name", "type" and "shape". Without a list of inputs in the file,
    the layers of the class `InputLayer` are the inputs. Without a list of outputs, the last layer is the output.
    """
    layers = model["config"].get("layers", ())
    by_name = {layer["config"].get("name", layer.get("name")): layer for layer in layers}
    inputs = list(_layer_names(model["config"].get("input_layers")))
    inputs = inputs or [name for name, layer in by_name.items() if layer["class_name"] == "InputLayer"]
    outputs = list(_layer_names(model["config"].get("output_layers"))) or list(by_name)[-1:]
    ports = [("input", name) for name in inputs] + [("output", name) for name in outputs]
    return [{"": kind, "name": name, **_output_type(by_name[name])} for kind, name in ports]


def _restore_ports(rows: List[Row], ports: Dict[str, Any]) -> List[Row]:
    """Return the rows of ports with the names and dtypes of the ONNX model in place of those of the layers.

    `ports`: the parsed JSON file that the shim has added to the archive, or {}. It has a list of texts for each of the
    keys "inputs", "outputs", "input_types" and "output_types". The names are replaced if "inputs" and "outputs" have
    one text for each row, counted together. The dtypes are replaced under the same condition on the other two lists.
    """
    for column, keys in (("name", ("inputs", "outputs")), ("type", ("input_types", "output_types"))):
        entries = [str(entry) for key in keys for entry in ports.get(key, ())]
        if len(entries) == len(rows):
            rows = [{**row, column: entry} for row, entry in zip(rows, entries)]
    return rows


def _layer_names(layers: Json) -> Iterator[str]:
    """Yield the layer name in each triple [name, node, tensor].

    `layers`: a triple, or nested lists or dicts of triples. None yields nothing.
    """
    if isinstance(layers, dict):
        layers = list(layers.values())
    if isinstance(layers, list) and len(layers) == 3 and isinstance(layers[0], str):
        yield layers[0]
    else:
        for item in layers or ():
            yield from _layer_names(item)


def _output_type(layer: Dict[str, Any]) -> Row:
    """Return the dtype and shape of a layer's output as a row: {"type": text, "shape": list or None}.

    - A class in `_SHAPE_PRESERVING`: the dtype and shape of the layer's first input tensor, if the file has them.
    - Any other class: the dtype in the layer's config. Only an InputLayer has a shape there.

    A missing dtype gives "", a missing shape gives None.
    """
    # The file holds the shapes of the inputs of a layer only.
    config = layer["config"]
    dtype, shape = config.get("dtype"), config.get("batch_shape")
    if layer["class_name"] in _SHAPE_PRESERVING:
        input_type = next(_iterate_tensor_types(layer.get("inbound_nodes")), None)
        dtype, shape = input_type if input_type is not None else (dtype, shape)
    if isinstance(dtype, dict):  # a DTypePolicy
        dtype = dtype["config"]["name"]
    return {"type": str(dtype or ""), "shape": shape}


def _iterate_tensor_types(nodes: Json) -> Iterator[Tuple[str, Optional[List[Any]]]]:
    """Yield (dtype, shape) of each tensor in the inbound nodes of a layer, at any depth; nothing for None."""
    if isinstance(nodes, dict) and nodes.get("class_name") == "__keras_tensor__":
        yield nodes["config"]["dtype"], nodes["config"]["shape"]
    elif isinstance(nodes, (dict, list)):
        for item in nodes.values() if isinstance(nodes, dict) else nodes:
            yield from _iterate_tensor_types(item)

"""A .keras file: a zip of the model's structure as JSON, and its weights. The weights are not looked into."""

import json
import os
import zipfile
from collections import Counter
from typing import Any, Dict, Iterator, List, Optional, Tuple

from onnx_compat.errors import InputError, InvalidModelError
from onnx_compat.shim.description import Description

__all__ = ["described"]

_LARGEST = 1 << 28  # bytes of JSON
#: What comes out of these has the shape of what goes in.
_KEEPING = ("Activation", "Identity")
#: What a zip that was cut off or tampered with raises, and JSON that is not as Keras writes it.
_BROKEN = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    EOFError,
    KeyError,
    AttributeError,
    TypeError,
    ValueError,
)

Row = Dict[str, Any]


def described(path: str) -> Description:
    try:
        with zipfile.ZipFile(path) as archive:
            config, metadata = _document(archive, "config.json"), _document(archive, "metadata.json")
            weights = [one.file_size for one in archive.infolist() if one.filename.startswith("model.weights")]
        layers = list(_layers(config))
        modules = Counter("%s" % layer["class_name"] for layer in layers if layer["class_name"] != "InputLayer")
        custom = {str(layer["class_name"]) for layer in layers if not _stock(layer)}
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
        tables = {"inputs_and_outputs": _ports(config), "layer_counts": [{"layer": k, "count": n} for k, n in counts]}
    except OSError as error:
        raise InputError("'%s' cannot be read: %s" % (path, error.strerror or error)) from error
    except RecursionError:
        raise InvalidModelError("the layers in '%s' are nested too deep" % path) from None
    except _BROKEN as error:
        reason = "'%s' is no .keras file, or a damaged one: %s: %s" % (path, type(error).__name__, error)
        raise InvalidModelError(
            reason, hint="check that the file was copied completely; files of Keras 2 are .h5"
        ) from error
    return Description(facts, tables)


def _document(archive: zipfile.ZipFile, name: str) -> Dict[str, Any]:
    info = archive.getinfo(name)
    if info.file_size > _LARGEST:
        raise ValueError("%s has %d bytes" % (name, info.file_size))
    found: Dict[str, Any] = json.loads(archive.read(info).decode("utf-8"))
    return found


def _layers(model: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """Those of a model, and of the models that are layers of it."""
    for layer in model["config"].get("layers", ()):
        if "layers" in layer["config"]:
            yield from _layers(layer)
        else:
            yield layer


def _stock(layer: Dict[str, Any]) -> bool:
    return str(layer.get("module") or "").split(".")[0] == "keras" and not layer.get("registered_name")


def _ports(model: Dict[str, Any]) -> List[Row]:
    layers = model["config"].get("layers", ())
    by_name = {layer["config"].get("name", layer.get("name")): layer for layer in layers}
    inputs = list(_named(model["config"].get("input_layers")))
    inputs = inputs or [name for name, layer in by_name.items() if layer["class_name"] == "InputLayer"]
    outputs = list(_named(model["config"].get("output_layers"))) or list(by_name)[-1:]
    named = [("input", name) for name in inputs] + [("output", name) for name in outputs]
    return [{"": kind, "name": name, **_type(by_name[name])} for kind, name in named]


def _named(layers: Any) -> Iterator[str]:
    """Of one [name, node, tensor], or of lists or dicts of them."""
    if isinstance(layers, dict):
        layers = list(layers.values())
    if isinstance(layers, list) and len(layers) == 3 and isinstance(layers[0], str):
        yield layers[0]
    else:
        for one in layers or ():
            yield from _named(one)


def _type(layer: Dict[str, Any]) -> Row:
    """The shapes that a file holds are those of what goes into a layer."""
    config = layer["config"]
    dtype, shape = config.get("dtype"), config.get("batch_shape")
    if layer["class_name"] in _KEEPING:
        given = next(_tensors(layer.get("inbound_nodes")), None)
        dtype, shape = given if given is not None else (dtype, shape)
    if isinstance(dtype, dict):  # a policy
        dtype = dtype["config"]["name"]
    return {"type": str(dtype or ""), "shape": shape}


def _tensors(nodes: Any) -> Iterator[Tuple[str, Optional[List[Any]]]]:
    if isinstance(nodes, dict) and nodes.get("class_name") == "__keras_tensor__":
        yield nodes["config"]["dtype"], nodes["config"]["shape"]
    elif isinstance(nodes, (dict, list)):
        for one in nodes.values() if isinstance(nodes, dict) else nodes:
            yield from _tensors(one)

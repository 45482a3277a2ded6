"""Describe a converted file: from the file itself if possible, else by the shim that reads its format."""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion.bundle import is_bundle, read_manifest
from onnx_compat.conversion.destinations import check_readable
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, OnnxCompatError, ShimError, UnsupportedError
from onnx_compat.inspection import foreign
from onnx_compat.model import ValueInfo
from onnx_compat.shim.description import Description
from onnx_compat.verification.converted_file import match_format, no_reader_error

__all__ = ["FileDescription", "describe"]


class FileDescription(NamedTuple):
    """The name of the shim that described a file ("" if no shim was needed), and the description."""

    shim: str  # "" if no shim was needed
    description: Description


@typed_errors
def describe(path: Union[str, "os.PathLike[str]"], shim: Optional[str] = None) -> FileDescription:
    """Return the description of a converted file. The first of these cases that applies decides its source:

    - A bundle: from its manifest, without a shim, also if `shim` is given.
    - `shim` is given: from this shim.
    - A .keras file or a SavedModel: without a shim.
    - Any other file: from the first installed shim that can describe it; the reference is last.

    The errors:

    - Raises `InputError` if the path does not exist, is neither a file nor a folder, or cannot be read.
    - Raises `ShimError` if no shim, or not the given shim, can describe the file.
    - Raises `InvalidModelError` for a damaged file.
    """
    target = os.fspath(path)
    if not os.path.exists(target):
        raise InputError(
            "there is no file or folder '%s'" % target, hint="give the path of a model, or of a converted file"
        )
    check_readable(target)
    if is_bundle(target):
        return FileDescription("", _describe_bundle(target))
    description = foreign.describe_foreign_file(target) if shim is None else None
    if description is not None:
        return FileDescription("", description)
    refusals: List[str] = []
    for name in [shim] if shim else [*selection.installed_shims(), selection.REFERENCE]:
        try:
            reader = selection.find(name)
            form = match_format(reader, target)
            if form is not None:
                return FileDescription(name, reader.describe(target, form))
            refusals.append("%s reads no such file" % name)
        except (ShimError, UnsupportedError) as error:
            refusals.append("%s: %s" % (name, error.reason))
        except OnnxCompatError as error:
            raise error.at(shim=name) from error.__cause__
    raise no_reader_error("describes", target, refusals)


def _describe_bundle(path: str) -> Description:
    """Return the description of a bundle from its manifest: its ports, parts and fallback nodes. No part is opened."""
    manifest = read_manifest(path)
    facts = {
        "format": "bundle: parts, of which some run in the fallback",
        "name": manifest.name,
        "bytes": os.path.getsize(path),
    }
    ports = [("input", info) for info in manifest.inputs] + [("output", info) for info in manifest.outputs]
    parts = [
        {"part": part.path, "kind": part.kind, "nodes": part.nodes, **_port_names(part.inputs, part.outputs)}
        for part in manifest.parts
    ]
    return Description(
        facts,
        {
            "ports": [{"port": kind, "name": info.name, "type": str(info.type or "?")} for kind, info in ports],
            "parts": parts,
            "in the fallback": [dict(node._asdict()) for node in manifest.fallback],
        },
    )


def _port_names(inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo]) -> Dict[str, Any]:
    return {"inputs": [info.name for info in inputs], "outputs": [info.name for info in outputs]}

"""What a converted file is, whoever wrote it."""

import os
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Union

from onnx_compat.conversion.bundle import is_bundle, read_manifest
from onnx_compat.conversion.destinations import check_readable
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, OnnxCompatError, ShimError, UnsupportedError
from onnx_compat.inspection import foreign
from onnx_compat.model import ValueInfo
from onnx_compat.shim.description import Description
from onnx_compat.verification.converted_file import match_format, no_reader

__all__ = ["Described", "describe"]


class Described(NamedTuple):
    shim: str  # "" where none was needed
    description: Description


def describe(path: Union[str, "os.PathLike[str]"], shim: Optional[str] = None) -> Described:
    """The file, as the shim says that is named; else as it says itself, if its framework need not be here for that; else as
    the first installed shim says that reads its format and can say something.
    """
    target = os.fspath(path)
    if not os.path.exists(target):
        raise InputError(
            "there is no file or folder '%s'" % target, hint="give the path of a model, or of what it became"
        )
    check_readable(target)
    if is_bundle(target):
        return Described("", _of_bundle(target))
    own = foreign.describe_foreign_file(target) if shim is None else None
    if own is not None:
        return Described("", own)
    refusals: List[str] = []
    for name in [shim] if shim else [*selection.installed(), selection.REFERENCE]:
        try:
            found: Any = selection.find(name)
            form = match_format(found, target)
            if form is not None:
                return Described(name, found.describe(target, form))
            refusals.append("%s reads no such file" % name)
        except (ShimError, UnsupportedError) as error:
            refusals.append("%s: %s" % (name, error.reason))
        except OnnxCompatError as error:
            raise error.at(shim=name) from error.__cause__
    raise no_reader("looks into", target, refusals)


def _of_bundle(path: str) -> Description:
    """What its manifest says: no part is opened."""
    manifest = read_manifest(path)
    facts = {
        "format": "bundle: parts, of which some run in the fallback",
        "name": manifest.name,
        "bytes": os.path.getsize(path),
    }
    ports = [("input", one) for one in manifest.inputs] + [("output", one) for one in manifest.outputs]
    parts = [
        {"part": one.path, "kind": one.kind, "nodes": one.nodes, **_between(one.inputs, one.outputs)}
        for one in manifest.parts
    ]
    return Description(
        facts,
        {
            "ports": [{"port": port, "name": one.name, "type": str(one.type or "?")} for port, one in ports],
            "parts": parts,
            "in the fallback": [dict(one._asdict()) for one in manifest.fallback],
        },
    )


def _between(inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo]) -> Dict[str, Any]:
    return {"inputs": [one.name for one in inputs], "outputs": [one.name for one in outputs]}

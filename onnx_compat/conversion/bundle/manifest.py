"""Manifest: the contents of a bundle, stored as `manifest.json`. A manifest is untrusted: every field is checked."""

import json
import os
import re
import zipfile
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from onnx_compat.errors import InvalidModelError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import MapType, OptionalType, SequenceType, TensorType, Type, ValueInfo
from onnx_compat.model.loading import StrPath
from onnx_compat.model.types import Dim

__all__ = [
    "NAME",
    "SUFFIX",
    "FallbackNode",
    "Manifest",
    "Member",
    "PartEntry",
    "damaged_error",
    "dump_manifest",
    "is_bundle",
    "parse_manifest",
]

NAME = "manifest.json"
SUFFIX = ".zip"
#: The largest manifest, in bytes. This library writes no larger manifest.
LARGEST = 1 << 25

#: A decoded value of JSON.
Json = Any

_FORMAT, _VERSION = "onnx-compat bundle", 1
_MEMBER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}){0,5}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class Member(NamedTuple):
    """A file in the archive: its path there, its size in bytes, and the SHA-256 of its content in hexadecimal."""

    name: str
    bytes: int
    sha256: str


class PartEntry(NamedTuple):
    """A part of the model, as the manifest lists it.

    - kind: the format of the part's files, or "onnx" for the fallback.
    - path: the file or folder in the zip that is loaded.
    - nodes: the number of nodes in the part.
    - inputs, outputs: the names and types of the part's ports.
    - files: the entry for `path`, or for each file below it if `path` is a folder.
    """

    kind: str
    path: str
    nodes: int
    inputs: List[ValueInfo]
    outputs: List[ValueInfo]
    files: List[Member]


class FallbackNode(NamedTuple):
    """A node that runs in the fallback, and the reason why the format cannot hold the node.

    `operator`: its operator, as "domain::name" outside of the default domain. `opset`: 0 if unknown.
    """

    node: str
    operator: str
    opset: int
    reason: str


class Manifest(NamedTuple):
    """The contents of a bundle.

    - name: the name of the model's graph.
    - format: the format of the parts that a shim runs, such as 'tflite'.
    - inputs, outputs: the names and types of the model's ports.
    - parts: in running order.
    - fallback: the nodes that run in the fallback, in running order.
    """

    name: str
    format: str
    inputs: List[ValueInfo]
    outputs: List[ValueInfo]
    parts: List[PartEntry]
    fallback: List[FallbackNode]


def is_bundle(path: StrPath) -> bool:
    """Whether a path ends in ".zip", in upper or lower case, and is no folder. The path need not exist."""
    return os.fspath(path).lower().endswith(SUFFIX) and not os.path.isdir(path)


def damaged_error(reason: str) -> InvalidModelError:
    """Return the error for a damaged bundle. `reason`: the fault, such as `two parts share a file`."""
    return InvalidModelError(
        "the bundle is damaged: %s" % reason, hint="convert the model again, or copy the file again"
    )


def dump_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as the bytes of its JSON document. The same manifest gives the same bytes."""
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "name": manifest.name,
        "parts_format": manifest.format,
        "inputs": _dump_values(manifest.inputs),
        "outputs": _dump_values(manifest.outputs),
        "parts": [
            dict(
                part._asdict(),
                inputs=_dump_values(part.inputs),
                outputs=_dump_values(part.outputs),
                files=[dict(member._asdict()) for member in part.files],
            )
            for part in manifest.parts
        ],
        "fallback": [dict(node._asdict()) for node in manifest.fallback],
    }
    return json.dumps(document, indent=1, sort_keys=True).encode("ascii")


def _dump_values(values: List[ValueInfo]) -> List[Dict[str, Any]]:
    return [{"name": port.name, "type": _dump_type(port.type)} for port in values]


def _dump_type(kind: Optional[Type]) -> Json:
    if isinstance(kind, TensorType):
        dtype = None if kind.dtype is None else kind.dtype.name
        return {"tensor": dtype, "shape": None if kind.shape is None else list(kind.shape)}
    if isinstance(kind, SequenceType):
        return {"sequence": _dump_type(kind.element)}
    if isinstance(kind, OptionalType):
        return {"optional": _dump_type(kind.element)}
    if isinstance(kind, MapType):
        return {"map": kind.key.name, "values": _dump_type(kind.value)}
    return None


def parse_manifest(data: bytes) -> Manifest:
    """Return the manifest in a JSON document, the inverse of `dump_manifest`. Every field is checked.

    Raises InvalidModelError in these cases:

    - The JSON is invalid, or has another format or version.
    - A field is missing, or has the wrong type.
    - A path or a digest does not match the allowed pattern.
    - A part has no files, or a file outside of its path.

    Raises UnsupportedError for an unknown dtype. Unknown fields are ignored.
    """
    try:
        document = json.loads(data.decode("utf-8"))
        if document["format"] != _FORMAT:
            raise damaged_error("its manifest is not that of a bundle")
        if document["version"] != _VERSION:
            raise InvalidModelError(
                "the bundle has version %r, and this release reads %d" % (document["version"], _VERSION),
                hint="update onnx-compat, or convert the model again",
            )
        return Manifest(
            _check_text(document["name"]),
            _check_text(document["parts_format"]),
            _parse_values(document["inputs"]),
            _parse_values(document["outputs"]),
            [_parse_part(entry) for entry in _check_list(document["parts"])],
            [_parse_fallback_node(entry) for entry in _check_list(document["fallback"])],
        )
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
        raise damaged_error("its manifest cannot be read (%s: %s)" % (type(error).__name__, error)) from error


def _parse_part(entry: Dict[str, Any]) -> PartEntry:
    files = [
        Member(_check_member(file["name"]), _check_count(file["bytes"]), _check_digest(file["sha256"]))
        for file in _check_list(entry["files"])
    ]
    path = _check_member(entry["path"])
    if not files or any(f.name != path and not f.name.startswith(path + "/") for f in files):
        raise ValueError("the files of the part '%s' lie elsewhere" % path)
    values = _parse_values(entry["inputs"]), _parse_values(entry["outputs"])
    return PartEntry(_check_text(entry["kind"]), path, _check_count(entry["nodes"]), *values, files)


def _parse_fallback_node(entry: Dict[str, Any]) -> FallbackNode:
    return FallbackNode(
        _check_text(entry["node"]),
        _check_text(entry["operator"]),
        _check_count(entry["opset"]),
        _check_text(entry["reason"]),
    )


def _parse_values(values: Json) -> List[ValueInfo]:
    return [ValueInfo(_check_text(port["name"]), _parse_type(port["type"])) for port in _check_list(values)]


def _parse_type(document: Json) -> Optional[Type]:
    if document is None:
        return None
    if "tensor" in document:
        dtype = None if document["tensor"] is None else DType.of(_check_text(document["tensor"]))
        return TensorType(
            dtype, None if document["shape"] is None else tuple(map(_parse_size, _check_list(document["shape"])))
        )
    if "sequence" in document:
        return SequenceType(_parse_type(document["sequence"]))
    if "optional" in document:
        return OptionalType(_parse_type(document["optional"]))
    return MapType(DType.of(_check_text(document["map"])), _parse_type(document["values"]))


def _parse_size(size: Json) -> Dim:
    return size if size is None or isinstance(size, str) else _check_count(size)


def _check_text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError("%r is no text" % (value,))
    return value


def _check_count(value: Json) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("%r is no count" % (value,))
    return value


def _check_list(value: Json) -> List[Any]:
    if not isinstance(value, list):
        raise TypeError("%r is no list" % (value,))
    return value


def _check_member(value: Json) -> str:
    """Return a field of the manifest unchanged if it is a valid path of a file in the zip.

    Raises TypeError if the field is no text. Raises ValueError for a path that is not allowed, such as an absolute path
    or a path with "..".
    """
    if not _MEMBER.match(_check_text(value)):
        raise ValueError("%r is no name of a member" % (value,))
    return str(value)


def _check_digest(value: Json) -> str:
    if not _DIGEST.match(_check_text(value)):
        raise ValueError("%r is no SHA-256" % (value,))
    return str(value)


def locate_members(archive: zipfile.ZipFile, size: int) -> Tuple[Manifest, Dict[str, zipfile.ZipInfo]]:
    """Return (the manifest of an archive, file name -> zip entry for every file), after a check of both.

    `size`: the size of the archive in bytes. Raises InvalidModelError in these cases:

    - A file is compressed or encrypted, or its two sizes in the archive differ, or two files have one name.
    - All files together are larger than the archive: an archive must not expand when it is unpacked.
    - The manifest is missing, too large or invalid.
    - Two parts share a file, or a part lists a file twice.
    - A file of a part is missing, or its size differs from that in the manifest.

    Raises the errors of `parse_manifest` and of zipfile too.
    """
    members = {info.filename: info for info in archive.infolist()}
    if len(members) != len(archive.infolist()):
        raise damaged_error("two members have the same name")
    if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in members.values()):
        raise damaged_error("a member is compressed or encrypted, which a bundle's never are")
    if any(info.file_size != info.compress_size for info in members.values()):
        raise damaged_error("the two sizes of a member differ")
    if sum(info.file_size for info in members.values()) > size:
        raise damaged_error("its members are larger than the archive")
    if NAME not in members:
        raise damaged_error("it has no %s" % NAME)
    if members[NAME].file_size > LARGEST:
        raise damaged_error("its manifest has %d bytes" % members[NAME].file_size)
    manifest = parse_manifest(archive.read(NAME))
    named = [member for part in manifest.parts for member in part.files]
    if len({member.name for member in named}) != len(named):
        raise damaged_error("two parts share a file")
    for member in named:
        if member.name not in members or members[member.name].file_size != member.bytes:
            raise damaged_error("the member '%s' is missing, or not of %d bytes" % (member.name, member.bytes))
    return manifest, members

"""What a bundle says about itself: `manifest.json`. Whoever reads one trusts nothing that it says."""

import json
import os
import re
import zipfile
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from onnx_compat.errors import InvalidModelError, OnnxCompatError
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import MapType, OptionalType, SequenceType, TensorType, Type, ValueInfo

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
#: Bytes of a manifest that are read: what is larger was not made by this library.
LARGEST = 1 << 25

_FORMAT, _VERSION = "onnx-compat bundle", 1
_MEMBER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}(/[A-Za-z0-9_][A-Za-z0-9_.\-]{0,99}){0,5}\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")


class Member(NamedTuple):
    """A file of the archive, by the SHA-256 of what it holds."""

    name: str
    bytes: int
    sha256: str


class PartEntry(NamedTuple):
    """`kind`: the format of the files, or 'onnx' for what the fallback runs. `path`: the file or folder to open."""

    kind: str
    path: str
    nodes: int
    inputs: List[ValueInfo]
    outputs: List[ValueInfo]
    files: List[Member]


class FallbackNode(NamedTuple):
    """A node that the format cannot hold, and why."""

    node: str
    operator: str
    opset: int
    reason: str


class Manifest(NamedTuple):
    name: str
    format: str
    inputs: List[ValueInfo]
    outputs: List[ValueInfo]
    parts: List[PartEntry]
    fallback: List[FallbackNode]


def is_bundle(path: Any) -> bool:
    """Whether the path is one of a bundle, by its suffix."""
    return os.fspath(path).lower().endswith(SUFFIX) and not os.path.isdir(path)


def damaged_error(reason: str) -> InvalidModelError:
    return InvalidModelError(
        "the bundle is damaged: %s" % reason, hint="convert the model again, or copy the file again"
    )


def dump_manifest(manifest: Manifest) -> bytes:
    document = {
        "format": _FORMAT,
        "version": _VERSION,
        "name": manifest.name,
        "parts_format": manifest.format,
        "inputs": _values(manifest.inputs),
        "outputs": _values(manifest.outputs),
        "parts": [
            dict(
                part._asdict(),
                inputs=_values(part.inputs),
                outputs=_values(part.outputs),
                files=[dict(one._asdict()) for one in part.files],
            )
            for part in manifest.parts
        ],
        "fallback": [dict(one._asdict()) for one in manifest.fallback],
    }
    return json.dumps(document, indent=1, sort_keys=True).encode("ascii")


def _values(values: List[ValueInfo]) -> List[Dict[str, Any]]:
    return [{"name": one.name, "type": _written(one.type)} for one in values]


def _written(kind: Optional[Type]) -> Any:
    if isinstance(kind, TensorType):
        dtype = None if kind.dtype is None else kind.dtype.name
        return {"tensor": dtype, "shape": None if kind.shape is None else list(kind.shape)}
    if isinstance(kind, SequenceType):
        return {"sequence": _written(kind.element)}
    if isinstance(kind, OptionalType):
        return {"optional": _written(kind.element)}
    if isinstance(kind, MapType):
        return {"map": kind.key.name, "values": _written(kind.value)}
    return None


def parse_manifest(data: bytes) -> Manifest:
    """The manifest, everything in it of the type that it has to be; else an InvalidModelError."""
    try:
        document = json.loads(data.decode("utf-8"))
        if document["format"] != _FORMAT:
            raise damaged_error("its manifest is of something else")
        if document["version"] != _VERSION:
            raise InvalidModelError(
                "the bundle has version %r, and this release reads %d" % (document["version"], _VERSION),
                hint="update onnx-compat, or convert the model again",
            )
        return Manifest(
            _text(document["name"]),
            _text(document["parts_format"]),
            _read_values(document["inputs"]),
            _read_values(document["outputs"]),
            [_part(one) for one in _list(document["parts"])],
            [_fallen(one) for one in _list(document["fallback"])],
        )
    except (KeyError, TypeError, ValueError, RecursionError, AttributeError) as error:
        if isinstance(error, OnnxCompatError):
            raise
        raise damaged_error("its manifest cannot be read (%s: %s)" % (type(error).__name__, error)) from error


def _part(one: Dict[str, Any]) -> PartEntry:
    files = [Member(_member(f["name"]), _count(f["bytes"]), _digest(f["sha256"])) for f in _list(one["files"])]
    path = _member(one["path"])
    if not files or any(f.name != path and not f.name.startswith(path + "/") for f in files):
        raise ValueError("the files of the part '%s' lie elsewhere" % path)
    values = _read_values(one["inputs"]), _read_values(one["outputs"])
    return PartEntry(_text(one["kind"]), path, _count(one["nodes"]), *values, files)


def _fallen(one: Dict[str, Any]) -> FallbackNode:
    return FallbackNode(_text(one["node"]), _text(one["operator"]), _count(one["opset"]), _text(one["reason"]))


def _read_values(values: Any) -> List[ValueInfo]:
    return [ValueInfo(_text(one["name"]), _type(one["type"])) for one in _list(values)]


def _type(kind: Any) -> Optional[Type]:
    if kind is None:
        return None
    if "tensor" in kind:
        dtype = None if kind["tensor"] is None else DType.of(_text(kind["tensor"]))
        return TensorType(dtype, None if kind["shape"] is None else tuple(map(_size, _list(kind["shape"]))))
    if "sequence" in kind:
        return SequenceType(_type(kind["sequence"]))
    if "optional" in kind:
        return OptionalType(_type(kind["optional"]))
    return MapType(DType.of(_text(kind["map"])), _type(kind["values"]))


def _size(size: Any) -> Any:
    return size if size is None or isinstance(size, str) else _count(size)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("%r is no text" % (value,))
    return value


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("%r is no count" % (value,))
    return value


def _list(value: Any) -> List[Any]:
    if not isinstance(value, list):
        raise TypeError("%r is no list" % (value,))
    return value


def _member(value: Any) -> str:
    """A name inside the archive, and one that stays inside of the folder that it is unpacked in."""
    if not _MEMBER.match(_text(value)):
        raise ValueError("%r is no name of a member" % (value,))
    return str(value)


def _digest(value: Any) -> str:
    if not _DIGEST.match(_text(value)):
        raise ValueError("%r is no SHA-256" % (value,))
    return str(value)


def locate_members(archive: zipfile.ZipFile, size: int) -> Tuple[Manifest, Dict[str, zipfile.ZipInfo]]:
    """The manifest of an archive of `size` bytes and the members that it names. They are stored as they are, each once,
    and together are no larger than the archive: so that nothing unfolds.
    """
    found = {one.filename: one for one in archive.infolist()}
    if len(found) != len(archive.infolist()):
        raise damaged_error("two members have one name")
    if any(one.compress_type != zipfile.ZIP_STORED or one.flag_bits & 1 for one in found.values()):
        raise damaged_error("a member is compressed or encrypted, which a bundle's never are")
    if any(one.file_size != one.compress_size for one in found.values()):
        raise damaged_error("a member says two sizes")
    if sum(one.file_size for one in found.values()) > size:
        raise damaged_error("its members take more than the whole")
    if NAME not in found:
        raise damaged_error("it has no %s" % NAME)
    if found[NAME].file_size > LARGEST:
        raise damaged_error("its manifest has %d bytes" % found[NAME].file_size)
    manifest = parse_manifest(archive.read(NAME))
    named = [one for part in manifest.parts for one in part.files]
    if len({one.name for one in named}) != len(named):
        raise damaged_error("two parts have one file")
    for one in named:
        if one.name not in found or found[one.name].file_size != one.bytes:
            raise damaged_error("the member '%s' is missing, or not of %d bytes" % (one.name, one.bytes))
    return manifest, found

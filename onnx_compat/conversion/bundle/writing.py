"""Writing a bundle: each part into a file, the files into one archive, stored and in order.

The same model gives the same bytes: no times, no names of folders.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
from typing import Any, BinaryIO, Callable, Iterable, List, Sequence

from onnx_compat.conversion.bundle.division import Division, divide
from onnx_compat.conversion.bundle.manifest import NAME, FallbackNode, Manifest, Member, PartEntry, dump_manifest
from onnx_compat.errors import ConversionError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.fallback import fallback_runnable
from onnx_compat.execution.partition import Part
from onnx_compat.model import Model, ValueInfo, extract, load
from onnx_compat.shim.interface import Shim

__all__ = ["write"]

#: Writes a model to a path, in the format of the parts.
Export = Callable[[Model, str], None]

_ZIP64 = 1 << 31


def write(model: Model, shim: Shim, form: str, path: str, export: Export) -> Manifest:
    """Write the bundle to a path that does not exist yet. A node that is only refused as its part is written goes into
    the fallback, and the parts are made again without it.
    """
    refused: Any = {}
    while True:
        division = divide(model, shim, refused)
        _check(division, shim)
        try:
            return _write(division, shim, form, path, export)
        except UnsupportedError as error:
            tried = {node.name for part in division.parts if not part.fallback for node in part.nodes}
            if error.node not in tried:
                raise
            refused[error.node] = error


def _check(division: Division, shim: Shim) -> None:
    if division.impossible:
        names = ", ".join("'%s' (%s)" % (node.name, node.operator) for node in division.impossible)
        raise ConversionError(
            "nothing here runs %s: not the shim, and not the fallback" % names,
            hint="pip install onnxruntime if it knows the operator, or say what it means with onnx_compat.op",
            shim=shim.name,
            **division.impossible[0].where,
        )


def _write(division: Division, shim: Shim, form: str, path: str, export: Export) -> Manifest:
    suffix = shim.formats[form][0]
    parts: List[PartEntry] = []
    folder = tempfile.mkdtemp(dir=os.path.dirname(path))
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for number, part in enumerate(division.parts):
                name = "%03d%s" % (number, ".onnx" if part.fallback else suffix)
                made = os.path.join(folder, name)
                inner = division.part_model(part)
                if part.fallback:
                    _write_onnx(inner, made)
                else:
                    export(inner, made)
                files = [_add(archive, made, one) for one in _files(made, name)]
                parts.append(_entry(division, part, "onnx" if part.fallback else form, name, files))
                _remove(made)
            graph = division.model.graph
            fallen = [_fallen(division, node) for node in division.fallback]
            manifest = Manifest(graph.name, form, list(graph.inputs), list(graph.outputs), parts, fallen)
            archive.writestr(_info(NAME), dump_manifest(manifest))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return manifest


def _entry(division: Division, part: Part, kind: str, path: str, files: Sequence[Member]) -> PartEntry:
    def typed(names: Iterable[str]) -> List[ValueInfo]:
        return [ValueInfo(name, division.types.get(name)) for name in names]

    return PartEntry(kind, path, len(part.nodes), typed(part.inputs), typed(part.outputs), list(files))


def _fallen(division: Division, node: Any) -> FallbackNode:
    error: OnnxCompatError = division.reason(node)
    where = node.where
    return FallbackNode(node.name, where["operator"], max(node.opset, 0), error.reason)


def _write_onnx(model: Model, path: str) -> None:
    """The part as ONNX, read again and prepared once, as whoever gets the bundle will."""
    graph = model.graph
    try:
        data = extract(model, graph.nodes, graph.inputs, graph.outputs).SerializeToString()
    except ValueError as error:  # protobuf's own, of what has more bytes than it can count
        raise ConversionError("a part for the fallback cannot be written: %s" % error) from error
    with open(path, "wb") as file:
        file.write(data)
    fallback_runnable(load(data))


def _files(path: str, name: str) -> List[str]:
    """The files of a part, by their names in the archive."""
    if os.path.isfile(path):
        return [name]
    found = [os.path.join(folder, one) for folder, _, names in os.walk(path) for one in names]
    return sorted("%s/%s" % (name, os.path.relpath(one, path).replace(os.sep, "/")) for one in found)


def _add(archive: zipfile.ZipFile, made: str, name: str) -> Member:
    path = os.path.join(os.path.dirname(made), *name.split("/"))
    size = os.path.getsize(path)
    with open(path, "rb") as source, archive.open(_info(name), "w", force_zip64=size >= _ZIP64) as target:
        return Member(name, size, _copied(source, target))


def _info(name: str) -> zipfile.ZipInfo:
    """A member of no time and no system."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, 0o644 << 16
    return info


def _copied(source: BinaryIO, target: Any) -> str:
    digest = hashlib.sha256()
    for block in iter(lambda: source.read(1 << 20), b""):
        digest.update(block)
        target.write(block)
    return digest.hexdigest()


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.remove(path)

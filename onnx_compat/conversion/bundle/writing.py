"""Write a bundle: export each part of the model to a file, and store the files in a zip archive.

`plan` does the same without writing the files.

The same model gives the same bytes, because the archive has no time stamps and no names of folders.
"""

import hashlib
import os
import shutil
import tempfile
import zipfile
from typing import IO, BinaryIO, Callable, Dict, Iterable, List, Sequence, TypeVar

from onnx_compat.conversion.bundle.division import Division, divide, node_and_inner
from onnx_compat.conversion.bundle.manifest import NAME, FallbackNode, Manifest, Member, PartEntry, dump_manifest
from onnx_compat.errors import ConversionError, OnnxCompatError, UnsupportedError
from onnx_compat.execution.fallback import fallback_runnable
from onnx_compat.execution.partition import Part
from onnx_compat.model import GraphNode, Model, ValueInfo, extract, load
from onnx_compat.shim.interface import Shim

__all__ = ["plan", "write"]

#: Function (model of a part, path): writes the model to the path, in the format of the framework.
Export = Callable[[Model, str], None]

_Result = TypeVar("_Result")

_ZIP64 = 1 << 31


def write(model: Model, shim: Shim, file_format: str, path: str, export: Export) -> Manifest:
    """Write a bundle to `path`, and return its manifest. After an error, `path` may have an incomplete file.

    An existing file at the path is overwritten. `export`: see `Export`; it writes the format `file_format`.

    Raises ConversionError for a part for the fallback of 2 GB or more, and the errors of `_settle`.
    """
    return _settle(model, shim, lambda division: _write(division, shim, file_format, path, export))


def plan(model: Model, shim: Shim, build: Callable[[Model], None]) -> Division:
    """Return the division of the bundle that `write` would write, without writing it. Raise the errors of `write`.

    `build` is a function that takes the model of a part for the framework, and builds the file of that part. If `build`
    refuses a node, the model is divided again, and the parts of the new division are built.
    """

    def build_parts(division: Division) -> Division:
        for part in division.parts:
            inner = division.part_model(part)
            if part.fallback:
                _serialise_fallback(inner)
            else:
                build(inner)
        return division

    return _settle(model, shim, build_parts)


def _settle(model: Model, shim: Shim, put: Callable[[Division], _Result]) -> _Result:
    """Divide a model into parts, and return the result of `put`: a function that writes or builds all parts.

    If `put` raises an UnsupportedError for a node of a part, this node goes to the fallback. The nodes in the
    error's `other_errors` go to the fallback too. Then the model is divided again.

    This repeats until `put` returns, or an error is raised.

    Raises ConversionError if neither the shim nor the fallback can run a node. Raises the errors of `divide`, and any
    other error of `put`.
    """
    refusals: Dict[str, OnnxCompatError] = {}
    while True:
        division = divide(model, shim, refusals)
        _check_possible(division, shim)
        try:
            return put(division)
        except UnsupportedError as error:
            nodes = [node for part in division.parts if not part.fallback for node in part.nodes]
            exported = {inner.name for node in nodes for inner in node_and_inner(node)}
            if error.node not in exported:
                raise
            refusals.update({name: reason for name, reason in error.other_errors.items() if name in exported})
            refusals[error.node] = error


def _check_possible(division: Division, shim: Shim) -> None:
    """Raise a ConversionError that names the nodes which neither the shim nor the fallback can run, if any exist."""
    if division.impossible:
        names = ", ".join("'%s' (%s)" % (node.name, node.operator) for node in division.impossible)
        raise ConversionError(
            "neither the shim nor the fallback runs %s" % names,
            hint="pip install onnxruntime if it supports the operator, or define the operator with onnx_compat.op",
            shim=shim.name,
            **division.impossible[0].where,
        )


def _write(division: Division, shim: Shim, file_format: str, path: str, export: Export) -> Manifest:
    """Write the archive of a division to `path`: the files of each part, then the manifest. Return the manifest.

    `export` writes the parts for `shim`. Raises the errors of `export` and `_serialise_fallback`.
    """
    suffix = shim.formats[file_format][0]
    parts: List[PartEntry] = []
    folder = tempfile.mkdtemp(dir=os.path.dirname(path))
    try:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
            for number, part in enumerate(division.parts):
                name = "%03d%s" % (number, ".onnx" if part.fallback else suffix)
                part_path = os.path.join(folder, name)
                inner = division.part_model(part)
                if part.fallback:
                    with open(part_path, "wb") as file:
                        file.write(_serialise_fallback(inner))
                else:
                    export(inner, part_path)
                files = [_add_member(archive, part_path, member) for member in _member_names(part_path, name)]
                parts.append(_entry(division, part, "onnx" if part.fallback else file_format, name, files))
                _remove(part_path)
            graph = division.model.graph
            fallback_nodes = [_fallback_node(division, node) for node in division.fallback]
            manifest = Manifest(graph.name, file_format, list(graph.inputs), list(graph.outputs), parts, fallback_nodes)
            archive.writestr(_member_info(NAME), dump_manifest(manifest))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return manifest


def _entry(division: Division, part: Part, kind: str, path: str, files: Sequence[Member]) -> PartEntry:
    def value_infos(names: Iterable[str]) -> List[ValueInfo]:
        return [ValueInfo(name, division.types.get(name)) for name in names]

    return PartEntry(kind, path, len(part.nodes), value_infos(part.inputs), value_infos(part.outputs), list(files))


def _fallback_node(division: Division, node: GraphNode) -> FallbackNode:
    error: OnnxCompatError = division.reason(node)
    where = node.where
    return FallbackNode(node.name, where["operator"], max(node.opset, 0), error.reason)


def _serialise_fallback(model: Model) -> bytes:
    """Return the model of a part as the bytes of an ONNX file, after a check that the fallback can load and prepare it.

    Raises ConversionError for a model of 2 GB or more. Raises the errors of `load` and of `fallback_runnable` too.
    """
    graph = model.graph
    try:
        data: bytes = extract(model, graph.nodes, graph.inputs, graph.outputs).SerializeToString()
    except ValueError as error:  # protobuf refuses a message of 2 GB or more
        raise ConversionError("a part for the fallback cannot be written: %s" % error) from error
    fallback_runnable(load(data))
    return data


def _member_names(path: str, name: str) -> List[str]:
    """Return the paths in the archive of the files of a part, which is the file or folder `path` on disk.

    A file gives [name]. A folder gives "<name>/<relative path>" for each file in it, sorted, with "/" between folders.
    """
    if os.path.isfile(path):
        return [name]
    paths = [os.path.join(folder, file) for folder, _, files in os.walk(path) for file in files]
    return sorted("%s/%s" % (name, os.path.relpath(file_path, path).replace(os.sep, "/")) for file_path in paths)


def _add_member(archive: zipfile.ZipFile, part_path: str, name: str) -> Member:
    """Store a file of a part in the archive, uncompressed. Return its entry for the manifest.

    `part_path`: the file or folder of the part on disk. `name`: the path of the stored file in the archive. On disk,
    the file has the same path below the parent folder of `part_path`.
    """
    path = os.path.join(os.path.dirname(part_path), *name.split("/"))
    size = os.path.getsize(path)
    with open(path, "rb") as source, archive.open(_member_info(name), "w", force_zip64=size >= _ZIP64) as target:
        return Member(name, size, _copy_and_digest(source, target))


def _member_info(name: str) -> zipfile.ZipInfo:
    """Return an uncompressed zip entry `name` without a time stamp, and with equal attributes on every system."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, 0o644 << 16
    return info


def _copy_and_digest(source: BinaryIO, target: IO[bytes]) -> str:
    """Copy the rest of `source` to `target`. Return the SHA-256 of the copied bytes as hexadecimal digits."""
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

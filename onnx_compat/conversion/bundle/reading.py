"""Run a bundle: unpack its files into a temporary folder, which is deleted with the `Bundle` object."""

import hashlib
import os
import shutil
import tempfile
import weakref
import zipfile
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from onnx_compat.conversion.bundle.manifest import Manifest, Member, PartEntry, damaged_error, locate_members
from onnx_compat.errors import InputError, OnnxCompatError
from onnx_compat.execution.fallback import PartRunner, fallback_runnable
from onnx_compat.execution.feeds import CheckedValue, check_feed, to_public_value
from onnx_compat.execution.runnable import Outputs
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import TensorType, Type, ValueInfo, load
from onnx_compat.model.loading import StrPath
from onnx_compat.shim.interface import Compiled, Port, Shim

__all__ = ["Bundle", "read_manifest"]

#: The errors that zipfile raises for a malicious or truncated archive.
_BROKEN = (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, KeyError, IndexError, EOFError)


def read_manifest(path: StrPath) -> Manifest:
    """Return the manifest of a bundle, without unpacking the parts.

    Raise InputError if the file cannot be read, and InvalidModelError if the file is no intact bundle. The parts are
    checked for their presence and size only, as by `locate_members`. Raise UnsupportedError for an unknown dtype.
    """
    with _open_bundle(path) as (_, manifest, _members):
        return manifest


@contextmanager
def _open_bundle(path: StrPath) -> Iterator[Tuple[zipfile.ZipFile, Manifest, Dict[str, zipfile.ZipInfo]]]:
    """Open a bundle and yield (zip archive, manifest, {name: zip entry}), after the checks of `locate_members`.

    In the checks and in the block, an OSError becomes an InputError, and the errors in `_BROKEN` become an
    InvalidModelError. An OnnxCompatError gets the path appended to its reason, and passes.
    """
    try:
        size = os.path.getsize(path)
        with zipfile.ZipFile(os.fspath(path)) as archive:
            yield (archive, *locate_members(archive, size))
    except OnnxCompatError as error:
        error.reason = "%s (in '%s')" % (error.reason, path)
        raise
    except OSError as error:
        raise InputError("the bundle '%s' cannot be read: %s" % (path, error.strerror or error)) from error
    except _BROKEN as error:
        raise damaged_error("%s (in '%s')" % (error, path)) from error


class _FilePart(NamedTuple):
    """A part of a bundle that the shim runs, from a file in the format of the framework."""

    entry: PartEntry
    compiled: Compiled
    inputs: Sequence[Port]
    outputs: Sequence[Port]

    def run(self, values: Mapping[str, CheckedValue]) -> Dict[str, CheckedValue]:
        """Run the part, with its inputs taken from `values`, by name. Return name -> (array, dtype) for each output.

        The outputs are those of the file, which may have more than the manifest lists. Raises KeyError for an input of
        the file that `values` lacks; other values are ignored.
        """
        types = {port.name: port.type for port in self.entry.outputs}
        arrays = self.compiled.run([values[port.name][0] for port in self.inputs])
        return {port.name: (array, _dtype(types.get(port.name), port)) for port, array in zip(self.outputs, arrays)}


def _dtype(declared: Optional[Type], port: Port) -> DType:
    """Return the dtype of an output: that in the manifest (`declared`), or that of the file if the manifest has none.

    The file may have a carrier dtype, where its format lacks the dtype of the model.
    """
    return declared.dtype if isinstance(declared, TensorType) and declared.dtype is not None else port.dtype


class _FallbackPart(NamedTuple):
    """A part of a bundle that runs in the fallback, from an ONNX file."""

    entry: PartEntry
    runnable: PartRunner

    def run(self, values: Mapping[str, CheckedValue]) -> Dict[str, CheckedValue]:
        """Run the part, with its inputs taken from `values`, by name. Return name -> checked value for each output.

        Raises KeyError for an input that `values` lacks; other values are ignored.
        """
        results = self.runnable.run_checked({port.name: values[port.name] for port in self.entry.inputs})
        return {port.name: result for port, result in zip(self.entry.outputs, results)}


class Bundle:
    """A loaded bundle; `run` computes the outputs of the model. The parts are unpacked into a temporary folder.

    `find` returns the shim that loads a format. It is not called if every part runs in the fallback.

    Raises InputError if the file cannot be read, and InvalidModelError if the bundle is damaged. An OnnxCompatError
    of `find`, or of loading a part, passes with the path in its reason.
    """

    def __init__(self, path: StrPath, find: Callable[[str], Shim]) -> None:
        with _open_bundle(path) as (archive, manifest, members):
            self.manifest = manifest
            self.inputs: List[ValueInfo] = manifest.inputs
            self.outputs: List[ValueInfo] = manifest.outputs
            self._folder = tempfile.mkdtemp(prefix="onnx-compat-")
            weakref.finalize(self, shutil.rmtree, self._folder, True)
            for part in manifest.parts:
                if part.kind not in ("onnx", manifest.format):
                    raise damaged_error("the part '%s' has the format '%s'" % (part.path, part.kind))
            _check_order(manifest)
            needed = any(part.kind != "onnx" for part in manifest.parts)
            self._shim: Optional[Shim] = find(manifest.format) if needed else None
            unpack = lambda member: _unpack(archive, members[member.name], member, self._folder)  # noqa: E731
            self._parts = [self._load_part(part, unpack) for part in manifest.parts]

    @property
    def shim(self) -> str:
        """The name of the shim that runs the parts in the format of a framework; "reference" without such a part."""
        return self._shim.name if self._shim is not None else "reference"

    @property
    def fallbacks(self) -> List[str]:
        """The names of the nodes that run in the fallback, in running order, as the manifest lists them."""
        return [node.node for node in self.manifest.fallback]

    @property
    def fallback_reasons(self) -> Dict[str, str]:
        """Node name -> why the node runs in the fallback, as the manifest lists it."""
        return {node.node: node.reason for node in self.manifest.fallback}

    def run(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Outputs:
        """Compute the outputs of the model. `inputs`: a dict by name, or a list or tuple in the order of the model's inputs.

        Raises InputError if an input is missing, unknown, or does not fit its declared type. Errors of a part pass.
        """
        values = self.values(inputs)
        names = [port.name for port in self.outputs]
        return Outputs([values[name] for name in names], names)

    __call__ = run

    def values(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Dict[str, Any]:
        """Run every part. Return the inputs of the model and the outputs of all parts, by their names in the model.

        The values are in the caller's form, as by `to_public_value`. `inputs` and the errors are as for `run`.
        """
        values: Dict[str, Any] = check_feed(inputs, self.inputs, [port.name for port in self.inputs])
        for part in self._parts:
            values.update(part.run(values))
        return {name: to_public_value(value) for name, value in values.items()}

    def alone(self, name: str, given: Mapping[str, Any]) -> Any:
        """Return the value `name`, computed by the first part that has this output, and by this part alone.

        `given` maps each input of the part to a value; other values are ignored. Raises KeyError for a missing value,
        InputError for a value that does not fit, and StopIteration if no part has the output.
        """
        part = next(part for part in self._parts if name in self.made_by(part.entry))
        names = [port.name for port in part.entry.inputs]
        feed = check_feed({key: given[key] for key in names}, part.entry.inputs, names)
        return to_public_value(part.run(feed)[name])

    @staticmethod
    def made_by(part: PartEntry) -> List[str]:
        """Return the names of the outputs of a part, as the manifest lists them."""
        return [port.name for port in part.outputs]

    def _load_part(self, part: PartEntry, unpack: Callable[[Member], str]) -> "Union[_FilePart, _FallbackPart]":
        """Unpack the files of a part, load them, and return an object that runs the part.

        Raise InvalidModelError if the inputs and outputs of the file contradict the manifest. Errors of `unpack` and of
        loading pass.
        """
        paths = [unpack(member) for member in part.files]
        if part.kind == "onnx":
            with open(paths[0], "rb") as file:
                model = load(file.read())
            os.remove(paths[0])
            _check_names(part, [port.name for port in model.graph.inputs], [port.name for port in model.outputs])
            return _FallbackPart(part, fallback_runnable(model))
        assert self._shim is not None
        loaded = self._shim.load_converted(os.path.join(self._folder, part.path), part.kind)
        file_part = _FilePart(part, *loaded)
        _check_names(part, [port.name for port in file_part.inputs], [port.name for port in file_part.outputs])
        return file_part


def _check_order(manifest: Manifest) -> None:
    """Raise InvalidModelError if a part reads a value that is no input of the model and no output of an earlier part.

    Raise it too if an output of the model is neither an input of the model nor an output of a part.
    """
    available = {port.name for port in manifest.inputs}
    for part in manifest.parts:
        missing = [port.name for port in part.inputs if port.name not in available]
        if missing:
            raise damaged_error("the part '%s' reads '%s', which no earlier part computes" % (part.path, missing[0]))
        available.update(port.name for port in part.outputs)
    missing = [port.name for port in manifest.outputs if port.name not in available]
    if missing:
        raise damaged_error("no part computes the output '%s'" % missing[0])


def _check_names(part: PartEntry, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Raise InvalidModelError if the file of a part has an input that the manifest lacks, or lacks one of its outputs.

    `inputs`, `outputs`: the names that the file has. It may have fewer inputs and more outputs than the manifest.
    """
    declared_inputs = [port.name for port in part.inputs]
    declared_outputs = [port.name for port in part.outputs]
    if not set(inputs) <= set(declared_inputs) or not set(declared_outputs) <= set(outputs):
        raise damaged_error("the inputs and outputs of the part '%s' differ from those in the manifest" % part.path)


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, member: Member, folder: str) -> str:
    """Unpack a member to its own path below `folder`, and return the path of the new file. Folders are created.

    `info`: its entry in the zip. Raise InvalidModelError if its SHA-256 differs from that in `member`, and
    FileExistsError if the path exists.
    """
    path = os.path.join(folder, *member.name.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    digest = hashlib.sha256()
    with archive.open(info) as source, open(path, "xb") as target:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
            target.write(block)
    if digest.hexdigest() != member.sha256:
        raise damaged_error("the SHA-256 of the member '%s' differs from that in the manifest" % member.name)
    return path

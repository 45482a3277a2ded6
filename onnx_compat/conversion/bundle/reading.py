"""Run a bundle: unpack its files into a temporary folder, which is deleted with the `Bundle` object."""

import hashlib
import os
import shutil
import tempfile
import weakref
import zipfile
from contextlib import contextmanager
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from onnx_compat.boundary import DAMAGED, typed_errors
from onnx_compat.conversion.bundle.manifest import Manifest, Member, PartEntry, damaged_error, locate_members
from onnx_compat.discovery.selection import REFERENCE
from onnx_compat.discovery.selection import find as find_shim
from onnx_compat.errors import InputError, OnnxCompatError
from onnx_compat.execution.fallback import PartRunner, fallback_runnable
from onnx_compat.execution.feeds import CheckedValue, Feed, check_feed, to_public_value
from onnx_compat.execution.outputs import Outputs, own_arrays
from onnx_compat.execution.summary import summarize
from onnx_compat.ir.dtypes import DType
from onnx_compat.model import TensorType, Type, ValueInfo, load
from onnx_compat.model.loading import StrPath
from onnx_compat.shim.forks import ForkGuard
from onnx_compat.shim.interface import Compiled, Port, Shim

__all__ = ["Bundle", "read_manifest"]

#: The errors that zipfile raises for a malicious or truncated archive.
_BROKEN = (*DAMAGED, NotImplementedError, RuntimeError, ValueError, KeyError, IndexError)


def read_manifest(path: StrPath) -> Manifest:
    """Return the manifest of a bundle, without unpacking the parts.

    The manifest and the archive are checked as by `locate_members`. The contents of the parts' files are not checked.

    - Raises InputError if the file cannot be read.
    - Raises InvalidModelError if the file is no bundle, or is damaged.
    - Raises UnsupportedError for an unknown dtype.
    """
    with _open_bundle(path) as (_, manifest, _members):
        return manifest


@contextmanager
def _open_bundle(path: StrPath) -> Iterator[Tuple[zipfile.ZipFile, Manifest, Dict[str, zipfile.ZipInfo]]]:
    """Open a bundle and yield (zip archive, manifest, {file name: zip entry}), after the checks of `locate_members`.

    Errors of the checks and of the block are converted: an OSError becomes an InputError, and an error of damaged data
    (in `_BROKEN`) becomes an InvalidModelError. An OnnxCompatError is raised with the path appended to its reason.
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
    """A part of a bundle that the shim runs, from a file in the format of the framework.

    - entry: the part as the manifest lists it.
    - compiled: the object that runs the file.
    - inputs, outputs: the ports of the file.
    """

    entry: PartEntry
    compiled: Compiled
    inputs: Sequence[Port]
    outputs: Sequence[Port]

    def run(self, values: Mapping[str, CheckedValue]) -> Dict[str, CheckedValue]:
        """Run the part. Return name -> (array, dtype) for each output that the file has.

        `values` maps the name of a value to (array, dtype). The part takes its inputs from `values`; other entries are
        ignored. The file may have more outputs than the manifest lists. Raises KeyError if `values` lacks an input of
        the file.
        """
        types = {port.name: port.type for port in self.entry.outputs}
        arrays = self.compiled.run([values[port.name][0] for port in self.inputs])
        return {port.name: (array, _dtype(types.get(port.name), port)) for port, array in zip(self.outputs, arrays)}


def _dtype(declared: Optional[Type], port: Port) -> DType:
    """Return the dtype of an output: the dtype in the manifest, or that of the file if the manifest has none.

    `declared`: the type in the manifest, or None. The dtype of the file may be a carrier dtype, if the format lacks the
    dtype of the model.
    """
    return declared.dtype if isinstance(declared, TensorType) and declared.dtype is not None else port.dtype


class _FallbackPart(NamedTuple):
    """A part of a bundle that runs in the fallback, from an ONNX file. `outputs`: the names of the file's outputs."""

    entry: PartEntry
    runnable: PartRunner
    outputs: Sequence[str]

    def run(self, values: Mapping[str, CheckedValue]) -> Dict[str, CheckedValue]:
        """Run the part, with its inputs taken from `values`, by name. Return name -> checked value for each output.

        The file may have more outputs than the manifest lists, and in another order. Raises KeyError for an input that
        `values` lacks; other values are ignored.
        """
        results = self.runnable.run_checked({port.name: values[port.name] for port in self.entry.inputs})
        by_name = dict(zip(self.outputs, results))
        return {port.name: by_name[port.name] for port in self.entry.outputs}


class Bundle:
    """A loaded bundle; `run` computes the outputs of the model. The parts are unpacked into a temporary folder.

    The constructor takes the path and a function `find`, which takes a format and returns the shim that loads files of
    this format. `find` is not called if every part runs in the fallback.

    - Raises InputError if the file cannot be read.
    - Raises InvalidModelError if the bundle is damaged.
    - Raises UnsupportedError for an unknown dtype in the manifest.
    - Raises the OnnxCompatError of `find`, or of loading a part, with the path appended to its reason.
    """

    def __init__(self, path: StrPath, find: Callable[[str], Shim]) -> None:
        self.path = os.fspath(path)
        self._find = find
        self._open()
        self._guard = ForkGuard(self._shim or find_shim(REFERENCE))

    def _open(self) -> None:
        """Unpack the parts into a new temporary folder, and load them. Sets the attributes of the bundle.

        Raises the errors of `_open_bundle`, of the choice of a shim and of loading. Raises InvalidModelError for parts
        of another format than the manifest's, and for parts in a wrong order.
        """
        with _open_bundle(self.path) as (archive, manifest, members):
            self.manifest = manifest
            self.inputs: List[ValueInfo] = manifest.inputs
            self.outputs: List[ValueInfo] = manifest.outputs
            self._folder = tempfile.mkdtemp(prefix="onnx-compat-")
            weakref.finalize(self, _delete_folder, self._folder, os.getpid())
            for part in manifest.parts:
                if part.kind not in ("onnx", manifest.format):
                    raise damaged_error("the part '%s' has the format '%s'" % (part.path, part.kind))
            _check_order(manifest)
            needed = any(part.kind != "onnx" for part in manifest.parts)
            self._shim: Optional[Shim] = self._find(manifest.format) if needed else None
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

    @property
    def fallback_runtimes(self) -> Dict[str, str]:
        """Node name -> what runs the node in the fallback: see `Runnable.fallback_runtimes`."""
        runners = [part.runnable for part in self._parts if isinstance(part, _FallbackPart)]
        return {name: runtime for runner in runners for name, runtime in runner.fallback_runtimes.items()}

    @typed_errors
    def run(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Outputs:
        """Compute the outputs of the model. Return the outputs, by index and by name.

        `inputs`: a dict by name, a list or tuple in the order of the model's inputs, or the array of the only input.
        All inputs are needed.

        Raises InputError if an input is missing, unknown, or does not fit its declared type. Raises UnsupportedError
        for an array of a dtype that ONNX lacks. An error of a part is raised as an OnnxCompatError.
        """
        self._guard.enter(self._renew)
        feed = check_feed(inputs, self.inputs, [port.name for port in self.inputs])
        values = self._values(feed)
        names = [port.name for port in self.outputs]
        return Outputs(own_arrays((to_public_value(values[name]) for name in names), feed), names)

    __call__ = run

    def __repr__(self) -> str:
        return summarize(
            "Bundle", self.path, self.shim, self.inputs, self.outputs, fallbacks=len(self.manifest.fallback)
        )

    def _renew(self) -> object:
        """Unpack and load the parts again, in a forked process. Return the parts that the parent process has loaded."""
        parts = self._parts
        self._open()
        return parts

    def values(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Dict[str, Any]:
        """Run every part. Return value name -> value, for the inputs of the model and the outputs of all parts.

        `inputs` has the form that `run` takes. The values have the form that `run` returns. The errors are those of
        `run`, except that an error of a part is raised unchanged.
        """
        values = self._values(check_feed(inputs, self.inputs, [port.name for port in self.inputs]))
        return {name: to_public_value(value) for name, value in values.items()}

    def _values(self, feed: Feed) -> Dict[str, CheckedValue]:
        """Run every part on checked inputs. Return value name -> checked value, for the inputs and all outputs."""
        values = dict(feed)
        for part in self._parts:
            values.update(part.run(values))
        return values

    def alone(self, name: str, given: Mapping[str, Any]) -> Any:
        """Return the value named `name`, computed by running only the first part that has this output.

        `given` maps a value name to a value. It must have each input of the part; other entries are ignored.

        - Raises KeyError if an input of the part is missing in `given`.
        - Raises InputError if a value does not fit its input.
        - Raises StopIteration if no part has the output.
        - Raises the errors of the part.
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

        The file of an ONNX part is deleted after it is read. `unpack`: a function that unpacks a file of the archive,
        and returns its path.

        Raises InvalidModelError if the names of the file's inputs and outputs contradict the manifest (see
        `_check_names`). Raises the errors of `unpack` and of loading too.
        """
        paths = [unpack(member) for member in part.files]
        if part.kind == "onnx":
            with open(paths[0], "rb") as file:
                model = load(file.read())
            os.remove(paths[0])
            outputs = [port.name for port in model.outputs]
            _check_names(part, [port.name for port in model.graph.inputs], outputs)
            return _FallbackPart(part, fallback_runnable(model), outputs)
        assert self._shim is not None
        loaded = self._shim.load_converted(os.path.join(self._folder, part.path), part.kind)
        file_part = _FilePart(part, *loaded)
        _check_names(part, [port.name for port in file_part.inputs], [port.name for port in file_part.outputs])
        return file_part


def _delete_folder(folder: str, process: int) -> None:
    """Delete a temporary folder of this process. A forked process keeps the folder of its parent."""
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)


def _check_order(manifest: Manifest) -> None:
    """Check that the parts can run in the order of the manifest. Raise InvalidModelError in these cases:

    - A part reads a value that is no input of the model and no output of an earlier part.
    - An output of the model is neither an input of the model nor an output of a part.
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
    """Raise InvalidModelError if the ports of a part's file contradict the manifest. Otherwise do nothing.

    `inputs` and `outputs` are the names that the file has. Each name in `inputs` must be an input of `part`, and each
    output of `part` must be in `outputs`. The file may have fewer inputs and more outputs than the manifest.
    """
    declared_inputs = [port.name for port in part.inputs]
    for name in inputs:
        if name not in declared_inputs:
            raise damaged_error("the part '%s' reads '%s', which its entry in the manifest lacks" % (part.path, name))
    for port in part.outputs:
        if port.name not in outputs:
            raise damaged_error("the part '%s' lacks the output '%s' of the manifest" % (part.path, port.name))


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, member: Member, folder: str) -> str:
    """Unpack a file of the archive below `folder`, creating the folders of its path. Return the path of the new file.

    `info`: the zip entry of the file. `member`: its path and SHA-256 in the manifest.

    Raises InvalidModelError if the SHA-256 of the content differs. Raises FileExistsError if the new file exists
    already.
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

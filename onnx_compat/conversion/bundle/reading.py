"""Running a bundle: its files unpacked into a folder of their own, which lives as long as it is used."""

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
from onnx_compat.execution.fallback import fallback_runnable
from onnx_compat.execution.feeds import check_feed, to_public_value
from onnx_compat.execution.runnable import Outputs
from onnx_compat.model import TensorType, ValueInfo, load
from onnx_compat.shim.interface import Compiled, Port, Shim

__all__ = ["Bundle", "read_manifest"]

#: What the zip of an attacker, or one that was cut off, makes zipfile raise.
_BROKEN = (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, KeyError, IndexError, EOFError)


def read_manifest(path: Any) -> Manifest:
    """What a bundle says about itself; nothing is unpacked."""
    with _opened(path) as (_, manifest, _members):
        return manifest


@contextmanager
def _opened(path: Any) -> Iterator[Tuple[zipfile.ZipFile, Manifest, Dict[str, zipfile.ZipInfo]]]:
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


class _File(NamedTuple):
    """A part in the framework's format."""

    entry: PartEntry
    compiled: Compiled
    inputs: Sequence[Port]
    outputs: Sequence[Port]

    def run(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        types = {one.name: one.type for one in self.entry.outputs}
        arrays = self.compiled.run([values[port.name][0] for port in self.inputs])
        return {port.name: (array, _dtype(types.get(port.name), port)) for port, array in zip(self.outputs, arrays)}


def _dtype(told: Any, port: Port) -> Any:
    """The file holds a carrier where the framework has not the dtype; the manifest says which dtype it carries."""
    return told.dtype if isinstance(told, TensorType) and told.dtype is not None else port.dtype


class _Onnx(NamedTuple):
    """A part in the fallback."""

    entry: PartEntry
    runnable: Any

    def run(self, values: Mapping[str, Any]) -> Dict[str, Any]:
        results = self.runnable.run_checked({one.name: values[one.name] for one in self.entry.inputs})
        return {one.name: result for one, result in zip(self.entry.outputs, results)}


class Bundle:
    """A bundle that runs, by `run`. `find` gives the shim that reads a format."""

    def __init__(self, path: Any, find: Callable[[str], Shim]) -> None:
        with _opened(path) as (archive, manifest, members):
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
            unpack = lambda one: _unpacked(archive, members[one.name], one, self._folder)  # noqa: E731
            self._parts = [self._part(part, unpack) for part in manifest.parts]

    @property
    def shim(self) -> str:
        """The shim that runs the parts of its format."""
        return self._shim.name if self._shim is not None else "reference"

    @property
    def fallbacks(self) -> List[str]:
        """The nodes that run outside of the framework."""
        return [one.node for one in self.manifest.fallback]

    @property
    def fallback_reasons(self) -> Dict[str, str]:
        return {one.node: one.reason for one in self.manifest.fallback}

    def run(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Outputs:
        """The outputs for these inputs: a dict by name, or a sequence in the model's order."""
        values = self.values(inputs)
        names = [one.name for one in self.outputs]
        return Outputs([values[name] for name in names], names)

    __call__ = run

    def values(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Dict[str, Any]:
        """Whatever is fed to a part or comes out of one, by its name in the model."""
        values: Dict[str, Any] = check_feed(inputs, self.inputs, [one.name for one in self.inputs])
        for part in self._parts:
            values.update(part.run(values))
        return {name: to_public_value(value) for name, value in values.items()}

    def alone(self, name: str, given: Mapping[str, Any]) -> Any:
        """One value that comes out of a part, by that part alone, from what it is given."""
        part = next(one for one in self._parts if name in self.made_by(one.entry))
        read = [one.name for one in part.entry.inputs]
        return to_public_value(part.run(check_feed({one: given[one] for one in read}, part.entry.inputs, read))[name])

    @staticmethod
    def made_by(part: PartEntry) -> List[str]:
        return [one.name for one in part.outputs]

    def _part(self, part: PartEntry, unpack: Callable[[Member], str]) -> Any:
        paths = [unpack(one) for one in part.files]
        if part.kind == "onnx":
            with open(paths[0], "rb") as file:
                model = load(file.read())
            os.remove(paths[0])
            _check_names(part, [one.name for one in model.graph.inputs], [one.name for one in model.outputs])
            return _Onnx(part, fallback_runnable(model))
        assert self._shim is not None
        loaded = self._shim.load_converted(os.path.join(self._folder, part.path), part.kind)
        made = _File(part, *loaded)
        _check_names(part, [port.name for port in made.inputs], [port.name for port in made.outputs])
        return made


def _check_order(manifest: Manifest) -> None:
    """Whatever is read was given by the caller or made by an earlier part."""
    made = {one.name for one in manifest.inputs}
    for part in manifest.parts:
        missing = [one.name for one in part.inputs if one.name not in made]
        if missing:
            raise damaged_error("the part '%s' reads '%s', which no part before it makes" % (part.path, missing[0]))
        made.update(one.name for one in part.outputs)
    missing = [one.name for one in manifest.outputs if one.name not in made]
    if missing:
        raise damaged_error("no part makes the output '%s'" % missing[0])


def _check_names(part: PartEntry, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """The file takes what the manifest says, or less; and gives all of it."""
    given = [one.name for one in part.inputs]
    made = [one.name for one in part.outputs]
    if not set(inputs) <= set(given) or not set(made) <= set(outputs):
        raise damaged_error("the inputs and outputs of the part '%s' are not what its manifest says" % part.path)


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, member: Member, folder: str) -> str:
    path = os.path.join(folder, *member.name.split("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    digest = hashlib.sha256()
    with archive.open(info) as source, open(path, "xb") as target:
        for block in iter(lambda: source.read(1 << 20), b""):
            digest.update(block)
            target.write(block)
    if digest.hexdigest() != member.sha256:
        raise damaged_error("the member '%s' is not what it was when the bundle was written" % member.name)
    return path

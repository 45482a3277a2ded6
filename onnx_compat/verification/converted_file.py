"""Open a converted file on a shim that reads its format, and run it with inputs by name."""

import difflib
import os
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion.bundle import Bundle, is_bundle
from onnx_compat.conversion.convert import load_bundle
from onnx_compat.conversion.destinations import check_readable
from onnx_compat.conversion.folder_replacement import set_aside_path
from onnx_compat.discovery import selection
from onnx_compat.discovery.missing_shims import how_to_get
from onnx_compat.errors import InputError, ShimError
from onnx_compat.execution.feeds import check_feed
from onnx_compat.execution.outputs import Outputs, own_arrays
from onnx_compat.execution.summary import summarize
from onnx_compat.inspection.foreign import saved_model
from onnx_compat.ir.dtypes import to_public
from onnx_compat.model import TensorType, ValueInfo
from onnx_compat.model.first_bytes import ONNX, check_suffix, kind_of_file
from onnx_compat.shim.forks import ForkGuard
from onnx_compat.shim.interface import Compiled, Port, Shim
from onnx_compat.verification.onnx_file import OnnxFile, open_onnx

__all__ = ["ConvertedFile", "flatten_sequences", "match_format", "no_reader_error", "open_converted"]

#: The result of `Shim.load_converted`: a runnable program, its inputs and its outputs.
LoadedFile = Tuple[Compiled, Tuple[Port, ...], Tuple[Port, ...]]
#: Suffix of a file ("" is a folder) -> the shim that reads it.
_INSTALL = {".tflite": "tflite", ".keras": "keras", ".pb": "tf1", "": "tf2"}


class ConvertedFile:
    """A converted file that a shim has opened. Its inputs and outputs have the names that the model gives them.

    The constructor takes the shim, the path, and a function `load` without arguments that loads the file on the shim.
    It calls `load` once, and raises the errors of `load`. `run` calls `load` again in a forked process.

    Attributes:
        path: The path of the file.
        shim: The name of the shim.
        scheme: The `Scheme` of a quantised file; None for any other file.
        inputs: The inputs of the file: name and type.
        outputs: The outputs of the file: name and type.
        input_ports: The same inputs, in the same order, with the `quantization` of integers that stand for reals.
        output_ports: The same outputs, likewise.
    """

    def __init__(self, shim: Shim, path: str, load: Callable[[], LoadedFile]) -> None:
        self.path = path
        self.shim = shim.name
        self._guard = ForkGuard(shim)
        self._load = load
        compiled, inputs, outputs = load()
        self.scheme = compiled.scheme
        self._compiled = compiled
        self.input_ports = tuple(inputs)
        self.output_ports = tuple(outputs)
        self.inputs = [ValueInfo(port.name, TensorType(port.dtype, port.shape)) for port in inputs]
        self.outputs = [ValueInfo(port.name, TensorType(port.dtype, port.shape)) for port in outputs]

    @typed_errors
    def run(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Outputs:
        """Run the file. Return its outputs by name.

        The file has the items of a sequence `s` as outputs named `s.0`, `s.1` and so on. The result has these outputs
        too, and after all outputs of the file the list `s`. The list is left out if the file has an output named `s`.

        inputs: a dict of arrays by name, a list of arrays in the order of the file, or the array of the only input. In
        a dict, a sequence is a list. A dict may have None values and names that the file lacks, which are ignored: a
        converter removes inputs that no output depends on.

        Raises `InputError` if an input is missing or does not fit. Raises `UnsupportedError` for an array of a dtype
        that ONNX lacks.
        """
        self._guard.enter(self._renew)
        names = [info.name for info in self.inputs]
        if isinstance(inputs, Mapping):
            inputs = {name: value for name, value in flatten_sequences(inputs) if name in names}
        checked = check_feed(inputs, self.inputs, names)
        arrays = self._compiled.run([checked[name][0] for name in names])
        public = (to_public(array, port.dtype) for port, array in zip(self.output_ports, arrays))
        results = _join_sequences(dict(zip([port.name for port in self.output_ports], own_arrays(public, checked))))
        return Outputs(list(results.values()), list(results))

    def __repr__(self) -> str:
        return summarize("ConvertedFile", self.path, self.shim, self.inputs, self.outputs)

    def _renew(self) -> object:
        """Load the file again, and use the new object from now on. Return the object that was used before.

        The guard calls this method in a forked process: the parent process has loaded the returned object.
        """
        loaded = self._compiled
        self._compiled = self._load()[0]
        return loaded


@typed_errors
def open_converted(
    path: Union[str, "os.PathLike[str]"], shim: Optional[str] = None, signature: Optional[str] = None
) -> Union[ConvertedFile, Bundle, OnnxFile]:
    """Open a converted file on a shim. Return a `ConvertedFile`, a `Bundle` or an `OnnxFile`, by its suffix.

    - shim: the name of a shim. None selects the first installed shim that reads the format and works.
    - signature: the signature to run; None: the default signature.

    Raises `InputError` in these cases:

    - The file does not exist or cannot be read, or it lacks the signature.
    - A signature is given for a bundle.
    - The file is named .tflite and has another format.

    Raises `ShimError` if no shim can open the file. Raises `UnsupportedError` if a signature is given for a format
    without signatures, or if the installed runtime cannot load the file.
    """
    target = Path(os.fspath(path))
    if not target.exists():
        set_aside = set_aside_path(str(target))
        hint = "convert the model first"
        if os.path.lexists(set_aside):
            hint = "an interrupted run renamed it to '%s': rename it back, or convert the model again" % set_aside
        raise InputError("there is no file or folder '%s'" % target, hint=hint)
    check_readable(target, entries=True)
    check_suffix(target)
    if is_bundle(target):
        if signature is not None:
            raise InputError("the bundle '%s' has no signatures" % target, hint="leave the signature out")
        return load_bundle(target, shim)
    if target.suffix.lower() == ".onnx":
        return open_onnx(target, shim, signature)
    refusals: List[str] = []
    for name in [shim] if shim else [*selection.installed_shims(), selection.REFERENCE]:
        try:
            reader = selection.find(name)
        except ShimError as error:
            refusals.append("%s: %s" % (name, error.reason))
            continue
        form = match_format(reader, target)
        if form is None:
            refusals.append("%s reads no such file" % name)
            continue
        probe = selection.probe(name)
        if not probe.available:
            refusals.append("%s: %s" % (name, probe.reason))
            continue
        load = partial(reader.load_converted, str(target), form)
        if signature is not None:
            load = partial(reader.load_signature, str(target), form, signature)
        return ConvertedFile(reader, str(target), load)
    raise no_reader_error("runs", target, refusals)


def no_reader_error(verb: str, path: Union[str, "os.PathLike[str]"], refusals: Sequence[str]) -> ShimError:
    """Return the ShimError for a file that no installed shim can read. Its hint says what to install or check.

    `verb`: "runs" or "describes". `refusals`: for each shim, why it does not read the file.
    """
    kind = _suffix_of(path)
    if not kind and not os.path.exists(os.path.join(os.fspath(path), saved_model.FILE)):
        hint = "give a file, or the folder of a SavedModel, which contains a %s" % saved_model.FILE
    elif kind in _INSTALL:
        hint = how_to_get(_INSTALL[kind])
    else:
        file_kind = kind_of_file(path)
        close = difflib.get_close_matches(kind, [suffix for suffix in _INSTALL if suffix], 1)
        hint = "did you mean the suffix '%s'?" % close[0] if close else "check the suffix of the file"
        if file_kind is not None:
            to_do = (
                "rename it to end in %s" % file_kind.suffix
                if file_kind.suffix
                else "give the file that `convert` wrote"
            )
            hint = "it is %s: %s" % (file_kind.name, file_kind.advice if file_kind is ONNX else to_do)
    return ShimError("no installed shim %s '%s' (%s)" % (verb, path, "; ".join(refusals)), hint=hint)


def match_format(shim: Shim, path: Union[str, "os.PathLike[str]"]) -> Optional[str]:
    """Return the name of the shim's format whose suffix the path has; None without such a format.

    Case is ignored. A folder has the suffix "". The content is not read.
    """
    return next((form for form, (suffix, _) in shim.formats.items() if suffix == _suffix_of(path)), None)


def _suffix_of(path: Union[str, "os.PathLike[str]"]) -> str:
    target = Path(os.fspath(path))
    return "" if target.is_dir() else target.suffix.lower()


def flatten_sequences(inputs: Mapping[str, Any]) -> List[Tuple[str, Any]]:
    """Return a list of pairs (name, tensor), with a sequence `s` replaced by its items `s.0`, `s.1`, …

    The items are separate inputs of a converted file. None values are left out.
    """
    tensors: List[Tuple[str, Any]] = []
    for name, value in inputs.items():
        if isinstance(value, (list, tuple)):
            tensors += flatten_sequences({"%s.%d" % (name, index): item for index, item in enumerate(value)})
        elif value is not None:
            tensors.append((name, value))
    return tensors


def _join_sequences(outputs: Dict[str, Any]) -> Dict[str, Any]:
    """Return a copy of the outputs, plus a list `s` of the outputs `s.0`, `s.1`, … if no output has the name `s`.

    The items stay in the result. The lists come after all other outputs.
    """
    result = dict(outputs)
    for name in outputs:
        stem, _, index = name.rpartition(".")
        if index == "0" and stem not in outputs:
            items = (outputs.get("%s.%d" % (stem, position)) for position in range(len(outputs)))
            result[stem] = [item for item in items if item is not None]
    return result

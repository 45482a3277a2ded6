"""A converted file as something that runs: which shim opens it, and how it is fed by name."""

import os
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from onnx_compat.conversion.bundle import Bundle, is_bundle
from onnx_compat.conversion.convert import load_bundle
from onnx_compat.conversion.destinations import check_readable
from onnx_compat.conversion.folder_replacement import set_aside_path
from onnx_compat.discovery import selection
from onnx_compat.errors import InputError, ShimError
from onnx_compat.execution.feeds import check_feed
from onnx_compat.execution.runnable import Outputs
from onnx_compat.inspection.foreign import saved_model
from onnx_compat.ir.dtypes import to_public
from onnx_compat.model import TensorType, ValueInfo
from onnx_compat.shim.interface import Compiled, Port, Shim

__all__ = ["Opened", "flat", "match_format", "no_reader", "open_converted"]

#: What to install when nothing here reads a file of this suffix ("" is a folder).
_INSTALL = {".tflite": "tflite", ".keras": "keras", ".pb": "tf1", "": "tf2"}


class Opened:
    """A file on a shim. Its inputs and outputs are called as those of the model that it was made from."""

    def __init__(self, shim: str, compiled: Compiled, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        self.shim = shim
        self.scheme = compiled.scheme
        self._compiled = compiled
        self._ports = outputs
        self.inputs = [ValueInfo(port.name, TensorType(port.dtype, port.shape)) for port in inputs]
        self.outputs = [ValueInfo(port.name, TensorType(port.dtype, port.shape)) for port in outputs]

    def run(self, inputs: Union[Mapping[str, Any], Sequence[Any]]) -> Outputs:
        """The outputs for these inputs: a dict by name, or a sequence in the order of the file. An input that the file does not
        have was of no use to it: a converter drops what no output depends on.
        """
        names = [one.name for one in self.inputs]
        if isinstance(inputs, Mapping):
            inputs = {name: value for name, value in flat(inputs) if name in names}
        checked = check_feed(inputs, self.inputs, names)
        arrays = self._compiled.run([checked[name][0] for name in names])
        made = _joined({port.name: to_public(array, port.dtype) for port, array in zip(self._ports, arrays)})
        return Outputs(list(made.values()), list(made))


def open_converted(
    path: Union[str, "os.PathLike[str]"], shim: Optional[str] = None, signature: Optional[str] = None
) -> Union[Opened, Bundle]:
    """The file on the shim that is named, else on the first installed one that reads its format and works here."""
    target = Path(os.fspath(path))
    if not target.exists():
        aside = set_aside_path(os.path.abspath(str(target)))
        hint = "convert the model first"
        if os.path.lexists(aside):
            hint = "an interrupted run left it as '%s': rename that, or convert the model again" % aside
        raise InputError("there is no file or folder '%s'" % target, hint=hint)
    check_readable(str(target))
    if is_bundle(target):
        if signature is not None:
            raise InputError("the bundle '%s' has no signatures" % target, hint="leave the signature out")
        return load_bundle(target, shim)
    refusals: List[str] = []
    for name in [shim] if shim else [*selection.installed(), selection.REFERENCE]:
        try:
            found = selection.find(name)
        except ShimError as error:
            refusals.append("%s: %s" % (name, error.reason))
            continue
        form = match_format(found, target)
        if form is None:
            refusals.append("%s reads no such file" % name)
            continue
        probe = selection.probe(name)
        if not probe.available:
            refusals.append("%s: %s" % (name, probe.reason))
            continue
        if signature is not None:
            return Opened(name, *found.load_signature(str(target), form, signature))
        return Opened(name, *found.load_converted(str(target), form))
    raise no_reader("runs", target, refusals)


def no_reader(does: str, path: Union[str, "os.PathLike[str]"], refusals: Sequence[str]) -> ShimError:
    """That nothing here `does` it, and what to install."""
    kind = _suffix(path)
    if not kind and not os.path.exists(os.path.join(os.fspath(path), saved_model.FILE)):
        hint = "give a file, or the folder of a SavedModel, which has a %s in it" % saved_model.FILE
    elif kind in _INSTALL:
        hint = "pip install 'onnx-compat[%s]'" % _INSTALL[kind]
    else:
        hint = "is the suffix of the file right?"
    return ShimError("nothing here %s '%s' (%s)" % (does, path, "; ".join(refusals)), hint=hint)


def match_format(shim: Shim, path: Union[str, "os.PathLike[str]"]) -> Optional[str]:
    """The format of the shim's that the path looks like."""
    return next((form for form, (suffix, _) in shim.formats.items() if suffix == _suffix(path)), None)


def _suffix(path: Union[str, "os.PathLike[str]"]) -> str:
    target = Path(os.fspath(path))
    return "" if target.is_dir() else target.suffix.lower()


def flat(inputs: Mapping[str, Any]) -> List[Tuple[str, Any]]:
    """Sequences as their items, which are inputs of their own in a program: `s.0`, `s.1` …"""
    found: List[Tuple[str, Any]] = []
    for name, value in inputs.items():
        if isinstance(value, (list, tuple)):
            found += flat({"%s.%d" % (name, k): item for k, item in enumerate(value)})
        elif value is not None:
            found.append((name, value))
    return found


def _joined(outputs: Dict[str, Any]) -> Dict[str, Any]:
    """The other way round: `s.0`, `s.1` … are also the sequence `s`."""
    result = dict(outputs)
    for name in outputs:
        stem, _, index = name.rpartition(".")
        if index == "0" and stem not in outputs:
            items = (outputs.get("%s.%d" % (stem, k)) for k in range(len(outputs)))
            result[stem] = [item for item in items if item is not None]
    return result

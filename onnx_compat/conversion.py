"""Writing a model in a framework's own file format."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Tuple

from onnx_compat import select
from onnx_compat.errors import ConversionError, NeedsKnownError, OnnxCompatError, ShimError
from onnx_compat.fixing import Shapes, fixed
from onnx_compat.interpreter import Interpreter
from onnx_compat.model import Graph, MapType, Model, TensorType, load
from onnx_compat.plan import Fixed, recorded
from onnx_compat.shim import Compiled, Port, Shim, natives
from onnx_compat.survey import declared_forms

__all__ = ["convert", "formats", "load_converted"]

#: What writes a format that is known but not installed, for the message.
_WRITERS = {"tflite": "tflite", "keras": "keras", "saved_model": "tf2", "graphdef": "tf1"}
_SUFFIXES = {".tflite": "tflite", ".keras": "keras", ".pb": "graphdef", "": "saved_model"}


def formats(shim: Optional[str] = None) -> Dict[str, Tuple[str, str]]:
    """Format name -> (the shim that writes it here, what it is). With `shim`, only what that one writes."""
    found: Dict[str, Tuple[str, str]] = {}
    for name in [shim] if shim else select.installed():
        try:
            offered = select.find(name).formats
        except ShimError:
            if shim:
                raise
            continue
        for form, (_, description) in offered.items():
            if form not in found or not select.probe(found[form][0]).available:
                found[form] = (name, description)
    return found


def form_of_path(path: str, to: Optional[str] = None) -> str:
    """The format that is asked for, by name or by the path's suffix."""
    if to is not None:
        return to
    suffix = os.path.splitext(path.rstrip("/\\"))[1]
    if suffix not in _SUFFIXES:
        raise ConversionError(
            "'%s' is no suffix of a format; known are %s" % (suffix, ", ".join(repr(s) for s in _SUFFIXES if s)),
            hint="name the format: to='tflite', 'keras', 'saved_model' or 'graphdef'",
        )
    return _SUFFIXES[suffix]


def _writer(form: str, shim: Optional[str]) -> Shim:
    offered = formats(shim)
    if form not in offered:
        extra = _WRITERS.get(form)
        raise ConversionError(
            "%s writes the format '%s'; what can be written is %s"
            % ("the shim " + shim + " never" if shim else "no installed shim", form, ", ".join(offered) or "nothing"),
            hint="pip install 'onnx-compat[%s]'" % extra if extra else None,
        )
    name = offered[form][0]
    found = select.probe(name)
    if not found.available:
        hint = select.hint(name) or "onnx-compat doctor tells what each shim needs"
        raise ShimError(found.reason, hint=hint, shim=name)
    return select.find(name)


def convert(
    model: Any,
    path: Any,
    to: Optional[str] = None,
    shim: Optional[str] = None,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
) -> Path:
    """Write a model as a file (or folder) of a framework; the format follows from the path or is named by `to`.

    shapes: of inputs whose sizes the file shall not leave open: {"image": (1, 3, 224, 224)}; None is a size left as it is.
    values: in place of inputs, which the file then does not have: {"sampling_rate": 16000}.

    Nothing is left behind by a conversion that fails, and what was at the path before stays as it was.
    """
    target = os.path.abspath(os.fspath(path))
    form = form_of_path(target, to)
    writer = _writer(form, shim)
    own = not isinstance(model, Model)
    if own:
        model = load(model)
    if shapes or values:
        model = fixed(model, shapes, values)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise ConversionError("the folder of '%s' does not exist" % path, hint="make it first")
    if os.path.isdir(target) != (writer.formats[form][0] == "") and os.path.exists(target):
        raise ConversionError(
            "'%s' is there and is no %s" % (path, writer.formats[form][1]), hint="choose another path"
        )
    scratch = tempfile.mkdtemp(prefix=".onnx-compat-", dir=folder)
    try:
        made = os.path.join(scratch, os.path.basename(target))
        _export(model, writer, made, form, own)
        _replace(made, target, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Path(target)


def _export(model: Model, writer: Shim, path: str, form: str, own: bool) -> None:
    """`own`: nobody else has the model, so that its weights need not be kept beside what was made of them."""
    _refuse_open(model.graph, writer)
    emitter = writer.emitter()
    try:
        interpreter = Interpreter(natives(emitter))
        program = recorded(model, emitter, declared_forms(model.graph), Fixed(), interpreter, whole=True).program
        if own:
            for initializer in model.graph.initializers.values():
                initializer.release()
        writer.export(program, path, form)
    except NeedsKnownError as error:
        names = sorted(error.values | error.sizes)
        hint = "fix %s: `shapes` and `values` (--shape, --value) do that" % ", ".join(names) if names else error.hint
        raise ConversionError(
            "a file cannot leave this open: " + error.reason, hint=hint, **_where(error, writer)
        ) from error
    except OnnxCompatError as error:
        raise error.at(shim=writer.name) from error.__cause__


def _refuse_open(graph: Graph, writer: Shim) -> None:
    """A file has inputs of one form; what runs a model takes each feed as it comes."""
    for one in graph.required:
        if isinstance(one.type, TensorType):
            told = one.type.dtype is not None and one.type.rank is not None
        else:
            told = isinstance(one.type, MapType)
        if not told:
            raise ConversionError(
                "a file cannot leave the form of the input '%s' open, which is %s" % (one.name, one.type or "untyped"),
                hint="declare it as a tensor with a shape (its sizes may be open), or run the model without a file",
                shim=writer.name,
            )


def _where(error: OnnxCompatError, writer: Shim) -> Dict[str, Any]:
    return {"node": error.node, "operator": error.operator, "opset": error.opset, "shim": writer.name}


def _replace(made: str, target: str, scratch: str) -> None:
    """Put the finished thing in place; a folder that was there goes only when the new one stands."""
    if os.path.isdir(target):
        os.replace(target, os.path.join(scratch, "before"))
    os.replace(made, target)


def load_converted(path: Any, shim: Optional[str] = None) -> Tuple[Compiled, List[Port], List[Port], str]:
    """Load what `convert` wrote: the thing that runs, its inputs, its outputs, and the shim that runs it."""
    target = os.path.abspath(os.fspath(path))
    form = form_of_path(target)
    if not os.path.exists(target):
        raise ConversionError("there is no '%s'" % path)
    reader = _writer(form, shim)
    compiled, inputs, outputs = reader.load_converted(target, form)
    return compiled, list(inputs), list(outputs), reader.name

"""Writing a model in a framework's own file format."""

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from onnx_compat.conversion import port_layout
from onnx_compat.conversion.destinations import Destination, absolute_path, files_of
from onnx_compat.conversion.input_fixing import Shapes, fix_inputs
from onnx_compat.conversion.quantization import choose_quantization
from onnx_compat.discovery import selection
from onnx_compat.errors import ConversionError, NeedsKnownError, OnnxCompatError, ShimError, UnsupportedError
from onnx_compat.execution.plan import Specialisation, trace_model
from onnx_compat.execution.support import declared_forms
from onnx_compat.model import Graph, MapType, Model, TensorType, ValueInfo, load
from onnx_compat.passes import check_names, passes_of
from onnx_compat.shim.interface import Quantization, Shim, declared_natives
from onnx_compat.tracing.interpreter import Interpreter

if TYPE_CHECKING:
    from onnx_compat.conversion.bundle import Bundle
    from onnx_compat.verification.converted_file import Opened

__all__ = ["convert", "formats", "load_bundle", "load_converted", "writer_of"]

#: What writes a format that is known but not installed, for the message.
_WRITERS = {"tflite": "tflite", "keras": "keras", "saved_model": "tf2", "graphdef": "tf1"}
_BUNDLE = ".zip"
_ALLOW = "allow_fallback=True (--allow-fallback)"
_WHOLE = "take a model that the format can hold as a whole"
_SUFFIXES = {".tflite": "tflite", ".keras": "keras", ".pb": "graphdef", "": "saved_model"}


def formats(shim: Optional[str] = None) -> Dict[str, Tuple[str, str]]:
    """Format name -> (the shim that writes it here, what it is). With `shim`, only what that one writes."""
    found: Dict[str, Tuple[str, str]] = {}
    for name in [shim] if shim else selection.installed():
        try:
            offered = selection.find(name).formats
        except ShimError:
            if shim:
                raise
            continue
        for form, (_, description) in offered.items():
            if form not in found or not selection.probe(found[form][0]).available:
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
    found = selection.probe(name)
    if not found.available:
        hint = selection.hint(name) or "onnx-compat doctor tells what each shim needs"
        raise ShimError(found.reason, hint=hint, shim=name)
    return selection.find(name)


def writer_of(path: Any, shim: Optional[str] = None) -> Shim:
    """The shim that writes the format which the suffix of a path names."""
    return _writer(form_of_path(os.fspath(path)), shim)


def convert(
    model: Any,
    path: Any,
    to: Optional[str] = None,
    shim: Optional[str] = None,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
    allow_fallback: bool = False,
    quantize: Optional[str] = None,
    calibrate: Any = None,
    block_size: Optional[int] = None,
    channels_last: Sequence[str] = (),
    portable: bool = False,
    force: bool = False,
) -> Path:
    """Write a model as a file or folder of a framework.

    A conversion that fails leaves nothing behind, and what was at the path before stays as it was. No file that is read
    is overwritten. A folder is replaced if it is empty or a SavedModel.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        path: The path to write. Its suffix selects the format: .tflite, .keras, .pb; no suffix is a SavedModel folder.
        to: The format, if the suffix does not name it: "tflite", "keras", "saved_model" or "graphdef".
        shim: The shim that writes it. None selects the first installed shim that writes the format.
        shapes: Shapes of inputs in the file: {"image": (1, 3, 224, 224)}. None leaves a size as it is.
        values: Values in place of inputs, which the file then does not have: {"sampling_rate": 16000}.
        allow_fallback: Whether a model that the format cannot hold as a whole is written as a bundle, at this path with
            ".zip" appended. A path that ends in .zip asks for a bundle in any case.
        quantize: The kind of quantisation, if the format has it: "float16", "weights-int8", "weights-int4",
            "dynamic-int4", "dynamic", "int8" or "int16x8".
        calibrate: Representative data, for "int8" and "int16x8": see `onnx_compat.calibration`.
        block_size: The number of weights that share a scale, for "weights-int8", "weights-int4" and "dynamic-int4".
            None: the weights of an output channel share it.
        channels_last: Names of inputs and outputs that the file has as [N, H, W, C], where the model has [N, C, H, W].
            Calibration data keeps the layout of the model.
        portable: Whether a .tflite file is written for every runtime from 2.7 on. Such a file is larger and slower
            where only newer runtimes have a kernel.
        force: Whether any folder at the path is replaced, with every file in it. A folder that holds a file that is read,
            the current folder, a home folder and the folders around them are never replaced.

    Returns:
        The path that was written.

    Raises:
        ConversionError: The format cannot hold the model, or no installed shim writes it.
        UnsupportedError: A node cannot be written; the error names it and every other such node.
        ShimError: The shim that writes the format does not work here.
        InputError: An argument does not fit the model, or the folder of the path does not exist.

    Examples:
        >>> onnx_compat.convert("digits.onnx", "digits.tflite").name
        'digits.tflite'
        >>> onnx_compat.load_converted("digits.tflite").run([np.zeros((2, 1, 28, 28), np.float32)])["scores"].shape
        (2, 10)
    """
    from onnx_compat.calibration import paths_of

    target = absolute_path(path)
    bundled = target.endswith(_BUNDLE)
    form = form_of_path(target[: -len(_BUNDLE)] if bundled else target, to)
    writer = _writer(form, shim).portable() if portable else _writer(form, shim)
    if bundled and not allow_fallback:
        raise ConversionError("'%s' is a bundle, of parts and a fallback" % path, hint=_ALLOW + " writes one")
    check_names(passes_of(writer))
    own = not isinstance(model, Model)

    def read() -> Model:
        return fix_inputs(load(model), shapes, values) if shapes or values else load(model)

    def source() -> Model:
        """Load the model anew each time, as an export releases its weights; the first time it is already loaded."""
        return loaded.pop() if loaded else read()

    loaded = [read()]
    files = [*files_of(loaded[0]), *paths_of(calibrate)]
    how = choose_quantization(writer, form, source, quantize, calibrate, block_size)
    turned = port_layout.check_channels_last(source().graph, channels_last) if channels_last else ()
    if turned and how is not None:
        how = how._replace(samples=(port_layout.turned(one, turned, "last") for one in how.samples))
    alone = "is not quantised" if how is not None else "has the layout of the model" if turned else None
    if bundled and alone is not None:
        raise ConversionError("a bundle " + alone, hint=_WHOLE)
    folder = not bundled and writer.formats[form][0] == ""
    destination = bundle = Destination(target, files, folder, force)
    if allow_fallback and alone is None and not bundled:
        bundle = Destination(target + _BUNDLE, files)
    with destination.scratch() as scratch:
        made = os.path.join(scratch, os.path.basename(target))
        refusal = None if bundled else _attempt(source(), own, writer, made, form, turned)
        if refusal is not None and (alone is not None or not allow_fallback):
            raise _final(refusal, alone if allow_fallback else None, source(), writer) from refusal.__cause__
        if refusal is not None or bundled:
            destination = bundle
            made = _bundle(source(), writer, os.path.join(scratch, "bundle"), form)
        if how is not None:
            _quantize(writer, made, form, how)
        destination.put(made)
    return Path(destination.path)


def _attempt(
    model: Model, own: bool, writer: Shim, path: str, form: str, turned: Sequence[str]
) -> Optional[OnnxCompatError]:
    """Write the model as it is. What the format cannot hold is given back; any other failure is raised."""
    try:
        _refuse_open(model.graph, writer)
        _export(model, writer, path, form, own, turned)
    except NeedsKnownError as error:
        names = sorted(error.values | error.sizes)
        hint = "fix %s: `shapes` and `values` (--shape, --value) do that" % ", ".join(names) if names else error.hint
        refusal = ConversionError("a file cannot leave this open: " + error.reason, hint=hint, **_where(error, writer))
        refusal.__cause__ = error
        return refusal
    except (UnsupportedError, _OpenInputError) as error:
        return error.at(shim=writer.name)
    except OnnxCompatError as error:
        raise error.at(shim=writer.name) from error.__cause__
    return None


def _export(model: Model, writer: Shim, path: str, form: str, own: bool = False, turned: Sequence[str] = ()) -> None:
    emitter = writer.emitter()
    interpreter = Interpreter(declared_natives(emitter))
    program = trace_model(
        model,
        emitter,
        declared_forms(model.graph),
        Specialisation(channels_last=turned),
        interpreter,
        whole=True,
        own=own,
    ).program
    writer.export(program, path, form)


def _bundle(model: Model, writer: Shim, path: str, form: str) -> str:
    from onnx_compat.conversion import bundle

    try:
        bundle.write(model, writer, form, path, lambda model, made: _export(model, writer, made, form))
    except OnnxCompatError as error:
        raise error.at(shim=writer.name) from error.__cause__
    return path


def _final(refusal: OnnxCompatError, alone: Optional[str], model: Model, writer: Shim) -> OnnxCompatError:
    """`alone`: why a bundle, which was allowed, is none."""
    if alone is None:
        return _explained(refusal, model, writer)
    told = "a bundle %s, and this model needs one: %s" % (alone, refusal.reason)
    return ConversionError(told, hint=_WHOLE, **_where(refusal, writer))


def _explained(refusal: OnnxCompatError, model: Model, writer: Shim) -> OnnxCompatError:
    """The refusal, with every other node that would be refused too, and what to do about them all."""
    from onnx_compat.conversion.bundle import divide

    try:
        division = divide(model, writer)
    except OnnxCompatError:
        return refusal  # it is about more than nodes
    nodes = division.fallback
    others = [node for node in nodes if node.name != refusal.node]
    if others:
        lines = ["\n  '%s' (%s): %s" % (one.name, one.operator, division.reason(one).reason) for one in others]
        refusal.reason += "\nand so for %d other node%s:" % (len(others), "s" * (len(others) > 1)) + "".join(lines)
    if nodes and not division.impossible:
        hint = _ALLOW + " writes a bundle, which runs %s outside of the framework" % (
            "them" if len(nodes) > 1 else "this node"
        )
        refusal.hint = refusal.hint + "; or " + hint if refusal.hint else hint
    return refusal


class _OpenInputError(ConversionError):
    """An input has no form that a file could have."""


def _quantize(writer: Shim, path: str, form: str, how: Quantization) -> None:
    gc.collect()  # values and nodes know each other: the program that was written would keep its weights meanwhile
    try:
        writer.quantize(path, form, how)
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
            raise _OpenInputError(
                "a file cannot leave the form of the input '%s' open, which is %s" % (one.name, one.type or "untyped"),
                hint=_shaping(one),
                shim=writer.name,
            )


def _shaping(one: ValueInfo) -> str:
    if isinstance(one.type, TensorType) and one.type.dtype is not None:
        return "tell its shape: `shapes` (--shape %s=1,3,?,224; ? leaves a size open)" % one.name
    return "declare it as a tensor with a shape (its sizes may be open), or run the model without a file"


def _where(error: OnnxCompatError, writer: Shim) -> Dict[str, Any]:
    return {"node": error.node, "operator": error.operator, "opset": error.opset, "shim": writer.name}


def load_converted(path: Any, shim: Optional[str] = None, signature: Optional[str] = None) -> "Union[Opened, Bundle]":
    """Load a converted file or a bundle, to run it by `run`.

    Args:
        path: The path that `convert` or `join` wrote.
        shim: The shim that runs it. None selects the first that reads the format and works here.
        signature: The model to run, of a file that holds several (see `join`). None selects the first.

    Returns:
        An object with `inputs`, `outputs` and `run`, as those of a `Runnable`. A bundle also has `fallbacks` and
        `fallback_reasons`.

    Raises:
        InputError: There is no such file, or it has no such signature.
        ShimError: No shim here reads the file.

    Examples:
        >>> path = onnx_compat.convert("digits.onnx", "digits.tflite")
        >>> model = onnx_compat.load_converted(path)
        >>> model.inputs[0].name, model.run({"image": np.zeros((1, 1, 28, 28), np.float32)}).names
        ('image', ('scores',))
    """
    from onnx_compat.verification.converted_file import open_converted

    return open_converted(path, shim, signature)


def load_bundle(path: Any, shim: Optional[str] = None) -> "Bundle":
    """The same of a bundle."""
    from onnx_compat.conversion.bundle import Bundle

    return Bundle(path, lambda form: _writer(form, shim))

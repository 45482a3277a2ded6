"""Convert an ONNX model to a file of a framework, and load such a file: `convert`, `load_converted`, `load_bundle`."""

import difflib
import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Tuple, Union

from onnx_compat.boundary import typed_errors
from onnx_compat.conversion import port_layout
from onnx_compat.conversion.attempt import Emit, attempt_whole, emit_model, error_location
from onnx_compat.conversion.destinations import Destination, absolute_path, files_of
from onnx_compat.conversion.float64 import narrow_float64
from onnx_compat.conversion.input_fixing import Shapes, fix_inputs
from onnx_compat.conversion.onnx_options import OnnxOptions, check_onnx_options, reject_onnx_options
from onnx_compat.conversion.quantization import CalibrationData, choose_quantization
from onnx_compat.conversion.trial import try_written_file
from onnx_compat.discovery import selection
from onnx_compat.discovery.missing_shims import how_to_get
from onnx_compat.errors import ConversionError, OnnxCompatError, ShimError, UnsupportedError
from onnx_compat.model import Model, load
from onnx_compat.model.loading import ModelSource, StrPath
from onnx_compat.passes import check_names, passes_of
from onnx_compat.shim.forks import check_fork
from onnx_compat.shim.interface import Quantization, Shim

if TYPE_CHECKING:
    from onnx_compat.conversion.bundle import Bundle
    from onnx_compat.verification.converted_file import ConvertedFile
    from onnx_compat.verification.onnx_file import OnnxFile

__all__ = [
    "ONNX",
    "convert",
    "find_writer",
    "formats",
    "load_bundle",
    "load_converted",
    "writer_of",
    "writer_of_opset",
]

#: Format -> the shim that writes the format. The hint of an error for a format without writer says how to get it.
_WRITERS = {"tflite": "tflite", "keras": "keras", "saved_model": "tf2", "graphdef": "tf1"}
#: The format that the core writes itself, without a shim.
ONNX = "onnx"
_BUNDLE = ".zip"
_ALLOW_FALLBACK = "allow_fallback=True (--allow-fallback)"
_NARROW_HINT = "float64_as_float32=True (--float64-as-float32) computes with fewer digits"
_WHOLE_HINT = "take a model that the format can hold as a whole"
_NO_SUFFIX = "'%s' has no suffix, so it means a SavedModel folder. For a .tflite file write '%s.tflite'"
#: Suffixes that users write for a format -> its suffix.
_SIMILAR = {".tfl": ".tflite", ".lite": ".tflite", ".h5": ".keras", ".hdf5": ".keras", ".pbtxt": ".pb"}
_SUFFIXES = {".tflite": "tflite", ".keras": "keras", ".pb": "graphdef", ".onnx": ONNX, "": "saved_model"}


def formats(shim: Optional[str] = None) -> Dict[str, Tuple[str, str]]:
    """Return format name -> (name of the shim that writes the format, description of the format).

    `shim`: list only the formats of this shim. None: those of all installed shims that can be loaded. The shims of the
    core are then left out: "onnx" is missing, though `convert` writes it. The formats of a shim that does not work are
    listed too.

    If several shims write a format, the first that works is named. If none of them works, the last is named. Raises
    ShimError if `shim` cannot be loaded.
    """
    writers: Dict[str, Tuple[str, str]] = {}
    for name in [shim] if shim else selection.installed_shims():
        try:
            shim_formats = selection.find(name).formats
        except ShimError:
            if shim:
                raise
            continue
        for format_name, (_, description) in shim_formats.items():
            if format_name not in writers or not selection.probe(writers[format_name][0]).available:
                writers[format_name] = (name, description)
    return writers


def format_of_path(path: str, to: Optional[str] = None) -> str:
    """Return `to`, unchecked, if given; else the format of the path's suffix.

    ".tflite" -> "tflite", ".keras" -> "keras", ".pb" -> "graphdef", ".onnx" -> "onnx", no suffix -> "saved_model", in
    any case. Raises ConversionError for any other suffix.
    """
    if to is not None:
        return to
    suffix = os.path.splitext(path.rstrip("/\\"))[1].lower()
    if suffix not in _SUFFIXES:
        known = [known_suffix for known_suffix in _SUFFIXES if known_suffix]
        close = [_SIMILAR[suffix]] if suffix in _SIMILAR else difflib.get_close_matches(suffix, known, 1)
        hint = "name the format with `to` (--to): 'tflite', 'keras', 'saved_model', 'graphdef' or 'onnx'"
        raise ConversionError(
            "'%s' is no suffix of a format; the known suffixes are %s" % (suffix, ", ".join(map(repr, known))),
            hint="did you mean '%s'? If not, %s" % (close[0], hint) if close else hint,
        )
    return _SUFFIXES[suffix]


def find_writer(format_name: str, shim: Optional[str], hint: Optional[str] = None) -> Shim:
    """Return the shim that writes a format.

    `shim`: the only shim to consider; None: all installed. `hint`: put first in a ConversionError's hint.

    Raises ConversionError if no shim writes the format. Raises ShimError if the shim cannot be loaded or does not work.
    """
    writers = formats(shim)
    if format_name not in writers:
        extra = _WRITERS.get(format_name)
        raise ConversionError(
            "%s writes the format '%s'; the formats that can be written are: %s"
            % (
                "the shim " + shim + " never" if shim else "no installed shim",
                format_name,
                ", ".join(writers) or "none",
            ),
            hint="; or ".join(filter(None, (hint, how_to_get(extra) if extra and not shim else None))) or None,
        )
    name = writers[format_name][0]
    result = selection.probe(name)
    if not result.available:
        hint = selection.hint(name) or "`onnx-compat doctor` shows what each shim needs"
        raise ShimError(result.reason, hint=hint, shim=name)
    writer = selection.find(name)
    check_fork(writer)
    return writer


def writer_of(path: StrPath, shim: Optional[str] = None) -> Shim:
    """Return the shim that writes the format of the path's suffix, or raise ConversionError or ShimError."""
    return find_writer(format_of_path(os.fspath(path)), shim)


@typed_errors
def convert(
    model: ModelSource,
    path: StrPath,
    to: Optional[str] = None,
    shim: Optional[str] = None,
    shapes: Optional[Shapes] = None,
    values: Optional[Mapping[str, Any]] = None,
    allow_fallback: bool = False,
    quantize: Optional[str] = None,
    calibrate: CalibrationData = None,
    block_size: Optional[int] = None,
    channels_last: Sequence[str] = (),
    portable: bool = False,
    force: bool = False,
    input_type: Optional[str] = None,
    output_type: Optional[str] = None,
    float64_as_float32: bool = False,
    opset: Optional[int] = None,
    ir_version: Optional[int] = None,
    inline_functions: bool = False,
    external_data: Optional[str] = None,
    simplify: bool = False,
    verify: bool = True,
) -> Path:
    """Write a model as a file or folder of a framework, or as ONNX at another opset.

    A file at the path is replaced. A folder is replaced if it is empty or a SavedModel. No file that is read is
    overwritten. A conversion that fails leaves nothing behind, and what was at the path before stays as it was.

    A .tflite file is loaded before it is put there. If its operators check sizes only when they run, it is also run
    once: up to 4 MB, and with known sizes of the inputs.

    Args:
        model: A path, bytes, a ModelProto or a Model.
        path: The path to write. Its suffix selects the format: .tflite, .keras, .pb, .onnx; no suffix is a SavedModel
            folder.
        to: The format: "tflite", "keras", "saved_model", "graphdef" or "onnx". None: the format of the suffix.
        shim: The shim that writes it. None selects the first installed shim that works and writes the format. An .onnx
            file has the nodes of the model; with the shim "onnx" it has the traced program, for the installed
            onnxruntime or for `opset` and `ir_version`.
        shapes: Shapes of inputs in the file: {"image": (1, 3, 224, 224)}. None leaves a size as it is.
        values: Values in place of inputs, which the file then does not have: {"sampling_rate": 16000}.
        allow_fallback: Whether a model that the format cannot hold as a whole is written as a bundle, at this path with
            ".zip" appended. A path that ends in .zip always gives a bundle, and needs `allow_fallback`. A bundle can
            have neither `quantize` nor `channels_last`.
        quantize: The kind of quantisation, if the format has it: "float16", "weights-int8", "weights-int4",
            "dynamic-int4", "dynamic", "int8" or "int16x8".
        calibrate: Representative data, for "int8" and "int16x8": see `onnx_compat.calibration`.
        block_size: The number of weights that share a scale, for "weights-int8", "weights-int4" and "dynamic-int4".
            None: the weights of an output channel share it.
        channels_last: Names of inputs and outputs that the file has as [N, H, W, C], where the model has [N, C, H, W].
            Calibration data keeps the layout of the model.
        portable: Whether a .tflite file is written for every runtime from 2.7 on. Such a file is larger and slower
            where only newer runtimes have a kernel. Other formats cannot be portable.
        force: Whether any folder at the path is replaced, with every file in it. A folder that holds a file that is
            read, and a protected folder, are never replaced. Protected are the current folder, home folders, the
            folders around them, and the root of a file system.
        input_type: The type of inputs that are float32 in the model: "int8" or "uint8" for the kind "int8", "int16" for
            "int16x8". None: float32. The scale and zero point are in the file.
        output_type: The type of outputs, likewise.
        float64_as_float32: Whether float64 of the model becomes float32, also in inputs and outputs.
        opset: The version of ai.onnx in an .onnx file, from 7 on. None: that of the model.
        ir_version: The version of the file format of an .onnx file. None: it follows from the opset and the types.
        inline_functions: Whether functions of the model are inlined in an .onnx file. They are in any case where the
            format is too old for them.
        external_data: Where an .onnx file has its weights: a file name beside it, "safetensors" for a file of that
            format, or "keep" to use the data files of the source. None: inside, or in data files as the source has
            them.
        simplify: Whether an .onnx file is simplified.
        verify: Whether an .onnx file is run beside its source before it is put there.

    Returns:
        The path that was written.

    Raises:
        ConversionError: The format cannot hold the model or lacks an option, or no installed shim writes the format.
        UnsupportedError: A node cannot be written; the error names it and every other such node.
        InvalidModelError: The model is not valid.
        LimitError: The model exceeds a limit (see `onnx_compat.limits`).
        ShimError: The shim that writes the format cannot be loaded, or does not work here.
        InputError: An argument does not fit the model, or the path may not or cannot be written.

    Examples:
        >>> onnx_compat.convert("digits.onnx", "digits.tflite").name
        'digits.tflite'
        >>> onnx_compat.load_converted("digits.tflite").run([np.zeros((2, 1, 28, 28), np.float32)])["scores"].shape
        (2, 10)
    """
    onnx_options = OnnxOptions(opset, ir_version, inline_functions, external_data, simplify, verify)
    target = absolute_path(path)
    bundled = target.lower().endswith(_BUNDLE)
    file_format = format_of_path(target[: -len(_BUNDLE)] if bundled else target, to)
    if file_format == ONNX and shim != ONNX:
        check_onnx_options(
            bundled, shim=shim, allow_fallback=allow_fallback, quantize=quantize, calibrate=calibrate,
            block_size=block_size, channels_last=channels_last, portable=portable, force=force, input_type=input_type,
            output_type=output_type, float64_as_float32=float64_as_float32,
        )  # fmt: skip
        from onnx_compat.retarget.conversion import write_onnx

        return Path(write_onnx(model, path, onnx_options, shapes, values)[0])
    is_bare = to is None and file_format == "saved_model"
    hint = _NO_SUFFIX % (path, path) if is_bare else None
    writer = writer_of_opset(onnx_options, file_format) or find_writer(file_format, shim, hint)
    writer = writer.portable() if portable else writer
    if bundled and not allow_fallback:
        raise ConversionError("'%s' is a bundle, of parts and a fallback" % path, hint=_ALLOW_FALLBACK + " writes one")
    check_names(passes_of(writer))
    owns_model = not isinstance(model, Model)

    def load_fixed() -> Model:
        fixed = fix_inputs(load(model), shapes, values) if shapes or values else load(model)
        return narrow_float64(fixed) if float64_as_float32 else fixed

    def source() -> Model:
        """Return the model with its weights. The first call returns the loaded model.

        Each later call loads the model again, because an export releases the weights.
        """
        return loaded.pop() if loaded else load_fixed()

    loaded = [load_fixed()]
    files = [*files_of(loaded[0]), *_calibration_files(calibrate)]
    quantization = choose_quantization(
        writer, file_format, source, quantize, calibrate, block_size, input_type, output_type
    )
    channels_last_names = port_layout.check_channels_last(source().graph, channels_last) if channels_last else ()
    if channels_last_names and quantization is not None:
        quantization = quantization._replace(
            samples=(port_layout.move_channels(sample, channels_last_names, "last") for sample in quantization.samples)
        )
    no_bundle_reason = (
        "is not quantised"
        if quantization is not None
        else "has the layout of the model"
        if channels_last_names
        else None
    )
    if bundled and no_bundle_reason is not None:
        raise ConversionError("a bundle " + no_bundle_reason, hint=_WHOLE_HINT)
    writes_folder = not bundled and writer.formats[file_format][0] == ""
    destination = bundle = Destination(target, files, writes_folder, force)
    if allow_fallback and no_bundle_reason is None and not bundled:
        bundle = Destination(target + _BUNDLE, files)
    with destination.scratch() as scratch:
        result_path = os.path.join(scratch, os.path.basename(target))
        emit = _export_to(result_path, writer, file_format)
        refusal = None if bundled else attempt_whole(source(), writer, emit, owns_model, channels_last_names)
        if refusal is not None and (no_bundle_reason is not None or not allow_fallback):
            raise _final_error(
                refusal, no_bundle_reason if allow_fallback else None, source(), writer
            ) from refusal.__cause__
        if refusal is not None or bundled:
            destination = bundle
            result_path = _write_bundle(source(), writer, os.path.join(scratch, "bundle"), file_format)
        if quantization is not None:
            _quantize(writer, result_path, file_format, quantization)
        elif refusal is None and not bundled:
            try_written_file(writer, result_path, file_format, source)
        destination.put(result_path)
    return Path(destination.path)


def writer_of_opset(options: OnnxOptions, file_format: str) -> Optional[Shim]:
    """Return the writer of traced programs for an opset or IR version; None if neither is given.

    Raises ConversionError for an option that the file format does not have, and for a version that cannot be written.
    """
    versions = [name for name in options.given if file_format == ONNX and name in ("opset", "ir_version")]
    reject_onnx_options([name for name in options.given if name not in versions], file_format)
    if not versions:
        return None
    from onnx_compat.onnx_shim.writer import OpsetWriter

    return OpsetWriter(options.opset, options.ir_version)


def _calibration_files(data: CalibrationData) -> Sequence[str]:
    """Return the paths of the files that calibration data is read from; none for None."""
    if data is None:  # most conversions need no module of calibration
        return ()
    from onnx_compat.calibration import paths_of

    return paths_of(data)


def _export_to(path: str, writer: Shim, file_format: str) -> Emit:
    """Return a function that writes the program of a traced model to `path`."""
    return lambda traced: writer.export(traced.program, path, file_format)


def _write_bundle(model: Model, writer: Shim, path: str, file_format: str) -> str:
    """Write the model as a bundle to `path`, and return `path`.

    Raises the errors of `bundle.write`. An OnnxCompatError is raised with the name of `writer` as its shim.
    """
    from onnx_compat.conversion import bundle

    try:
        bundle.write(
            model,
            writer,
            file_format,
            path,
            lambda part, part_path: emit_model(part, writer, _export_to(part_path, writer, file_format)),
        )
    except OnnxCompatError as error:
        raise error.at(shim=writer.name) from error.__cause__
    return path


def _final_error(
    refusal: OnnxCompatError, no_bundle_reason: Optional[str], model: Model, writer: Shim
) -> OnnxCompatError:
    """Return the error to raise for a conversion that failed. `refusal`: the error of writing a single file.

    - `no_bundle_reason` is None: return `refusal`, with the other nodes that the format cannot hold added to its
      reason (see `_add_other_refusals`). If the reason names float64, `_NARROW_HINT` is added to the hint.
    - Otherwise: return a ConversionError whose reason begins with "a bundle <no_bundle_reason>".
    """
    if no_bundle_reason is None:
        if "float64" in refusal.reason:
            refusal.hint = "; or ".join(filter(None, (refusal.hint, _NARROW_HINT)))
        return _add_other_refusals(refusal, model, writer)
    reason = "a bundle %s, and this model needs a bundle: %s" % (no_bundle_reason, refusal.reason)
    return ConversionError(reason, hint=_WHOLE_HINT, **error_location(refusal, writer))


def _add_other_refusals(refusal: OnnxCompatError, model: Model, writer: Shim) -> OnnxCompatError:
    """Append every other node that the format cannot hold to the reason of `refusal`, in place. Return `refusal`.

    If the fallback may run all nodes that the format cannot hold, append the advice to allow a bundle to the hint of
    `refusal`. If the model cannot be divided into nodes for the format and others, nothing is appended.
    """
    from onnx_compat.conversion.bundle import divide

    refusals: Dict[str, OnnxCompatError] = {}
    if isinstance(refusal, UnsupportedError) and refusal.node is not None:
        refusals = {**refusal.other_errors, refusal.node: refusal}
    try:
        division = divide(model, writer, refusals)
    except OnnxCompatError:
        return refusal  # the cause is no single node
    nodes = division.fallback
    other_nodes = [node for node in nodes if node.name != refusal.node]
    if other_nodes:
        lines = ["\n  '%s' (%s): %s" % (node.name, node.operator, division.reason(node).reason) for node in other_nodes]
        plural = "s" * (len(other_nodes) > 1)
        refusal.reason += "\nthe format also cannot hold %d other node%s:" % (len(other_nodes), plural) + "".join(lines)
    if nodes and not division.impossible:
        hint = _ALLOW_FALLBACK + " writes a bundle, which runs %s outside of the framework" % (
            "them" if len(nodes) > 1 else "this node"
        )
        refusal.hint = refusal.hint + "; or " + hint if refusal.hint else hint
    return refusal


def _quantize(writer: Shim, path: str, file_format: str, quantization: Quantization) -> None:
    """Quantise the written file at `path`, in place.

    An OnnxCompatError is raised with the name of `writer` as its shim.
    """
    gc.collect()  # values and nodes form cycles: only the collector frees the weights of the written program
    try:
        writer.quantize(path, file_format, quantization)
    except OnnxCompatError as error:
        raise error.at(shim=writer.name) from error.__cause__


@typed_errors
def load_converted(
    path: StrPath, shim: Optional[str] = None, signature: Optional[str] = None
) -> "Union[ConvertedFile, Bundle, OnnxFile]":
    """Load a converted file or a bundle, to run it by `run`.

    A SavedModel and a `.pb` file are programs, which can read and write files: load them from trusted sources only.

    Args:
        path: The path that `convert` or `join` wrote.
        shim: The shim that runs it. None selects the first that reads the format and works here.
        signature: The model to run, of a file that holds several (see `join`). None selects the first.

    Returns:
        An object with `inputs`, `outputs` and `run`, as those of a `Runnable`. A bundle also has `fallbacks` and
        `fallback_reasons`.

    Raises:
        InputError: There is no such file, its content does not fit its suffix, or it has no such signature. Also if
            `signature` is given for a bundle.
        UnsupportedError: `signature` is given for a format whose files hold one model, or the runtime here cannot load
            the file.
        InvalidModelError: The file or the bundle is damaged.
        ConversionError: No installed shim has the format of a bundle's parts.
        ShimError: No shim here reads the file.

    Examples:
        >>> path = onnx_compat.convert("digits.onnx", "digits.tflite")
        >>> model = onnx_compat.load_converted(path)
        >>> model.inputs[0].name, model.run({"image": np.zeros((1, 1, 28, 28), np.float32)}).names
        ('image', ('scores',))
    """
    from onnx_compat.verification.converted_file import open_converted

    return open_converted(path, shim, signature)


@typed_errors
def load_bundle(path: StrPath, shim: Optional[str] = None) -> "Bundle":
    """Load a bundle; its method `run` computes the outputs.

    `shim`: the shim that runs the parts in a framework's format. None: the first that works and writes the format.

    - Raises InputError if the file cannot be read.
    - Raises InvalidModelError if the bundle is damaged.
    - Raises ConversionError if no shim writes the format of the parts.
    - Raises ShimError if the shim cannot be loaded or does not work.
    """
    from onnx_compat.conversion.bundle import Bundle

    return Bundle(path, lambda format_name: find_writer(format_name, shim))

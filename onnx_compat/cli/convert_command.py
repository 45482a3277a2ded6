"""`onnx-compat convert`: convert a model to a file of another framework."""

import os
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence, Union

import click

from onnx_compat.cli import onnx_options as onnx_format
from onnx_compat.cli import options, quantize_options
from onnx_compat.cli.exit_codes import NEGATIVE, OK
from onnx_compat.cli.output import emit, emit_json, table
from onnx_compat.cli.progress import working
from onnx_compat.cli.streams import output_file
from onnx_compat.cli.verify_command import show_report

if TYPE_CHECKING:
    from onnx_compat.passes.report import Entry
    from onnx_compat.verification import Report

__all__ = ["convert"]


@click.command()
@options.model
@click.argument("path", type=click.Path())
@click.option(
    "--to", type=click.Choice(options.FORMATS), help="The format. Default: the format that the suffix of PATH names."
)
@options.shim
@options.fixed_inputs
@options.channels_last
@click.option(
    "--allow-fallback",
    is_flag=True,
    help="If the format cannot hold every node, write a bundle, PATH.zip; the other nodes run in the fallback.",
)
@click.option("--force", is_flag=True, help="Replace a folder at PATH that is not a SavedModel, with every file in it.")
@quantize_options.options
@onnx_format.options
@options.float64_as_float32
@options.portable
@click.option("--explain", is_flag=True, help="List the passes, with the number of their rewrites.")
@click.option(
    "--verify/--no-verify", "check", default=None,
    help="Run the written file, and compare its outputs with those of onnxruntime. Default: an .onnx file is run beside"
    " MODEL, other files are not run.",
)  # fmt: skip
@options.page
@options.inputs
@options.tolerance
@options.limits
@options.machine
@click.pass_obj
def convert(
    settings: options.Settings,
    model: str,
    path: str,
    to: Optional[str],
    shim: Optional[str],
    shapes: options.Shapes,
    values: Dict[str, Any],
    channels_last: Sequence[str],
    allow_fallback: bool,
    force: bool,
    quantize: Optional[str],
    calibrate: quantize_options.Calibration,
    block_size: Optional[int],
    input_type: Optional[str],
    output_type: Optional[str],
    float64_as_float32: bool,
    portable: bool,
    onnx_options: Dict[str, Any],
    explain: bool,
    check: Optional[bool],
    page: Optional[str],
    inputs: Optional[str],
    seed: int,
    dims: Optional[Dict[str, int]],
    rtol: Optional[float],
    atol: Optional[float],
) -> int:
    """Convert MODEL to PATH: a .tflite, .keras, .pb or .onnx file, or a SavedModel folder.

    If the format cannot hold a node, the error names the node and the reason, and no file is written. With
    --allow-fallback, a bundle is written instead.

    The options for inputs and tolerance need --verify. --report implies --verify.
    """
    import onnx_compat
    from onnx_compat.conversion.bundle import SUFFIX, is_bundle
    from onnx_compat.conversion.convert import ONNX
    from onnx_compat.conversion.onnx_options import check_onnx_options
    from onnx_compat.passes import recording
    from onnx_compat.verification.html import write_html

    file_format = _check_suffix(path, to)
    if file_format == ONNX and shim != ONNX:
        check_onnx_options(
            is_bundle(path), shim=shim, allow_fallback=allow_fallback, quantize=quantize, calibrate=calibrate,
            block_size=block_size, channels_last=channels_last, portable=portable, force=force, input_type=input_type,
            output_type=output_type, float64_as_float32=float64_as_float32, explain=explain, report=page, inputs=inputs,
            dim=dims, rtol=rtol, atol=atol,
        )  # fmt: skip
        path = output_file(path, ".onnx" if to else None, settings.json, "PATH") or path
        return onnx_format.convert_to_onnx(model, path, onnx_options, check is not False, shapes, values, settings.json)
    onnx_format.reject_options(onnx_options, file_format)
    suffix = {"tflite": ".tflite", "keras": ".keras", "graphdef": ".pb", ONNX: ".onnx"}.get(to or "")
    path = output_file(path, suffix, settings.json, "PATH") or path
    if page is None and not check:
        _reject_unused_options({"--inputs": inputs, "--dim": dims, "--rtol": rtol, "--atol": atol})
    paths = [path, path + SUFFIX] if allow_fallback else [path]
    _check_paths(model, paths, page, [inputs, *settings.modules], calibrate)
    report: Optional[Report] = None
    with working("Converting %s" % model) as set_message, recording() as rewrites:
        start = time.perf_counter()
        written = Path(
            onnx_compat.convert(
                model, path, to=to, shim=shim, shapes=shapes, values=values, allow_fallback=allow_fallback,
                quantize=quantize, calibrate=calibrate, block_size=block_size, channels_last=channels_last,
                portable=portable, force=force, input_type=input_type, output_type=output_type,
                float64_as_float32=float64_as_float32, **onnx_options,
            )
        )  # fmt: skip
        seconds = time.perf_counter() - start
        entries = rewrites.entries  # before the verification, which may compile the model too
        if check or page is not None:
            set_message("Verifying %s" % written)
            feeds, notes = quantize_options.verification_inputs(model, inputs, dims, calibrate)
            if shapes or values:
                feeds = _verification_inputs(model, feeds, seed, dims, shapes, values)
            report = onnx_compat.verify(
                model, feeds, shim=shim, converted=written, rtol=rtol, atol=atol, seed=seed, dims=dims,
                layers=page is not None, channels_last=channels_last,
            )  # fmt: skip
            report.notes.extend(notes)
            if page is not None:
                write_html(page, report, model, written)
    size = _total_size(written)
    ok = report is None or report.ok
    parts = _bundle_document(written) if allow_fallback else None
    if settings.json:
        document = {"ok": ok, "path": str(written), "bytes": size, "seconds": round(seconds, 3)}
        document.update(quantize=quantize, notes=quantize_options.calibration_notes(calibrate))
        if parts is not None:
            document["bundle"] = parts
        document.update(_passes_document(entries) if explain else {})
        emit_json(dict(document, verification=None if report is None else report.to_dict()))
    else:
        emit("wrote %s (%s) in %.1f s" % (written, _format_size(size), seconds))
        notes = quantize_options.calibration_notes(calibrate)
        again = _layers_command(model, written, channels_last) if written.suffix == ".tflite" else None
        _show_result(entries if explain else [], notes, parts, report, page, again)
    return OK if ok else NEGATIVE


def _check_suffix(path: str, to: Optional[str]) -> str:
    """Return the format `to` if it is given, else that of the suffix of `path`: without a suffix, "saved_model".

    Of the path of a bundle, the suffix before that of bundles counts. Raises UsageError for an unknown suffix.
    """
    from onnx_compat.conversion.bundle import is_bundle
    from onnx_compat.conversion.convert import format_of_path
    from onnx_compat.errors import ConversionError

    try:
        return format_of_path(os.path.splitext(path)[0] if is_bundle(path) else path, to)
    except ConversionError as error:
        raise click.UsageError("%s\nhint: %s" % (error.reason, error.hint)) from error


def _check_paths(
    model: str,
    paths: Sequence[str],
    page: Optional[str],
    read: Sequence[Optional[str]],
    calibrate: quantize_options.Calibration,
) -> None:
    """Raise an InputError if the report or the converted file would overwrite a file that the command reads.

    - paths: the converted files that may be written. They are not compared with the model and the calibration data
      here, because `onnx_compat.convert` does so.
    - page: the path of the HTML report; None: no report is written.
    - read: the files of --inputs and --import; None for an absent option.

    InputError is also raised if the report cannot be written, or if the report and a converted file would overwrite
    each other. With a report, the model is loaded to find its files, and the errors of `load` are raised.
    """
    from onnx_compat import load
    from onnx_compat.calibration import paths_of
    from onnx_compat.conversion.destinations import Destination, check_not_read, files_of

    files = [file for source in read for file in files_of(source)]
    if page is not None:
        Destination(page, [load(model), *files, *paths_of(calibrate), *paths])
        files.append(page)
    for path in paths:
        check_not_read(path, files)


def _passes_document(entries: "Sequence[Entry]") -> Dict[str, Any]:
    """Return {"passes": [fields of each entry as a dict]}, in the order in which the passes ran."""
    return {"passes": [dict(entry._asdict()) for entry in entries]}


def _show_result(
    entries: "Sequence[Entry]",
    notes: Sequence[str],
    parts: Optional[Dict[str, Any]],
    report: "Optional[Report]",
    page: Optional[str],
    verify_again: Optional[str],
) -> None:
    """Print what `convert` did: passes, notes, parts of a bundle, verification, and the path of the HTML report.

    An empty or None argument prints nothing.

    - parts: the result of `_bundle_document`.
    - page: the path of the HTML report.
    - verify_again: a command. It is printed if the verification failed and its report has no layers.
    """
    if entries:
        rows = [(entry.name, "left out" if entry.left_out else str(entry.rewrites), entry.summary) for entry in entries]
        table(("pass", ">rewrites", "before => after"), rows)
    for note in notes:
        emit("note: " + note)
    if parts is not None:
        emit(_format_bundle(parts))
    if report is not None:
        show_report(report)
        if not report.ok and report.layers is None and verify_again is not None:
            emit("hint: %s names the first node that departs" % verify_again)
    if page is not None:
        emit("wrote %s" % page)


def _layers_command(model: str, written: Path, channels_last: Sequence[str]) -> str:
    """Return the command line `onnx-compat verify ... --layers` for the written file, quoted for a POSIX shell."""
    options_ = [word for name in channels_last for word in ("--channels-last", name)]
    words = ["onnx-compat", "verify", model, "--converted", str(written), *options_, "--layers"]
    return " ".join(map(shlex.quote, words))


def _reject_unused_options(options_of_verify: Mapping[str, Any]) -> None:
    """Raise a UsageError if an option has a value that is not None. Otherwise do nothing.

    `options_of_verify` maps the names of options to their values. The caller passes the options that only --verify
    uses, in a command without --verify.
    """
    unused = [name for name, value in options_of_verify.items() if value is not None]
    if unused:
        verb = "has" if len(unused) == 1 else "have"
        reason = "%s %s no effect without a verification: add --verify" % (" and ".join(unused), verb)
        raise click.UsageError(reason + ("; to fix a size in the file, use --shape" if "--dim" in unused else ""))


def _verification_inputs(
    model: str,
    inputs: Union[str, Dict[str, Any], None],
    seed: int,
    dims: Optional[Dict[str, int]],
    shapes: options.Shapes,
    values: Dict[str, Any],
) -> Dict[str, Any]:
    """Return {input name: array} to verify a file that was converted with --shape or --value.

    - inputs: a dict with the arrays, or the path of a .npz file with them. None: they are generated from `seed`, in the
      fixed shapes.
    - dims: name -> size, for the sizes that are still open in generated arrays.
    - values: input name -> fixed value. These inputs are in the result, because the original model still needs them.

    Raises InputError if the .npz file cannot be read, or if `shapes`, `values` or `dims` do not fit the model. Raises
    the other errors of `load` and `generate` too.
    """
    from onnx_compat import load
    from onnx_compat.conversion.input_fixing import fix_inputs
    from onnx_compat.verification.generate import generate
    from onnx_compat.verification.npz import load_npz

    fixed_model = fix_inputs(load(model), shapes, values)
    if inputs is None:
        feeds = generate(fixed_model.inputs, seed, dims)
    else:
        feeds = dict(load_npz(inputs) if isinstance(inputs, str) else inputs)
    feeds.update((name, fixed_model.graph.initializers[name].array()) for name in values)
    return feeds


def _bundle_document(path: Path) -> Optional[Dict[str, Any]]:
    """Return the parts and fallback nodes of a bundle as JSON values. Return None if the file is no bundle.

    The result is {"parts": [{"kind", "path", "nodes"}], "fallback": [{"node", "operator", "opset", "reason"}]}. The
    "nodes" of a part is a number.
    """
    from onnx_compat.conversion.bundle import is_bundle, read_manifest

    if not is_bundle(path):
        return None
    manifest = read_manifest(path)
    return {
        "parts": [{"kind": part.kind, "path": part.path, "nodes": part.nodes} for part in manifest.parts],
        "fallback": [dict(node._asdict()) for node in manifest.fallback],
    }


def _format_bundle(bundle: Dict[str, Any]) -> str:
    """Return a text for the result of `_bundle_document`: `a bundle of 2 tflite and 1 onnx; in the fallback:`.

    A line with name, operator and reason follows for each node in the fallback.
    """
    kinds = [part["kind"] for part in bundle["parts"]]
    counts = ["%d %s" % (kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    lines = ["  '%s' (%s): %s" % (node["node"], node["operator"], node["reason"]) for node in bundle["fallback"]]
    head = "a bundle of %s" % (" and ".join(counts) or "no parts")
    return "\n".join([head + ("; in the fallback:" if lines else ""), *lines])


def _total_size(path: Path) -> int:
    """Return the size in bytes of a file, or of all files in a folder together."""
    if path.is_file():
        return path.stat().st_size
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(str(path)) for name in names)


def _format_size(size: int) -> str:
    """Format a number of bytes in decimal units: `1.5 MB`, `2.0 kB` or `12 bytes`."""
    for unit, factor in (("MB", 1000000), ("kB", 1000)):
        if size >= factor:
            return "%.1f %s" % (size / factor, unit)
    return "%d bytes" % size

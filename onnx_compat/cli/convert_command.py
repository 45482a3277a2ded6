"""`onnx-compat convert`: a model into a file of another framework."""

import os
import time
from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Sequence

import click

from onnx_compat.cli import options, quantize_options
from onnx_compat.cli.exit_codes import NEGATIVE, OK
from onnx_compat.cli.output import emit, emit_json, table
from onnx_compat.cli.progress import working
from onnx_compat.cli.verify_command import show

__all__ = ["convert"]

FORMATS = ("tflite", "keras", "saved_model", "graphdef")


@click.command()
@options.model
@click.argument("path", type=click.Path())
@click.option("--to", type=click.Choice(FORMATS), help="The format. Default: what the suffix of PATH says.")
@options.shim
@options.settled
@options.channels_last
@click.option(
    "--allow-fallback",
    is_flag=True,
    help="If the format cannot hold all of it, write a bundle: PATH.zip, whose other parts run in the fallback.",
)
@click.option("--force", is_flag=True, help="Replace a folder at PATH that is no SavedModel, with all that is in it.")
@quantize_options.options
@options.portable
@click.option("--explain", is_flag=True, help="List what each pass rewrote, with counts.")
@click.option("--verify", "check", is_flag=True, help="Run the file afterwards and compare it with onnxruntime.")
@options.page
@options.inputs
@options.tolerance
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
    calibrate: Any,
    block_size: Optional[int],
    portable: bool,
    explain: bool,
    check: bool,
    page: Optional[str],
    inputs: Optional[str],
    seed: int,
    dims: Optional[Dict[str, int]],
    rtol: Optional[float],
    atol: Optional[float],
) -> int:
    """Convert MODEL to PATH: a .tflite, .keras or .pb file, or a SavedModel folder.

    If the format cannot hold a node, the error names it with the reason, and nothing is written. --allow-fallback writes a
    bundle then.

    The options for inputs and tolerance need --verify. --report implies --verify.
    """
    import onnx_compat
    from onnx_compat.conversion.bundle import SUFFIX
    from onnx_compat.passes import recording
    from onnx_compat.verification.html import write_html

    if page is None and not check:
        _refuse_idle({"--inputs": inputs, "--dim": dims, "--rtol": rtol, "--atol": atol})
    paths = [path, path + SUFFIX] if allow_fallback else [path]
    _check_paths(model, paths, page, [inputs, *settings.modules], calibrate)
    report: Any = None
    with working("Converting %s" % model) as now, recording() as rewrites:
        start = time.perf_counter()
        written = Path(
            onnx_compat.convert(
                model, path, to=to, shim=shim, shapes=shapes, values=values, allow_fallback=allow_fallback,
                quantize=quantize, calibrate=calibrate, block_size=block_size, channels_last=channels_last,
                portable=portable, force=force,
            )
        )  # fmt: skip
        seconds = time.perf_counter() - start
        entries = rewrites.entries  # before the verification, which may compile the model too
        if check or page is not None:
            now("Verifying %s" % written)
            fed, said = quantize_options.fed(model, inputs, dims, calibrate)
            if shapes or values:
                fed = _fed(model, fed, seed, dims, shapes, values)
            report = onnx_compat.verify(
                model, fed, shim=shim, converted=written, rtol=rtol, atol=atol, seed=seed, dims=dims,
                layers=page is not None, channels_last=channels_last,
            )  # fmt: skip
            report.notes.extend(said)
            if page is not None:
                write_html(page, report, model, written)
    size = _size(written)
    ok = report is None or report.ok
    parts = _parts(written) if allow_fallback else None
    if settings.json:
        document = {"ok": ok, "path": str(written), "bytes": size, "seconds": round(seconds, 3)}
        document.update(quantize=quantize, notes=quantize_options.notes(calibrate))
        if parts is not None:
            document["bundle"] = parts
        document.update(_rewrites(entries) if explain else {})
        emit_json(dict(document, verification=None if report is None else report.to_dict()))
    else:
        emit("wrote %s (%s) in %.1f s" % (written, _readable(size), seconds))
        _show(entries if explain else [], quantize_options.notes(calibrate), parts, report, page)
    return OK if ok else NEGATIVE


def _check_paths(
    model: str, paths: Sequence[str], page: Optional[str], read: Sequence[Optional[str]], calibrate: Any
) -> None:
    """Refuse what `convert` cannot know of: a file for --verify that would be overwritten, and a report in the way."""
    from onnx_compat import load
    from onnx_compat.calibration import paths_of
    from onnx_compat.conversion.destinations import Destination, check_not_read, files_of

    files = [file for source in read for file in files_of(source)]
    if page is not None:
        Destination(page, [load(model), *files, *paths_of(calibrate), *paths])
        files.append(page)
    for path in paths:
        check_not_read(path, files)


def _rewrites(entries: Sequence[Any]) -> Dict[str, Any]:
    """The passes in the order in which they ran, with the number of their rewrites."""
    return {"passes": [dict(entry._asdict()) for entry in entries]}


def _show(entries: Sequence[Any], notes: Sequence[str], parts: Any, report: Any, page: Optional[str]) -> None:
    """Print what is known of a conversion beside the path: what passes did, notes, the bundle, the verification."""
    if entries:
        rows = [(one.name, "left out" if one.left_out else str(one.rewrites), one.summary) for one in entries]
        table(("pass", ">rewrites", "before => after"), rows)
    for note in notes:
        emit("note: " + note)
    if parts is not None:
        emit(_described(parts))
    if report is not None:
        show(report)
    if page is not None:
        emit("wrote %s" % page)


def _refuse_idle(told: Mapping[str, Any]) -> None:
    """An option of --verify without it would do nothing, and somebody means something by it."""
    idle = [name for name, value in told.items() if value is not None]
    if idle:
        what = "%s tells how the file is verified: add --verify" % " and ".join(idle)
        raise click.UsageError(what + ("; --shape settles a size in the file" if "--dim" in idle else ""))


def _fed(
    model: str,
    inputs: Optional[str],
    seed: int,
    dims: Optional[Dict[str, int]],
    shapes: options.Shapes,
    values: Dict[str, Any],
) -> Dict[str, Any]:
    """What the model is fed beside a file that has these shapes and values in it."""
    from onnx_compat import load
    from onnx_compat.conversion.input_fixing import fix_inputs
    from onnx_compat.verification.generate import generate
    from onnx_compat.verification.npz import load_npz

    settled = fix_inputs(load(model), shapes, values)
    fed = generate(settled.inputs, seed, dims) if inputs is None else dict(load_npz(inputs))
    fed.update((name, settled.graph.initializers[name].array()) for name in values)
    return fed


def _parts(path: Path) -> Optional[Dict[str, Any]]:
    """What is in a bundle; None for any other file."""
    from onnx_compat.conversion.bundle import is_bundle, read_manifest

    if not is_bundle(path):
        return None
    manifest = read_manifest(path)
    return {
        "parts": [{"kind": part.kind, "path": part.path, "nodes": part.nodes} for part in manifest.parts],
        "fallback": [dict(one._asdict()) for one in manifest.fallback],
    }


def _described(bundle: Dict[str, Any]) -> str:
    kinds = [part["kind"] for part in bundle["parts"]]
    counts = ["%d %s" % (kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    lines = ["  '%s' (%s): %s" % (one["node"], one["operator"], one["reason"]) for one in bundle["fallback"]]
    head = "a bundle of %s" % (" and ".join(counts) or "no parts")
    return "\n".join([head + ("; in the fallback:" if lines else ""), *lines])


def _size(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    if path.is_file():
        return path.stat().st_size
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(str(path)) for name in names)


def _readable(size: int) -> str:
    for unit, factor in (("MB", 1000000), ("kB", 1000)):
        if size >= factor:
            return "%.1f %s" % (size / factor, unit)
    return "%d bytes" % size

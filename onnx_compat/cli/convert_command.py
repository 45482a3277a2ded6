"""`onnx-compat convert`: a model into a file of another framework."""

import os
import time
from pathlib import Path
from typing import Any, Dict, Optional

import click

from . import options
from .codes import NEGATIVE, OK
from .output import emit, emit_json
from .progress import working
from .verify_command import show

__all__ = ["convert"]

FORMATS = ("tflite", "keras", "saved_model", "graphdef")


@click.command()
@options.model
@click.argument("path", type=click.Path())
@click.option("--to", type=click.Choice(FORMATS), help="The format. Default: what the suffix of PATH says.")
@options.shim
@options.settled
@click.option("--verify", "check", is_flag=True, help="Run the file afterwards and compare it with onnxruntime.")
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
    check: bool,
    inputs: Optional[str],
    seed: int,
    dims: Optional[Dict[str, int]],
    rtol: float,
    atol: float,
) -> int:
    """Convert MODEL to PATH: a .tflite, .keras or .pb file, or a SavedModel folder.

    The options on inputs and tolerance belong to --verify.
    """
    import onnx_compat

    report: Any = None
    with working("Converting %s" % model) as now:
        start = time.perf_counter()
        written = Path(onnx_compat.convert(model, path, to=to, shim=shim, shapes=shapes, values=values))
        seconds = time.perf_counter() - start
        if check:
            now("Verifying %s" % written)
            fed: Any = {"inputs": inputs, "seed": seed, "dims": dims}
            if shapes or values:
                fed = {"inputs": _fed(model, inputs, seed, dims, shapes, values)}
            report = onnx_compat.verify(model, shim=shim, converted=written, rtol=rtol, atol=atol, **fed)
    size = _size(written)
    ok = report is None or report.ok
    if settings.json:
        document = {"ok": ok, "path": str(written), "bytes": size, "seconds": round(seconds, 3)}
        emit_json(dict(document, verification=None if report is None else report.to_dict()))
    else:
        emit("wrote %s (%s) in %.1f s" % (written, _readable(size), seconds))
        if report is not None:
            show(report)
    return OK if ok else NEGATIVE


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
    from onnx_compat.fixing import fixed
    from onnx_compat.verification.generate import generate
    from onnx_compat.verification.npz import load_npz

    settled = fixed(load(model), shapes, values)
    fed = generate(settled.inputs, seed, dims) if inputs is None else dict(load_npz(inputs))
    fed.update((name, settled.graph.initializers[name].array()) for name in values)
    return fed


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

"""`onnx-compat run`: a model on given or generated inputs."""

import math
import os
from typing import Any, Dict, Optional, Sequence, Tuple

import click

from onnx_compat.cli import options
from onnx_compat.cli.output import emit, emit_json, table, type_text
from onnx_compat.cli.progress import working

__all__ = ["run"]


@click.command()
@options.model
@options.inputs
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the outputs to this .npz file.")
@options.shim
@options.machine
@click.pass_obj
def run(
    settings: options.Settings,
    model: str,
    inputs: Optional[str],
    seed: int,
    dims: Optional[Dict[str, int]],
    output: Optional[str],
    shim: Optional[str],
) -> None:
    """Run MODEL and print a summary of its outputs. MODEL is an ONNX model or a converted file."""
    from onnx_compat.conversion.destinations import Destination
    from onnx_compat.verification import generate, load_npz, save_npz

    with working("Running %s" % model):
        source = _source(model)
        if output is not None:
            Destination(output, [source, inputs, *settings.modules])
        runnable, taken, given = _loaded(source, shim)
        fed = generate(taken, seed, dims) if inputs is None else load_npz(inputs)
        made = runnable.run(fed)
        outputs = {value.name: made[value.name] for value in given}
        if output is not None:
            save_npz(output, outputs)
    described = [_described(name, value) for name, value in outputs.items()]
    if settings.json:
        emit_json({"ok": True, "shim": runnable.shim, "output": output, "outputs": described})
        return
    table(
        ("output", "type", ">min", ">max", ">mean"),
        [
            [d["name"], type_text(d["dtype"], d["shape"])] + [_number(d[k]) for k in ("min", "max", "mean")]
            for d in described
        ],
    )
    emit("ran on shim %s%s" % (runnable.shim, "" if output is None else ", outputs in %s" % output))


def _source(path: str) -> Any:
    """Load an ONNX model. The path of a converted file, known by its suffix or by being a folder, is returned as it is."""
    import onnx_compat
    from onnx_compat.conversion.bundle import is_bundle

    if is_bundle(path) or os.path.isdir(path) or os.path.splitext(path)[1].lower() in (".tflite", ".keras"):
        return path
    return onnx_compat.load(path)


def _loaded(source: Any, shim: Optional[str]) -> Tuple[Any, Sequence[Any], Sequence[Any]]:
    """Prepare a model, or open a converted file. Return what runs, its inputs and its outputs."""
    import onnx_compat

    if isinstance(source, str):
        converted = onnx_compat.load_converted(source, shim=shim)
        return converted, converted.inputs, converted.outputs
    return onnx_compat.prepare(source, shim=shim), source.inputs, source.outputs


def _described(name: str, value: Any) -> Dict[str, Any]:
    """A tensor by its type and range; a sequence by its length."""
    import numpy as np

    none = {"min": None, "max": None, "mean": None}
    if value is None:
        return dict(none, name=name, dtype="none", shape=[])
    if isinstance(value, (list, tuple)):
        return dict(none, name=name, dtype="sequence", shape=[len(value)])
    array = np.asarray(value)
    dtype = "string" if array.dtype.kind in "OSU" else str(array.dtype)
    if dtype == "string" or not array.size or array.dtype.kind == "c":
        return dict(none, name=name, dtype=dtype, shape=list(array.shape))
    numbers = array.astype(np.float64)
    range_ = {key: _plain(getattr(numbers, key)()) for key in none}
    return dict(range_, name=name, dtype=dtype, shape=list(array.shape))


def _plain(value: Any) -> Any:
    """A number that JSON can write, else the word for it."""
    return float(value) if math.isfinite(value) else str(value)


def _number(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else "%.6g" % value

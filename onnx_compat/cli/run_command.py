"""`onnx-compat run`: run a model or a converted file on given or generated inputs."""

import math
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple, Union

import click

from onnx_compat.cli import options
from onnx_compat.cli.inspect_file import is_converted
from onnx_compat.cli.output import emit, emit_json, table, type_text
from onnx_compat.cli.progress import working
from onnx_compat.cli.streams import STREAM, output_file

if TYPE_CHECKING:
    from onnx_compat.model import Model, ValueInfo

__all__ = ["run"]


@click.command()
@options.model_or_file
@options.inputs
@click.option("--output", type=click.Path(dir_okay=False), metavar="FILE", help="Write the outputs to this .npz file.")
@options.shim
@options.limits
@options.signature
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
    signature: Optional[str],
) -> None:
    """Run MODEL and print a summary of its outputs. MODEL is an ONNX model or a converted file."""
    from onnx_compat.conversion.destinations import Destination
    from onnx_compat.verification import generate, save_npz
    from onnx_compat.verification.npz import load_inputs

    shown = "the standard output" if output == STREAM else output
    output = output_file(output, ".npz", settings.json, "--output")
    with working("Running %s" % model):
        source = _load_source(model)
        if output is not None:
            Destination(output, [source, inputs, *settings.modules])
        runnable, input_infos, output_infos = _open_runnable(source, shim, signature)
        names = [info.name for info in (input_infos if isinstance(source, str) else source.graph.required)]
        feeds = generate(input_infos, seed, dims) if inputs is None else load_inputs(inputs, names)
        results = runnable.run(feeds)
        outputs = {info.name: results[info.name] for info in output_infos}
        if output is not None:
            save_npz(output, outputs)
    summaries = [_summarize_value(name, value) for name, value in outputs.items()]
    if settings.json:
        emit_json({"ok": True, "shim": runnable.shim, "output": output, "outputs": summaries})
        return
    table(
        ("output", "type", ">min", ">max", ">mean"),
        [
            [summary["name"], type_text(summary["dtype"], summary["shape"])]
            + [_format_number(summary[key]) for key in ("min", "max", "mean")]
            for summary in summaries
        ],
    )
    emit("ran on shim %s%s" % (runnable.shim, "" if output is None else ", outputs in %s" % shown))


def _load_source(path: str) -> "Union[str, Model]":
    """Load an ONNX model and return it. Return `path` itself, unread, for a converted file.

    `is_converted` tells converted files.
    """
    import onnx_compat

    if is_converted(path):
        return path
    return onnx_compat.load(path)


def _open_runnable(
    source: "Union[str, Model]", shim: Optional[str], signature: Optional[str]
) -> "Tuple[Any, Sequence[ValueInfo], Sequence[ValueInfo]]":
    """Prepare a model, or open a converted file. Return (object with a method `run`, its inputs, its outputs).

    `source` is a Model, or the path of a converted file. Inputs of a model that have a default are not in the list of
    inputs. `shim`, `signature` None: the defaults of `prepare` and `load_converted`.

    Raises InputError for a signature of a Model. Raises the errors of `prepare` and `load_converted` too.
    """
    import onnx_compat
    from onnx_compat.errors import InputError

    if isinstance(source, str):
        converted = onnx_compat.load_converted(source, shim=shim, signature=signature)
        return converted, converted.inputs, converted.outputs
    if signature is not None:
        raise InputError("an ONNX model has no signatures", hint="leave --signature out")
    return onnx_compat.prepare(source, shim=shim), source.inputs, source.outputs


def _summarize_value(name: str, value: Any) -> Dict[str, Any]:
    """Return {"name", "dtype", "shape", "min", "max", "mean"} of an output value, as JSON values.

    `value`: an array, a list for a sequence, a dict for a map, or None for an empty optional.

    - A sequence: the dtype is "sequence", and the shape is [length].
    - A map: the dtype is "map", and the shape is [number of keys].
    - None: the dtype is "none", and the shape is [].
    - min, max and mean are None for these, and for strings, complex numbers and empty arrays.
    - NaN and infinity become texts.
    """
    import numpy as np

    none = {"min": None, "max": None, "mean": None}
    if value is None:
        return dict(none, name=name, dtype="none", shape=[])
    if isinstance(value, (list, tuple, dict)):
        return dict(none, name=name, dtype="map" if isinstance(value, dict) else "sequence", shape=[len(value)])
    array = np.asarray(value)
    dtype = "string" if array.dtype.kind in "OSU" else str(array.dtype)
    if dtype == "string" or not array.size or array.dtype.kind == "c":
        return dict(none, name=name, dtype=dtype, shape=list(array.shape))
    numbers = array.astype(np.float64)
    range_ = {key: _to_json_number(getattr(numbers, key)()) for key in none}
    return dict(range_, name=name, dtype=dtype, shape=list(array.shape))


def _to_json_number(value: float) -> Union[str, float]:
    """Return a finite number as a float. Return infinity and NaN as text ("inf", "nan"), because JSON lacks both."""
    return float(value) if math.isfinite(value) else str(value)


def _format_number(value: Union[str, float, None]) -> str:
    return "" if value is None else value if isinstance(value, str) else "%.6g" % value

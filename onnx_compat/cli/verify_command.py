"""`onnx-compat verify`: the outputs of a shim or of a converted file beside those of an oracle."""

from typing import Any, Dict, List, Optional

import click

from . import options
from .codes import NEGATIVE, OK
from .output import Cell, emit, emit_json, table, type_text
from .progress import working

__all__ = ["show", "verify"]


@click.command()
@options.model
@options.shim
@click.option(
    "--converted", type=click.Path(), metavar="FILE", help="Run this file, made from the model, in its place."
)
@click.option(
    "--oracle", metavar="NAME", help="`onnxruntime` or a shim. Default: onnxruntime if it can, else the reference."
)
@options.inputs
@options.tolerance
@options.machine
@click.pass_obj
def verify(
    settings: options.Settings,
    model: str,
    shim: Optional[str],
    converted: Optional[str],
    oracle: Optional[str],
    inputs: Optional[str],
    seed: int,
    dims: Optional[Dict[str, int]],
    rtol: float,
    atol: float,
) -> int:
    """Compare MODEL on a shim, or a file converted from it, with onnxruntime, output by output."""
    import onnx_compat

    with working("Verifying %s" % model):
        report = onnx_compat.verify(
            model, inputs, shim=shim, converted=converted, rtol=rtol, atol=atol, oracle=oracle, seed=seed, dims=dims
        )
    if settings.json:
        emit_json(report.to_dict())
    else:
        show(report)
    return OK if report.ok else NEGATIVE


def show(report: Any) -> None:
    """The report as a table, its notes and its verdict."""
    table(
        ("output", "type", ">max abs error", ">max rel error", ">mean abs error", ">differ", "first bad", "verdict"),
        [_row(output) for output in report.outputs],
    )
    for note in report.notes:
        emit("note: " + note)
    emit(report.summary)


def _row(output: Any) -> List[Any]:
    first = ""
    if output.first_bad_index is not None:
        where = ", ".join(map(str, output.first_bad_index))
        first = "[%s] %s, expected %s" % (where, output.got, output.expected)
    elif output.verdict in ("dtype", "shape", "kind"):
        first = "expected " + type_text(output.expected_dtype, output.expected_shape)
    errors = [
        "" if error is None else "%.3g" % error
        for error in (output.max_abs_error, output.max_rel_error, output.mean_abs_error)
    ]
    differ = "%d of %d" % (output.mismatched, output.size) if output.mismatched else ""
    verdict = Cell.verdict(output.verdict if output.ok else "wrong " + output.verdict, output.ok)
    if output.verdict == "mismatch":
        verdict = Cell.verdict("mismatch", False)
    return [output.name, type_text(output.dtype, output.shape), *errors, differ, first, verdict]

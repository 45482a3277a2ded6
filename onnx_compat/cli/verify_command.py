"""`onnx-compat verify`: compare the outputs of a shim, or of a converted file, with the outputs of an oracle."""

from typing import TYPE_CHECKING, Dict, List, Optional, Sequence, Union

import click

from onnx_compat.cli import options
from onnx_compat.cli.exit_codes import NEGATIVE, OK
from onnx_compat.cli.layers_table import show_layers
from onnx_compat.cli.output import Cell, emit, emit_json, table, type_text
from onnx_compat.cli.progress import working
from onnx_compat.cli.streams import input_file

if TYPE_CHECKING:
    from onnx_compat.verification import Comparison, Report

__all__ = ["show_report", "verify"]


@click.command()
@options.model
@options.shim
@click.option(
    "--converted",
    type=click.Path(),
    callback=input_file,
    metavar="FILE",
    help="Run this file, which was converted from MODEL, instead of MODEL.",
)
@options.signature
@options.channels_last
@click.option(
    "--oracle",
    metavar="NAME",
    help="`onnxruntime` or a shim. Default: onnxruntime; the reference if onnxruntime cannot run MODEL.",
)
@click.option("--layers", is_flag=True, help="Compare the outputs of every node, and name the first node that differs.")
@click.option(
    "--bisect-passes",
    is_flag=True,
    help="If outputs differ, convert again with fewer passes, and name the pass at fault.",
)
@options.page
@options.inputs
@options.tolerance
@options.limits
@options.machine
@click.pass_obj
def verify(
    settings: options.Settings,
    model: str,
    shim: Optional[str],
    converted: Optional[str],
    signature: Optional[str],
    channels_last: Sequence[str],
    oracle: Optional[str],
    layers: bool,
    bisect_passes: bool,
    page: Optional[str],
    inputs: Optional[str],
    seed: int,
    dims: Optional[Dict[str, int]],
    rtol: Optional[float],
    atol: Optional[float],
) -> int:
    """Compare MODEL on a shim, or a file converted from it, with onnxruntime, output by output."""
    import onnx_compat
    from onnx_compat.conversion.destinations import Destination
    from onnx_compat.errors import InputError
    from onnx_compat.verification.bisection import Bisection, bisect_verification
    from onnx_compat.verification.html import write_html

    if bisect_passes and signature is not None:
        raise InputError("a bisection converts one model, not the signature '%s'" % signature, hint="leave it out")
    if page is not None:
        Destination(page, [onnx_compat.load(model), converted, inputs, *settings.modules])
    with working("Verifying %s" % model):
        report = onnx_compat.verify(
            model,
            inputs,
            shim=shim,
            converted=converted,
            rtol=rtol,
            atol=atol,
            oracle=oracle,
            seed=seed,
            dims=dims,
            layers=layers or page is not None,
            channels_last=channels_last,
            signature=signature,
        )
        if page is not None:
            write_html(page, report, model, converted)
    bisection: Optional[Bisection] = None
    if bisect_passes and not report.ok:
        with working("Bisecting the passes of %s" % model):
            bisection = bisect_verification(
                model, converted, shim, channels_last,
                inputs=inputs, rtol=rtol, atol=atol, oracle=oracle, seed=seed, dims=dims,
            )  # fmt: skip
    if settings.json:
        document = report.to_dict()
        if bisect_passes:
            document["bisection"] = None if bisection is None else bisection.to_dict()
        emit_json(document)
    else:
        show_report(report)
        if (
            not report.ok
            and not bisect_passes
            and signature is None
            and (converted is None or converted.endswith(".tflite"))
        ):
            next_step = _next_step(report)
            if next_step is not None:
                emit("hint: run it again with " + next_step)
        if bisect_passes:
            emit(
                "passes: %s" % ("the outputs agree, so no pass is at fault" if bisection is None else bisection.verdict)
            )
        if page is not None:
            emit("wrote %s" % page)
    return OK if report.ok else NEGATIVE


def _next_step(report: "Report") -> Optional[str]:
    """Return the option to run a failed verification again with, and what that option finds, as text for the user.

    The option is --layers; if the report has layers already, --bisect-passes. Return None for a quantised file whose
    report has layers: a bisection converts without quantisation.
    """
    if report.layers is None:
        return "--layers, which names the first node that departs"
    return None if report.scheme is not None else "--bisect-passes, which names the pass at fault, if it is a pass"


def show_report(report: "Report") -> None:
    """Print a report: the layers if it has them, a table of the outputs, the notes and the summary.

    Before the notes, print an explanation of each output that failed, and of each output of a quantised file.
    """
    from onnx_compat.verification.report import explain

    if report.layers is not None:
        show_layers(report.layers)
    table(
        ("output", "type", ">max abs", ">max rel", ">mean abs", "verdict"),
        [_output_row(output) for output in report.outputs],
    )
    for output in report.outputs:
        if not output.ok or output.accuracy is not None:
            emit("%s: %s" % (output.name, explain(output)))
    for note in report.notes:
        emit("note: " + note)
    emit(report.summary)


def _output_row(output: "Comparison") -> List[Union[str, Cell]]:
    from onnx_compat.verification.compare import format_verdict

    errors = (output.max_abs_error, output.max_rel_error, output.mean_abs_error)
    figures = ["" if error is None else "%.3g" % error for error in errors]
    verdict = Cell.verdict(format_verdict(output), output.ok)
    return [output.name, type_text(output.dtype, output.shape), *figures, verdict]

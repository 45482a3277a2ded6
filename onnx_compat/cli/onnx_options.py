"""The options of `onnx-compat convert` for .onnx files, and the conversion to such a file."""

import functools
import os
import time
from typing import Any, Callable, Dict, List, TypeVar, cast

import click

from onnx_compat.cli.exit_codes import NEGATIVE, OK
from onnx_compat.cli.output import emit, emit_json
from onnx_compat.cli.progress import working

__all__ = ["convert_to_onnx", "options"]

_F = TypeVar("_F", bound=Callable[..., Any])
_NAMES = ("opset", "ir_version", "inline_functions", "external_data", "simplify", "dry_run")
_EXTERNAL = (
    "Where an .onnx file has its weights: the name of a file beside it, `safetensors` for a file of that format, or"
    " `keep` to use the data files of MODEL."
)


def options(command: _F) -> _F:
    """Add --opset, --ir-version, --inline-functions, --external-data, --simplify and --dry-run to a command.

    Return the command. Its function gets the argument `onnx_options`, a dict: option name -> value. Options that the
    user does not give are not in the dict.
    """

    @functools.wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in _NAMES}
        present = {name: value for name, value in given.items() if value not in (None, False)}
        return command(*args, onnx_options=present, **kwargs)

    flags: List[Any] = [
        click.option("--opset", type=int, metavar="N", help="The opset of an .onnx file. Default: that of MODEL."),
        click.option("--ir-version", type=int, metavar="N", help="The IR version. Default: it follows from the opset."),
        click.option("--inline-functions", is_flag=True, help="Inline the functions of MODEL in an .onnx file."),
        click.option("--external-data", metavar="FILE|safetensors|keep", help=_EXTERNAL),
        click.option("--simplify", is_flag=True, help="Simplify an .onnx file."),
        click.option("--dry-run", is_flag=True, help="List what becomes of each node in an .onnx file; write nothing."),
    ]
    decorated: Callable[..., Any] = with_options
    for option in reversed(flags):
        decorated = option(decorated)
    return cast(_F, decorated)


def convert_to_onnx(
    model: str, path: str, given: Dict[str, Any], verify: bool, shapes: Any, values: Any, json: bool
) -> int:
    """Write an .onnx file, or with the option `dry_run` only print the plan. Return the exit code.

    The exit code is NEGATIVE if the printed plan has a refused node, else OK. Raises the errors of `write_onnx`, or of
    `plan` with `dry_run`.

    - given: the argument `onnx_options` of `options`.
    - verify: whether the file is run beside the model.
    - shapes, values: as for `onnx_compat.convert`; the plan ignores them.
    - json: whether JSON is printed.
    """
    from onnx_compat.conversion.onnx_options import OnnxOptions
    from onnx_compat.retarget.conversion import plan, write_onnx

    chosen = dict(given)
    if chosen.pop("dry_run", False):
        known = {name: value for name, value in chosen.items() if name in ("opset", "ir_version", "inline_functions")}
        with working("Reading %s" % model):
            result = plan(model, **known)
        if json:
            emit_json(dict(result.to_dict(), ok=result.first_refusal is None))
        else:
            emit(str(result))
        return OK if result.first_refusal is None else NEGATIVE
    with working("Converting %s" % model):
        start = time.perf_counter()
        written, result = write_onnx(model, path, OnnxOptions(verify=verify, **chosen), shapes, values)
        seconds = time.perf_counter() - start
    size = os.path.getsize(written)
    if json:
        document = {"ok": True, "path": written, "bytes": size, "seconds": round(seconds, 3)}
        emit_json(dict(document, plan=result.to_dict()))
    else:
        counts = ", ".join("%d %s" % (count, outcome) for outcome, count in result.counts.items() if count)
        emit("wrote %s (%d bytes) in %.1f s: %s" % (written, size, seconds, counts or "no nodes"))
        for note in result.notes:
            emit("note: " + note)
    return OK

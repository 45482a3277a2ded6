"""The options of `onnx-compat convert` for .onnx files, and the conversion to such a file."""

import functools
import os
import time
from typing import Any, Callable, Dict, Iterable, TypeVar, cast

import click

from onnx_compat.cli.exit_codes import NEGATIVE, OK
from onnx_compat.cli.output import emit, emit_json
from onnx_compat.cli.progress import working

__all__ = ["convert_to_onnx", "node_options", "options", "reject_options"]

_F = TypeVar("_F", bound=Callable[..., Any])
_EXTERNAL = (
    "Where an .onnx file has its weights: the name of a file beside it, `safetensors` for a file of that format, or"
    " `keep` to use the data files of MODEL."
)
#: Option name -> the decorator that adds it to a command.
_FLAGS: Dict[str, Any] = {
    "opset": click.option("--opset", type=int, metavar="N", help="The opset of an .onnx file. Default: that of MODEL."),
    "ir_version": click.option(
        "--ir-version", type=int, metavar="N", help="The IR version. Default: it follows from the opset."
    ),
    "inline_functions": click.option(
        "--inline-functions", is_flag=True, help="Inline the functions of MODEL in an .onnx file."
    ),
    "external_data": click.option("--external-data", metavar="FILE|safetensors|keep", help=_EXTERNAL),
    "simplify": click.option("--simplify", is_flag=True, help="Simplify an .onnx file."),
    "dry_run": click.option(
        "--dry-run", is_flag=True, help="List what becomes of each node in an .onnx file; write nothing."
    ),
}


def options(command: _F) -> _F:
    """Add --opset, --ir-version, --inline-functions, --external-data, --simplify and --dry-run to a command.

    Return the command. Its function gets the argument `onnx_options`, a dict: option name -> value. Options that the
    user does not give are not in the dict.
    """
    return _decorate(command, _FLAGS)


def node_options(command: _F) -> _F:
    """Add those options of `options` to a command that change the nodes of the file. Return the command as `options`."""
    return _decorate(command, [name for name in _FLAGS if name not in ("external_data", "dry_run")])


def _decorate(command: _F, names: Iterable[str]) -> _F:
    @functools.wraps(command)
    def with_options(*args: Any, **kwargs: Any) -> Any:
        given = {name: kwargs.pop(name) for name in names}
        present = {name: value for name, value in given.items() if value is not None and value is not False}
        return command(*args, onnx_options=present, **kwargs)

    decorated: Callable[..., Any] = with_options
    for name in reversed(list(names)):
        decorated = _FLAGS[name](decorated)
    return cast(_F, decorated)


def reject_options(given: Dict[str, Any], file_format: str) -> None:
    """Raise a UsageError for an option that a file of a framework, or of a traced program, does not have.

    `given`: the argument `onnx_options` of `options`. `file_format`: the format; "onnx" for a traced program.
    """
    from onnx_compat.conversion.convert import ONNX

    rejected = [name for name in given if file_format != ONNX or name not in ("opset", "ir_version")]
    if rejected:
        option = "--" + rejected[0].replace("_", "-")
        text = "%s is for .onnx files: leave it out, or name this format (a PATH that ends in .onnx, --to onnx)"
        if file_format == ONNX:
            text = "%s is for the nodes of MODEL: leave it out, or leave out --shim onnx"
        raise click.UsageError(text % option)


def convert_to_onnx(
    model: str, path: str, given: Dict[str, Any], verify: bool, shapes: Any, values: Any, json: bool
) -> int:
    """Write an .onnx file, or with the option `dry_run` only print the plan. Return the exit code.

    The exit code is NEGATIVE if the printed plan has a refused node, else OK. Raises the errors of `write_onnx`,
    with `dry_run` too.

    - given: the argument `onnx_options` of `options`.
    - verify: whether the file is run beside the model.
    - shapes, values: as for `onnx_compat.convert`.
    - json: whether JSON is printed.
    """
    from onnx_compat.conversion.onnx_options import OnnxOptions
    from onnx_compat.retarget.conversion import prepare, write_onnx

    chosen = dict(given)
    is_dry = chosen.pop("dry_run", False)
    onnx_options = OnnxOptions(verify=verify, **chosen)
    if is_dry:
        with working("Reading %s" % model):
            result = prepare(model, path, onnx_options, shapes, values).plan
        if json:
            emit_json(dict(result.to_dict(), ok=result.first_refusal is None))
        else:
            emit(str(result))
        return OK if result.first_refusal is None else NEGATIVE
    with working("Converting %s" % model):
        start = time.perf_counter()
        written, result = write_onnx(model, path, onnx_options, shapes, values)
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

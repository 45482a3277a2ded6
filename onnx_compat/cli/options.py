"""Arguments and options that several commands share."""

import importlib
import json
import math
import re
import sys
from contextlib import ExitStack
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import click

from onnx_compat.cli.streams import input_file

__all__ = [
    "Settings",
    "Shapes",
    "channels_last",
    "fixed_inputs",
    "inputs",
    "limits",
    "machine",
    "model",
    "model_or_file",
    "page",
    "parse_values",
    "portable",
    "shim",
    "signature",
    "tolerance",
]  # fmt: skip

_F = TypeVar("_F", bound=Callable[..., Any])
#: The seeds that numpy accepts.
_SEED = click.IntRange(0, 2**32 - 1)
Shapes = Dict[str, Tuple[Optional[int], ...]]


class Settings:
    """Values of --json, --debug and --import, which every command has.

    click sets them before the command starts, so that the error handler knows them.
    """

    def __init__(self) -> None:
        self.json = False
        self.debug = False
        #: The files of the modules that --import names. No command may overwrite them.
        self.modules: List[str] = []


def _store_setting(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Set `Settings.json` or `Settings.debug` if `value` is True: if the flag is given."""
    settings = ctx.ensure_object(Settings)
    if value and param.name:
        setattr(settings, param.name, True)


def _import_modules(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> None:
    """Import the modules that --import names, and append their files to `Settings.modules`.

    If a module is named, the current folder becomes the first entry of `sys.path`. Raise BadParameter if an import
    fails.
    """
    if value:
        sys.path.insert(0, "")  # as `python -m` does: the module may be in the current folder
    for name in value:
        try:
            file = getattr(importlib.import_module(name), "__file__", None)
        except Exception as error:  # the module is the user's, and may raise anything
            text = "%s: %s: %s" % (name, type(error).__name__, error)
            raise click.BadParameter(text, ctx=ctx, param=param) from error
        if file:
            ctx.ensure_object(Settings).modules.append(file)


def machine(command: _F) -> _F:
    """Decorate a command with --import, --json and --debug. The command gets no argument: `Settings` has the values."""
    command = click.option(
        "--import", "modules", multiple=True, metavar="MODULE", is_eager=True, expose_value=False, callback=_import_modules,
        help="Import this module first, to register custom operators. Repeatable.",
    )(command)  # fmt: skip
    for flag, text in (
        ("--debug", "Show the traceback of an error."),
        ("--json", "Print a JSON document, and nothing else, to standard output."),
    ):
        command = click.option(
            flag, is_flag=True, is_eager=True, expose_value=False, callback=_store_setting, help=text
        )(command)
    return command


def _is_size(text: str) -> bool:
    """Whether a text is a size: decimal digits of ASCII, below 2**63. `str.isdigit` accepts "²" too."""
    return re.fullmatch(r"[0-9]{1,19}", text) is not None and int(text) < 2**63


def _parse_sizes(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> Optional[Dict[str, int]]:
    """Parse texts NAME=SIZE to a dict. A size is an integer >= 0. Return None if there is no text.

    Raise BadParameter for a text of another form. Of equal names, the last counts.
    """
    sizes = {}
    for text in value:
        name, _, size = text.rpartition("=")
        if not name or not _is_size(size):
            raise click.BadParameter("%r is not of the form NAME=SIZE, as in batch=2" % text, ctx=ctx, param=param)
        sizes[name] = int(size)
    return sizes or None


def _parse_shapes(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> Shapes:
    """Parse texts NAME=SIZE,SIZE to a dict of tuples: `x=1,?` -> {"x": (1, None)}.

    NAME= gives the empty tuple of a scalar. Of equal names, the last counts. Raise BadParameter for a text of another
    form.
    """
    shapes: Shapes = {}
    for text in value:
        name, _, sizes = text.rpartition("=")
        size_texts = [size.strip() for size in sizes.split(",")] if sizes else []
        if not name or not all(size == "?" or _is_size(size) for size in size_texts):
            raise click.BadParameter("%r is not of the form NAME=SIZE,SIZE, as in image=1,3,?,224" % text, ctx, param)
        shapes[name] = tuple(None if size == "?" else int(size) for size in size_texts)
    return shapes


def parse_values(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> Dict[str, Any]:
    """Parse texts NAME=VALUE to a dict name -> value. Each VALUE is JSON, such as a number, a bool or a list.

    The last "=" ends the name. Of two equal names, the last counts. Raises BadParameter if a VALUE is no JSON, or if a
    NAME is empty.
    """
    values = {}
    for text in value:
        name, _, number = text.rpartition("=")
        try:
            values[name] = json.loads(number)
        except ValueError:
            name = ""
        if not name:
            raise click.BadParameter("%r is not of the form NAME=VALUE, as in rate=16000" % text, ctx, param)
    return values


def fixed_inputs(command: _F) -> _F:
    """Decorate a command with --shape and --value, which fix shapes and values of inputs.

    The command gets the arguments `shapes` and `values`: dicts from the name of an input.
    """
    command = click.option(
        "--value", "values", multiple=True, metavar="NAME=VALUE", callback=parse_values,
        help="Replace this input by a constant. Repeatable.",
    )(command)  # fmt: skip
    return click.option(
        "--shape", "shapes", multiple=True, metavar="NAME=SIZE,SIZE", callback=_parse_shapes,
        help="Fix the shape of this input; ? leaves a size open. Repeatable.",
    )(command)  # fmt: skip


#: The formats of `convert`.
FORMATS = ("tflite", "keras", "saved_model", "graphdef", "onnx")

float64_as_float32 = click.option(
    "--float64-as-float32", is_flag=True, help="Convert float64 to float32, for formats without operators on float64."
)

channels_last = click.option(
    "--channels-last", "channels_last", multiple=True, metavar="NAME",
    help="This input or output has its channels last in the file, as [N, H, W, C]. Repeatable.",
)  # fmt: skip


def inputs(command: _F) -> _F:
    """Decorate a command with --inputs, and with --seed and --dim for generated inputs.

    The command gets the arguments `inputs` (a path or None), `seed` and `dims`.
    """
    command = click.option(
        "--dim", "dims", multiple=True, metavar="NAME=SIZE", callback=_parse_sizes,
        help="Size of an open dimension, for generated inputs. Repeatable.",
    )(command)  # fmt: skip
    command = click.option(
        "--seed", type=_SEED, default=0, show_default=True, metavar="INTEGER", help="Seed of the generated inputs."
    )(command)
    return click.option(
        "--inputs",
        type=click.Path(dir_okay=False),
        callback=input_file,
        help="A .npz file with an array for each input. Default: generated inputs.",
    )(command)


def _check_tolerance(ctx: click.Context, param: click.Parameter, value: Optional[float]) -> Optional[float]:
    """Return the value, which is None or a finite number >= 0. Raise BadParameter for another number."""
    if value is not None and not (value >= 0 and math.isfinite(value)):
        raise click.BadParameter("%s is not a finite number from 0 on" % value, ctx, param)
    return value


def tolerance(command: _F) -> _F:
    """Decorate a command with --rtol and --atol. The command gets the arguments `rtol` and `atol`: a float or None."""
    for name, kind in (("atol", "absolute"), ("rtol", "relative")):
        text = "The %s tolerance: |got - expected| <= atol + rtol * |expected|. Default: 0.001. " % kind
        text += "Without --rtol and --atol, a quantised file or model is judged by its signal-to-noise ratio."
        command = click.option("--" + name, type=float, callback=_check_tolerance, help=text)(command)
    return command


def _override_limits(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> None:
    """Set limits (`onnx_compat.limits`) from texts NAME=VALUE until the command ends.

    Raise BadParameter for a wrong text.
    """
    from onnx_compat import limits
    from onnx_compat.errors import InputError

    values = dict(text.partition("=")[::2] for text in value)
    stack = ExitStack()
    try:
        stack.enter_context(limits.override(**values))
    except InputError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from error
    ctx.call_on_close(stack.close)


limits = click.option(
    "--limit", "limits", multiple=True, metavar="NAME=VALUE", is_eager=True, expose_value=False,
    callback=_override_limits, help="Set a limit on what a model may cost. Repeatable.",
)  # fmt: skip
model = click.argument("model", type=click.Path(), callback=input_file)
#: An ONNX model or a converted file.
model_or_file = click.argument("model", type=click.Path(), metavar="MODEL", callback=input_file)
page = click.option(
    "--report", "page", type=click.Path(), metavar="FILE",
    help="Write an HTML report of the verification, layer by layer.",
)  # fmt: skip
portable = click.option(
    "--portable",
    is_flag=True,
    help="Write a .tflite file for every runtime from 2.7 on, not only for the installed one.",
)
shim = click.option(
    "--shim", metavar="NAME", help="The shim to use; `onnx-compat doctor` lists them. Default: the first that works."
)
signature = click.option(
    "--signature", metavar="NAME", help="The model to run, of a file that holds several (`join`). Default: the first."
)

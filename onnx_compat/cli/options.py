"""Arguments and options that several commands share."""

import importlib
import json
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple, TypeVar

import click

__all__ = [
    "Settings", "Shapes", "channels_last", "inputs", "machine", "model", "page", "portable", "settled", "shim", "tolerance",
]  # fmt: skip

_F = TypeVar("_F", bound=Callable[..., Any])
Shapes = Dict[str, Tuple[Optional[int], ...]]


class Settings:
    """What holds for a command whatever it does; known before it starts, and still known when it fails."""

    def __init__(self) -> None:
        self.json = False
        self.debug = False
        #: The files of the modules that --import names: they are read, so that they are not overwritten.
        self.modules: List[str] = []


def _setting(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    settings = ctx.ensure_object(Settings)
    if value and param.name:
        setattr(settings, param.name, True)


def _imported(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> None:
    if value:
        sys.path.insert(0, "")  # as `python -m` does: the module may stand beside the model
    for name in value:
        try:
            file = getattr(importlib.import_module(name), "__file__", None)
        except ImportError as error:
            raise click.BadParameter("%s: %s" % (name, error), ctx=ctx, param=param) from error
        if file:
            ctx.ensure_object(Settings).modules.append(file)


def machine(command: _F) -> _F:
    """--import, --json and --debug. The command finds the latter two in `Settings`."""
    command = click.option(
        "--import", "modules", multiple=True, metavar="MODULE", is_eager=True, expose_value=False, callback=_imported,
        help="Import this first: a module that registers operators of your own. Repeatable.",
    )(command)  # fmt: skip
    for flag, text in (
        ("--debug", "Show the traceback of an error."),
        ("--json", "Print one JSON document, for machines; nothing else goes to standard output."),
    ):
        command = click.option(flag, is_flag=True, is_eager=True, expose_value=False, callback=_setting, help=text)(
            command
        )
    return command


def _sizes(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> Optional[Dict[str, int]]:
    sizes = {}
    for text in value:
        name, _, size = text.rpartition("=")
        if not name or not size.isdigit():
            raise click.BadParameter("%r is not of the form NAME=SIZE, as in batch=2" % text, ctx=ctx, param=param)
        sizes[name] = int(size)
    return sizes or None


def _shapes(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> Shapes:
    shapes: Shapes = {}
    for text in value:
        name, _, sizes = text.rpartition("=")
        told = [size.strip() for size in sizes.split(",")] if sizes else []
        if not name or not all(size == "?" or size.isdigit() for size in told):
            raise click.BadParameter("%r is not of the form NAME=SIZE,SIZE, as in image=1,3,?,224" % text, ctx, param)
        shapes[name] = tuple(None if size == "?" else int(size) for size in told)
    return shapes


def _values(ctx: click.Context, param: click.Parameter, value: Tuple[str, ...]) -> Dict[str, Any]:
    """Numbers, bools and lists of such as JSON writes them."""
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


def settled(command: _F) -> _F:
    """--shape and --value: what a file has settled."""
    command = click.option(
        "--value", "values", multiple=True, metavar="NAME=VALUE", callback=_values,
        help="A value that the file has in place of this input. Repeatable.",
    )(command)  # fmt: skip
    return click.option(
        "--shape", "shapes", multiple=True, metavar="NAME=SIZE,SIZE", callback=_shapes,
        help="The shape of this input in the file; ? leaves a size open. Repeatable.",
    )(command)  # fmt: skip


channels_last = click.option(
    "--channels-last", "channels_last", multiple=True, metavar="NAME",
    help="The file has the channels of this input or output last, as in [N, H, W, C]. Repeatable.",
)  # fmt: skip


def inputs(command: _F) -> _F:
    """--inputs, or --seed and --dim for generated ones."""
    command = click.option(
        "--dim", "dims", multiple=True, metavar="NAME=SIZE", callback=_sizes,
        help="Size of a dimension that the model leaves open, for generated inputs. Repeatable.",
    )(command)  # fmt: skip
    command = click.option("--seed", default=0, show_default=True, help="Seed of the generated inputs.")(command)
    return click.option(
        "--inputs",
        type=click.Path(dir_okay=False),
        help="A .npz file with an array per input; else they are generated.",
    )(command)


def tolerance(command: _F) -> _F:
    """--rtol and --atol."""
    for name, what in (("atol", "absolute"), ("rtol", "relative")):
        text = "The %s tolerance: |got - expected| <= atol + rtol * |expected|. Default: 0.001; " % what
        text += "without any, a quantised file is judged by its accuracy."
        command = click.option("--" + name, type=float, help=text)(command)
    return command


model = click.argument("model", type=click.Path())
page = click.option(
    "--report", "page", type=click.Path(), metavar="FILE",
    help="Write a page (HTML) of what was verified, layer by layer.",
)  # fmt: skip
portable = click.option(
    "--portable", is_flag=True, help="A .tflite file for every runtime from 2.7 on, not just for the one here."
)
shim = click.option(
    "--shim", metavar="NAME", help="The shim to use; `onnx-compat doctor` lists them. Default: the best here."
)

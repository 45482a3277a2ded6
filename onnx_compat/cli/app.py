"""The group of commands, and the one place where an error becomes text and an exit code."""

import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional, Sequence

import click

from onnx_compat import __version__
from onnx_compat.cli.convert_command import convert
from onnx_compat.cli.doctor_command import doctor
from onnx_compat.cli.exit_codes import CODES, INTERNAL, INTERRUPTED, OK, code_of
from onnx_compat.cli.inspect_command import inspect
from onnx_compat.cli.join_command import join
from onnx_compat.cli.options import Settings
from onnx_compat.cli.output import emit_json
from onnx_compat.cli.run_command import run as run_command
from onnx_compat.cli.support_command import support
from onnx_compat.cli.verify_command import verify
from onnx_compat.errors import OnnxCompatError

__all__ = ["cli", "run"]

_EPILOG = "\b\nExit codes:\n" + "\n".join("  %3d  %s" % code for code in CODES)

#: What keeps frameworks from chatting on standard error. What the user has set stays.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}


class _Group(click.Group):
    def list_commands(self, ctx: click.Context) -> Any:
        return list(self.commands)  # in the order in which they are mostly needed, not of the alphabet


@click.group(
    cls=_Group, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Run ONNX models on the frameworks of the TensorFlow family, and convert models to their formats."""


for _command in (convert, run_command, verify, support, inspect, join, doctor):
    cli.add_command(_command)


def run(arguments: Optional[Sequence[str]] = None) -> int:
    settings = Settings()
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        with _ended_like_interrupted():
            result = cli.main(args=arguments, prog_name="onnx-compat", obj=settings, standalone_mode=False)
        return OK if result is None else int(result)
    except click.ClickException as error:
        return _misused(error, "--json" in (sys.argv[1:] if arguments is None else arguments))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the outermost place: each becomes a text and an exit code
        return _failed(error, settings)


@contextmanager
def _ended_like_interrupted() -> Iterator[None]:
    """SIGTERM is Ctrl-C meanwhile, so that what is half done is cleared away. (Only a main thread may say so.)"""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _misused(error: click.ClickException, json: bool) -> int:
    """The command line itself is wrong, so it may not have been read to its end."""
    if json:
        fields = {"reason": error.format_message(), "hint": "--help", "type": type(error).__name__}
        emit_json({"ok": False, "exit_code": error.exit_code, "error": fields})
    else:
        error.show()
    return error.exit_code


def _failed(error: Exception, settings: Settings) -> int:
    code = code_of(error)
    if settings.debug:
        traceback.print_exc()
    if settings.json:
        emit_json({"ok": False, "exit_code": code, "error": _fields(error)})
    else:
        sys.stderr.write("error: %s\n" % _text(error, code, settings))
    return code


def _text(error: Exception, code: int, settings: Settings) -> str:
    if code != INTERNAL:
        return str(error)
    text = "%s: %s\n  where: a defect in onnx-compat" % (type(error).__name__, error)
    return text if settings.debug else text + "\n  to do: run it again with --debug, and report what that prints"


def _fields(error: Exception) -> Dict[str, Any]:
    if isinstance(error, OnnxCompatError):
        fields = {name: getattr(error, name) for name in ("reason", "hint", "node", "operator", "opset", "shim")}
    else:
        fields = {"reason": str(error)}
    return dict(fields, type=type(error).__name__)

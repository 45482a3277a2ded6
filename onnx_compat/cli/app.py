"""The command group of `onnx-compat`; `run` turns every error of a command into a message and an exit code."""

import difflib
import io
import os
import signal
import sys
import threading
import traceback
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Sequence

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
from onnx_compat.cli.train_command import train
from onnx_compat.cli.verify_command import verify
from onnx_compat.errors import OnnxCompatError
from onnx_compat.escaping import printable

__all__ = ["cli", "run"]

_EPILOG = "\b\nExit codes:\n" + "\n".join("  %3d  %s" % code for code in CODES)

#: Environment variables that keep frameworks from logging to standard error. A value that the user has set stays.
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "2"}


class _Group(click.Group):
    """A group whose help lists the commands in the order in which they are added."""

    def list_commands(self, ctx: click.Context) -> Any:
        return list(self.commands)  # click would sort them by name

    def resolve_command(self, ctx: click.Context, args: List[str]) -> Any:
        """Return what click does. Raise a UsageError with the nearest command for a name that no command has."""
        name = args[0]
        if name not in self.commands and not name.startswith("-"):
            close = difflib.get_close_matches(name, self.commands, 1)
            is_file = os.path.exists(name) or name.lower().endswith(".onnx")
            hint = "did you mean '%s'?" % close[0] if close else "the commands are %s" % ", ".join(self.commands)
            if is_file and not close:
                hint = "give a command first: onnx-compat inspect %s" % name
            raise click.UsageError("no such command '%s': %s" % (name, hint), ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Group, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Run ONNX models on the frameworks of the TensorFlow family, and convert models to their formats."""


for _command in (convert, run_command, train, verify, support, inspect, join, doctor):
    cli.add_command(_command)


def run(arguments: Optional[Sequence[str]] = None) -> int:
    """Run a command of the command line, and return its exit code. `arguments` None: the arguments of the process.

    Errors of the command are printed, as text or as JSON, and not raised. SystemExit is raised if the output pipe is
    closed. If TF_CPP_MIN_LOG_LEVEL is not set in the environment, this function sets it.
    """
    settings = Settings()
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        with _sigterm_as_interrupt():
            result = cli.main(args=arguments, prog_name="onnx-compat", obj=settings, standalone_mode=False)
        return OK if result is None else int(result)
    except click.ClickException as error:
        return _report_usage_error(error, "--json" in (sys.argv[1:] if arguments is None else arguments))
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the outermost handler: every error becomes a message and an exit code
        return _report_error(error, settings)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGTERM inside the block, so that temporary files are removed.

    No effect outside of the main thread.
    """
    # Python lets only the main thread set a signal handler.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _report_usage_error(error: click.ClickException, json: bool) -> int:
    """Print the error for a wrong command line, and return its exit code.

    `json`: whether --json was given. With it, a JSON document is printed to standard output. Without it, text is
    printed to standard error.
    """
    # `Settings` may lack --json: click stops at the first error.
    if json:
        fields = {"reason": error.format_message(), "hint": "--help", "type": type(error).__name__}
        emit_json({"ok": False, "exit_code": error.exit_code, "error": fields})
    else:
        message = io.StringIO()
        error.show(file=message)
        sys.stderr.write(printable(message.getvalue()))
    return error.exit_code


def _report_error(error: Exception, settings: Settings) -> int:
    """Print the error that a command raised, and return its exit code. Call this function in the `except` block.

    With --json, a JSON document is printed to standard output. Without it, text is printed to standard error. With
    --debug, the traceback is printed first, to standard error.
    """
    code = code_of(error)
    if settings.debug:
        sys.stderr.write(printable(traceback.format_exc()))
    if settings.json:
        emit_json({"ok": False, "exit_code": code, "error": _error_fields(error)})
    else:
        sys.stderr.write("error: %s\n" % printable(_format_error(error, code, settings)))
    return code


def _format_error(error: Exception, code: int, settings: Settings) -> str:
    """Return the text to print for an error. `code`: its exit code; INTERNAL marks a defect of onnx-compat.

    For any other code, the text is `str(error)`. For a defect, the text has these lines:

    - the type of the error and its reason
    - "where: a defect in onnx-compat", with the place in the model if an `OnnxCompatError` has one
    - "hint:" with the hint of an `OnnxCompatError`, and without --debug the request to run again with --debug

    A hint line without content is left out.
    """
    if code != INTERNAL:
        return str(error)
    text, where, hints = str(error), "a defect in onnx-compat", []
    if isinstance(error, OnnxCompatError):
        text = error.reason
        location = str(error)[len(error.reason) :].partition("\n  where: ")[2].partition("\n")[0]
        where += ", " + location if location else ""
        hints += [error.hint.rstrip(".")] if error.hint else []
    if not settings.debug:
        hints.append("run the command again with --debug, and report its output")
    lines = ["%s: %s" % (type(error).__name__, text), "where: " + where]
    return "\n  ".join([*lines, "hint: " + "; ".join(hints)] if hints else lines)


def _error_fields(error: Exception) -> Dict[str, Any]:
    """Return the fields of an error for the JSON document: {"type": class name, "reason": text}.

    An OnnxCompatError also has the fields "hint", "node", "operator", "opset" and "shim". A field that is unknown has
    the value None.
    """
    if isinstance(error, OnnxCompatError):
        fields = {name: getattr(error, name) for name in ("reason", "hint", "node", "operator", "opset", "shim")}
    else:
        fields = {"reason": str(error)}
    return dict(fields, type=type(error).__name__)

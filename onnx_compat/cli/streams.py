"""Standard input and output as files: `-` in place of a path, and the pipes that a shell names (`<(command)`)."""

import os
import re
import shutil
import stat
import sys
import tempfile
from typing import Optional

import click

from onnx_compat.cli.exit_codes import BROKEN_PIPE

__all__ = ["STREAM", "input_file", "output_file"]

STREAM = "-"
#: The paths that Linux and macOS have for the open files of a process.
_OPEN_FILE = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/self/fd/\d+")
#: The key of `Context.meta` that is set once the standard input is read.
_READ = __name__ + ".read"


def input_file(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[str]:
    """Return the path of an argument; None stays None. For `-` and for a pipe of the shell: the path of a copy.

    The copy is named after its format, and is deleted when the command ends. Raises BadParameter if two arguments read
    the standard input, or if it is a terminal.
    """
    if value is None or not (value == STREAM or _is_pipe(value)):
        return value
    folder = tempfile.mkdtemp(prefix="onnx-compat-")
    ctx.call_on_close(lambda: shutil.rmtree(folder, ignore_errors=True))
    path = os.path.join(folder, "stdin")
    with open(path, "wb") as copy:
        if value == STREAM:
            if ctx.meta.setdefault(_READ, param) is not param:
                raise click.BadParameter("the standard input is read already, by another argument", ctx, param)
            if sys.stdin is None or sys.stdin.isatty():
                raise click.BadParameter("- reads the standard input, and no file is piped into it", ctx, param)
            shutil.copyfileobj(sys.stdin.buffer, copy)
        else:
            with open(value, "rb") as pipe:
                shutil.copyfileobj(pipe, copy)
    return _rename(path)


def _is_pipe(path: str) -> bool:
    """Whether a path is a pipe that the shell has opened for this process.

    A named pipe elsewhere does not count: to read it may block for ever.
    """
    try:
        return _OPEN_FILE.fullmatch(path) is not None and stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False


def _rename(path: str) -> str:
    """Append the suffix of the format that a file has: .tflite, .keras, .zip, .pb, else .onnx. Return the new path."""
    from onnx_compat.model.first_bytes import kind_of_file

    kind = kind_of_file(path)
    named = path + (kind.suffix if kind is not None and kind.suffix else ".onnx")
    os.rename(path, named)
    return named


def output_file(path: Optional[str], suffix: Optional[str], settings_json: bool, option: str) -> Optional[str]:
    """Return the path to write. For `-`: the path of a temporary file, which goes to the standard output at the end.

    Until the command ends, its own text goes to standard error. If the command writes no file, nothing is written to
    the standard output.

    - suffix: the suffix of the temporary file; None or "" if the command cannot write a single file to a stream.
    - settings_json: whether --json is given, which needs the standard output itself.
    - option: the argument with the path, for errors.

    Raises UsageError if the file cannot go to the standard output.
    """
    if path != STREAM:
        return path
    if settings_json:
        raise click.UsageError("%s - and --json both write to the standard output: give a path" % option)
    if not suffix:
        raise click.UsageError(
            "%s - needs --to tflite, --to keras or --to graphdef: the standard output has no suffix" % option
        )
    folder, stdout = tempfile.mkdtemp(prefix="onnx-compat-"), sys.stdout
    sys.stdout = sys.stderr

    def finish() -> None:
        sys.stdout = stdout
        try:
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), "rb") as file:
                    shutil.copyfileobj(file, stdout.buffer)
            stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())  # the interpreter flushes once more at exit
            raise SystemExit(BROKEN_PIPE) from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    click.get_current_context().call_on_close(finish)
    return os.path.join(folder, "stdout" + suffix)

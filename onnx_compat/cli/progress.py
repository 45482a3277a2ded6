"""Progress of long work: a spinner on a terminal.

Output that frameworks print to standard output goes to standard error.
"""

import contextlib
import os
import sys
from typing import Callable, Iterator

from onnx_compat.escaping import printable

__all__ = ["working"]


@contextlib.contextmanager
def working(message: str) -> Iterator[Callable[[str], None]]:
    """Show `message` with a spinner while the block runs, if standard error is a terminal.

    Yield a function that changes the message; without a terminal, the function does nothing. Inside the block, standard
    output is redirected to standard error, with or without a terminal.
    """
    with _stdout_to_stderr():
        if not sys.stderr.isatty():
            yield _silent
            return
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status(escape(printable(message))) as status:
            yield lambda text: status.update(escape(printable(text)))


def _silent(message: str) -> None:
    """Ignore the message. `working` yields this function if standard error is no terminal."""


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect standard output to standard error inside the block, also for compiled code (descriptor 1)."""
    sys.stdout.flush()
    saved = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 1)
        os.close(saved)

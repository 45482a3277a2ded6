"""Progress of long work: a spinner on a terminal; output that frameworks print goes to standard error."""

import contextlib
import os
import sys
from typing import Callable, Iterator

__all__ = ["working"]


@contextlib.contextmanager
def working(message: str) -> Iterator[Callable[[str], None]]:
    """Show `message` on standard error while the block runs, if that is a terminal.

    Yield a function that changes the message.
    """
    with _stdout_to_stderr():
        if not sys.stderr.isatty():
            yield _silent
            return
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status(escape(message)) as status:
            yield lambda text: status.update(escape(text))


def _silent(message: str) -> None:
    """Ignore the message, because standard error is no terminal."""


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect standard output to standard error, also of compiled code, which writes to descriptor 1."""
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

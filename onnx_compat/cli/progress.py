"""Long work: a spinner where a person watches, and standard output kept clean whatever a framework prints."""

import contextlib
import os
import sys
from typing import Callable, Iterator

__all__ = ["working"]


@contextlib.contextmanager
def working(message: str) -> Iterator[Callable[[str], None]]:
    """Show `message` on standard error, if that is a terminal, while the block runs; call what it yields to change it."""
    with _stdout_to_stderr():
        if not sys.stderr.isatty():
            yield _silent
            return
        from rich.console import Console
        from rich.markup import escape

        with Console(stderr=True).status(escape(message)) as status:
            yield lambda text: status.update(escape(text))


def _silent(message: str) -> None:
    """Nobody is watching."""


@contextlib.contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Also below Python: what compiled code writes to descriptor 1 goes to descriptor 2 in the meantime."""
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

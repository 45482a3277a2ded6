"""Standard output: one table or one JSON document, written at once. All else goes to standard error."""

import io
import json
import os
import sys
from typing import Any, Iterable, Optional, Sequence

from onnx_compat.cli.exit_codes import BROKEN_PIPE
from onnx_compat.escaping import printable

__all__ = ["Cell", "emit", "emit_json", "table", "type_text"]


class Cell:
    """A piece of a table that is worth a colour."""

    def __init__(self, text: str, style: str) -> None:
        self.text = text
        self.style = style

    @staticmethod
    def verdict(text: str, good: bool) -> "Cell":
        return Cell(text, "green" if good else "bold red")


def emit(text: str) -> None:
    """Write to standard output. A reader that has gone away ends the command, silently."""
    encoding = sys.stdout.encoding or "utf-8"
    printable = text.rstrip("\n").encode(encoding, "backslashreplace").decode(encoding)
    try:
        for line in printable.split("\n"):  # one by one: of a long text, an unbuffered stream loses the end unnoticed
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(BROKEN_PIPE) from None


def emit_json(document: Any) -> None:
    emit(json.dumps(document, indent=2, allow_nan=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: Optional[str] = None) -> None:
    """A column whose name begins with '>' holds numbers. Into a pipe goes plain text that no terminal width has cut."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    made = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, title=title, title_justify="left")
    for column in columns:
        made.add_column(
            Text(column.lstrip(">")), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    for row in rows:
        # Text, never str: a name such as `x[0]` would be read as markup.
        made.add_row(
            *[Text(cell.text, cell.style) if isinstance(cell, Cell) else Text(printable(str(cell))) for cell in row]
        )
    buffer = io.StringIO()
    Console(file=buffer, force_terminal=terminal, width=None if terminal else 100000).print(made)
    emit("\n".join(line.rstrip() for line in buffer.getvalue().splitlines()))


def type_text(dtype: str, shape: Sequence[Any]) -> str:
    return "%s[%s]" % (dtype, ", ".join("?" if dim is None else str(dim) for dim in shape))

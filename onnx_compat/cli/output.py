"""Write tables and JSON documents to standard output. Progress and errors go to standard error."""

import io
import json
import os
import sys
from typing import Any, Iterable, Mapping, Optional, Sequence

from onnx_compat.cli.exit_codes import BROKEN_PIPE
from onnx_compat.escaping import printable

__all__ = ["Cell", "count_of", "emit", "emit_json", "table", "type_text"]


class Cell:
    """A table cell with a colour. `style`: a style of rich, such as "bold red"."""

    def __init__(self, text: str, style: str) -> None:
        self.text = text
        self.style = style

    @staticmethod
    def verdict(text: str, good: bool) -> "Cell":
        """Return a green cell if `good`, else a bold red cell."""
        return Cell(text, "green" if good else "bold red")


def emit(text: str) -> None:
    """Write a text and a line break to standard output. Line breaks at the end of the text are removed.

    Control characters and marks of text direction are escaped, because a name in a model can hold any character.
    Characters that the stream cannot encode become escapes, as in Python. If the reader has closed the pipe, raise
    SystemExit(BROKEN_PIPE).
    """
    _write(printable(text))


def _write(text: str) -> None:
    """Write a text that may hold colours of a terminal, as `emit` does.

    Characters that the stream cannot encode become escapes, as in Python. If the reader has closed the pipe, raise
    SystemExit(BROKEN_PIPE).
    """
    encoding = sys.stdout.encoding or "utf-8"
    encodable = text.rstrip("\n").encode(encoding, "backslashreplace").decode(encoding)
    try:
        for line in encodable.split("\n"):  # an unbuffered stream may drop the end of a long write without an error
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more at exit, which must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(BROKEN_PIPE) from None


def emit_json(document: Mapping[str, Any]) -> None:
    """Write a JSON document to standard output, indented. Raise a ValueError for NaN and infinity, which JSON lacks."""
    emit(json.dumps(document, indent=2, allow_nan=False))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: Optional[str] = None) -> None:
    """Write a table to standard output. A column name with a leading ">" is right-aligned and printed without it.

    - rows: an entry of a row is a `Cell`, or an object that is printed by `str`. Control characters are escaped.
    - title: a text above the table; None: no title.

    A terminal gets colours and folded columns. A pipe or a file gets plain text, without folding. Without rows, only
    the header is written. If the reader has closed the pipe, raise SystemExit(BROKEN_PIPE).
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    terminal = sys.stdout.isatty()
    grid = Table(box=box.SIMPLE_HEAD if terminal else None, pad_edge=False, title=title, title_justify="left")
    for column in columns:
        grid.add_column(
            Text(printable(column.lstrip(">"))), justify="right" if column.startswith(">") else "left", overflow="fold"
        )
    for row in rows:
        # rich would parse a str such as `x[bold]` as markup.
        grid.add_row(
            *[
                Text(printable(cell.text), cell.style) if isinstance(cell, Cell) else Text(printable(str(cell)))
                for cell in row
            ]
        )
    buffer = io.StringIO()
    Console(file=buffer, force_terminal=terminal, width=None if terminal else 100000).print(grid)
    _write("\n".join(line.rstrip() for line in buffer.getvalue().split("\n")))


def count_of(count: int, noun: str) -> str:
    """Format a number with its noun: `1 part`, `2 parts`."""
    return "%d %s%s" % (count, noun, "" if count == 1 else "s")


def type_text(dtype: str, shape: Sequence[Any]) -> str:
    """Format a tensor type: `float32[?, 3]`. A size of None becomes `?`."""
    return "%s[%s]" % (dtype, ", ".join("?" if dim is None else str(dim) for dim in shape))

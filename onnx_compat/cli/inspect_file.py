"""`onnx-compat inspect` of a converted file: print its description, which the library or a shim reads from the file."""

import os
from typing import Any, Dict, Mapping, Optional

from onnx_compat.cli.output import emit, emit_json, table
from onnx_compat.escaping import printable

__all__ = ["describe_as_document", "is_converted", "show_file"]

#: Suffixes of converted files. A .pb file may be an ONNX model or a TensorFlow graph: its content decides.
_SUFFIXES = (".tflite", ".keras", ".zip")
#: The columns of the tables that hold numbers. They are right-aligned.
_NUMBERS = (
    "bytes",
    "buffers",
    "count",
    "version",
    "inputs",
    "outputs",
    "operators",
    "tensors",
    "subgraph",
    "delegated",
)


def is_converted(path: str) -> bool:
    """Return whether a path is a folder (a SavedModel), has the suffix .tflite, .keras or .zip, or holds a GraphDef.

    Upper and lower case are the same.
    """
    from onnx_compat.model.first_bytes import kind_of_file

    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".pb":
        kind = kind_of_file(path)
        return kind is not None and kind.suffix == suffix
    return os.path.isdir(path) or suffix in _SUFFIXES


def describe_as_document(path: str, shim: Optional[str] = None) -> Dict[str, Any]:
    """Return the description of a converted file as one dict of JSON values: "file", "shim", its facts and its tables.

    Each fact and each table has its own key. A table is a list of rows; a row is a dict column name -> value. "shim" is
    the name of the shim that described the file, or "" if the library did.

    `shim`: as for `describe`.

    Raises InputError if the content of the file shows another format than its suffix. Raises the errors of `describe`
    too.
    """
    from onnx_compat.inspection.describe import describe
    from onnx_compat.model.first_bytes import check_suffix

    check_suffix(path)
    result = describe(path, shim)
    return {"file": path, "shim": result.shim, **result.description.facts, **result.description.tables}


def show_file(description: Mapping[str, Any], as_json: bool) -> None:
    """Print the description of a converted file: a line for each fact that is not empty, then the tables.

    A column that is empty in all rows is left out. `as_json`: print the description as a JSON document instead.
    `description`: the result of `describe_as_document`.
    """
    if as_json:
        emit_json(dict(description, ok=True))
        return
    facts = {key: _format_fact(value) for key, value in description.items() if not _is_table(value)}
    width = max(map(len, facts))
    for key, text in facts.items():
        if text:
            emit("%-*s  %s" % (width, _format_title(key), text))
    for key, rows in description.items():
        if _is_table(rows):
            columns = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
            emit("\n%s" % _format_title(key))
            table(
                [">" + _format_title(name) if name in _NUMBERS else _format_title(name) for name in columns],
                [[_format_cell(row[name]) for name in columns] for row in rows],
            )


def _is_table(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _format_title(key: str) -> str:
    return key.replace("_", " ")


def _format_fact(value: object) -> str:
    """Return a fact as text: a number, a text, a list "a, b", or a dict "key value, key value"."""
    if isinstance(value, Mapping):
        return ", ".join("%s %s" % (_format_cell(key), _format_fact(item) or "none") for key, item in value.items())
    return ", ".join(map(_format_cell, value)) if isinstance(value, list) else _format_cell(value)


def _format_cell(value: object) -> str:
    """Return a value of a description as text on one line.

    - None: "".
    - A dict: "key value, key value" (see `_format_fact`).
    - A list: "[a, b]".
    - A float: at most six significant digits.
    - Any other value: `str(value)`.

    Control characters and line breaks are escaped, because the file may hold any name.
    """
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return _format_fact(value)
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(_format_cell, value))
    text = "%.6g" % value if isinstance(value, float) else str(value)
    return printable(text).replace("\n", "\\n")

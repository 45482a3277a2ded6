"""Draw the charts of the report page as inline SVG, without scripts."""

import math
from html import escape
from typing import List, Optional, Sequence, Tuple

from onnx_compat.escaping import printable
from onnx_compat.verification.compare import format_verdict
from onnx_compat.verification.layers import Layer

__all__ = ["draw_bar", "draw_chart"]

#: The powers of ten at the ends of the scale: below the rounding error of float32, and ten times the value.
_LOW, _HIGH = -9, 1
_TOP, _HEIGHT, _LEFT, _RIGHT = 14, 220, 64, 24


def draw_bar(part: float, whole: float) -> str:
    """Return the HTML of a bar in a table cell, whose length is the share part / whole. A whole of 0 counts as 1."""
    return '<span class="bar" aria-hidden="true"><i style="width:%.1f%%"></i></span>' % (100.0 * part / (whole or 1))


def draw_chart(layers: Sequence[Layer], culprit: Optional[str]) -> str:
    """Return a box that scrolls, with an SVG chart of the layers: a mark for the relative error of each layer.

    The marks have the order of `layers`, which must not be empty. The layers of the node `culprit` get a dashed line.
    """
    step = max(5.0, min(48.0, 1040.0 / len(layers)))
    width = _LEFT + step * len(layers) + _RIGHT
    parts = ['<svg width="%.0f" height="%d" viewBox="0 0 %.0f %d" role="group" aria-label="Error of each layer">' % (
        width, _HEIGHT + 44, width, _HEIGHT + 44)]  # fmt: skip
    for power in range(_LOW, _HIGH + 1, 2):
        y = _y(power)
        parts.append('<line class="grid" x1="%d" x2="%.0f" y1="%.1f" y2="%.1f"/>' % (_LEFT, width - _RIGHT, y, y))
        parts.append('<text x="%d" y="%.1f" text-anchor="end">%s</text>' % (_LEFT - 8, y + 4, _format_power(power)))
    for index in range(len(layers)):
        if (index + 1) % _label_interval(len(layers)) == 0 or index == 0:
            x = _LEFT + step * (index + 0.5)
            parts.append('<text x="%.1f" y="%d" text-anchor="middle">%d</text>' % (x, _HEIGHT + 22, index + 1))
    parts.append('<text x="%d" y="%d">node, in order</text>' % (_LEFT, _HEIGHT + 40))
    for index, layer in enumerate(layers):
        parts.append(_draw_mark(index, layer, step, layer.node == culprit))
    return (
        '<div class="scroll plot" tabindex="0" role="region" aria-label="Chart of errors">%s</svg></div>\n'
        % "\n".join(parts)
    )


def _draw_mark(index: int, layer: Layer, step: float, is_culprit: bool) -> str:
    """Return the SVG mark of a layer: a stem with a circle if the value agrees, else with a triangle.

    An arrow marks an error beyond the scale. With `is_culprit`, a dashed line marks the layer. The mark links to row
    `index` of the table of layers. `step` is the distance of two marks.
    """
    power, is_beyond = _power_of_error(layer)
    x, y, base = _LEFT + step * (index + 0.5), _y(power), _y(_LOW)
    size = max(2.5, min(5.0, step / 2.5))
    if layer.ok:
        head = '<circle cx="%.1f" cy="%.1f" r="%.1f"/>' % (x, y, size)
    else:
        tip, foot = y - size * 1.4, y + size
        head = '<path d="M%.1f %.1fL%.1f %.1fL%.1f %.1fZ"/>' % (x, tip, x - size * 1.2, foot, x + size * 1.2, foot)
    if is_beyond:
        head += '<path class="arrow" d="M%.1f %.1fl-3 4m3 -4l3 4"/>' % (x, y - size * 1.4 - 3)
    if is_culprit:
        head += '<line class="blame" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"/>' % (x, x, _TOP - 8, y - size * 2)
    label = "%d. %s (%s): %s" % (index + 1, layer.node, layer.operator, _describe_error(layer))
    stem = '<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>' % (x, x, base, y)
    hover_area = '<rect class="hit" x="%.1f" y="%d" width="%.1f" height="%d"/>' % (
        x - step / 2,
        _TOP,
        step,
        _HEIGHT - _TOP,
    )
    return '<a href="#layer-%d" class="%s%s" aria-label="%s"><title>%s</title>%s%s%s</a>' % (
        index, "pass" if layer.ok else "fail", " culprit" if is_culprit else "", _escape(label), _escape(label),
        hover_area, stem, head,
    )  # fmt: skip


def _power_of_error(layer: Layer) -> Tuple[float, bool]:
    """Return (log10 of the relative error of a layer, limited to the scale; whether the error exceeds the scale).

    Without a signal-to-noise ratio, the verdict decides: the low end if the value agrees, else beyond the high end. An
    infinite relative error of a value that agrees gives the low end too.
    """
    if layer.snr is None:  # a value that is no number: the mark only shows whether it agrees
        return (_LOW, False) if layer.ok else (_HIGH, True)
    power = -layer.snr / 20
    if math.isinf(power) and power > 0 and layer.ok:  # an error within the tolerance, of a value that is all zeros
        return _LOW, False
    return min(max(power, _LOW), _HIGH), power > _HIGH


def _describe_error(layer: Layer) -> str:
    """Format the relative error of a layer as text: "relative error 0.01".

    A layer without a signal-to-noise ratio gives the text of its verdict.
    """
    if layer.snr is None:
        return format_verdict(layer.comparison)
    if layer.snr == math.inf:
        return "no error"
    return (
        "relative error %.2g" % (10 ** (-layer.snr / 20)) if layer.snr > -1000 else "an error where zeros are expected"
    )


def _y(power: float) -> float:
    """Return the vertical position in the chart, in pixels from the top, of the relative error 10**power."""
    return _TOP + (_HEIGHT - _TOP) * (_HIGH - power) / (_HIGH - _LOW)


def _format_power(power: int) -> str:
    return "1" if power == 0 else "10" if power == 1 else "1e%d" % power


def _label_interval(count: int) -> int:
    """Return the number of layers from a label of the chart to the next label. It gives about 18 labels at most.

    `count`: the number of layers. Above 36000 layers, there are more labels.
    """
    intervals: List[int] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    return next((interval for interval in intervals if count / interval <= 18), 2000)


def _escape(value: str) -> str:
    return escape(printable(value))

"""Write the curves of a training as an HTML page, without scripts and external resources."""

import math
import os
from html import escape
from typing import Any, Dict, List, Sequence, Tuple

from onnx_compat.conversion.destinations import Destination
from onnx_compat.escaping import printable
from onnx_compat.model.loading import StrPath
from onnx_compat.training.progress import Progress
from onnx_compat.verification.html_style import STYLE

__all__ = ["epoch_table", "render_curves", "write_curves"]

_WIDTH, _HEIGHT, _LEFT, _TOP = 640, 220, 70, 14
#: Symbols and styles of the two curves of a chart: the training data, and the validation data.
_CURVES = (("training", "var(--bar)", ""), ("validation", "var(--mark)", ' stroke-dasharray="6 4"'))
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>%(title)s</title><style>%(style)s svg path { fill: none; stroke-width: 2; }</style></head>
<body><main><h1>%(title)s</h1>%(body)s</main></body></html>
"""


def write_curves(path: StrPath, title: str, epochs: Sequence[Progress]) -> None:
    """Write the page of a training, atomically. Raises InputError if the path may not be written."""
    target = Destination(path)
    with target.scratch() as scratch:
        unfinished = os.path.join(scratch, "report.html")
        with open(unfinished, "wb") as stream:
            stream.write(render_curves(title, epochs).encode("utf-8", "backslashreplace"))
        target.put(unfinished)


def render_curves(title: str, epochs: Sequence[Progress]) -> str:
    """Return the HTML page of a training: a chart for each result, and a table of the epochs."""
    names = list(epochs[0].results) if epochs else []
    parts = [_render_chart(name, epochs) for name in names]
    parts.append(_render_table(names, epochs))
    return _PAGE % {"title": escape(printable(title)), "style": STYLE, "body": "".join(parts)}


def _render_chart(name: str, epochs: Sequence[Progress]) -> str:
    """Return a section with the curves of a result over the epochs: of the training, and of the validation if any."""
    series = [[progress.results.get(name) for progress in epochs]]
    if epochs[0].validation is not None:
        series.append([(progress.validation or {}).get(name) for progress in epochs])
    finite = [value for line in series for value in line if value is not None and math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    high = high if high > low else low + 1
    lines = []
    for y, value in ((_TOP, high), (_TOP + _HEIGHT, low)):
        lines.append('<line class="grid" x1="%d" x2="%d" y1="%d" y2="%d"/>' % (_LEFT, _LEFT + _WIDTH, y, y))
        lines.append('<text x="%d" y="%d" text-anchor="end">%.4g</text>' % (_LEFT - 8, y + 4, value))
    for line, (_, colour, dash) in zip(series, _CURVES):
        points = _points(line, low, high)
        lines.append('<path d="%s" stroke="%s"%s/>' % (points, colour, dash))
    lines.append('<text x="%d" y="%d">epoch 1 to %d</text>' % (_LEFT, _TOP + _HEIGHT + 22, len(epochs)))
    size = (_LEFT + _WIDTH + 20, _TOP + _HEIGHT + 34)
    label = escape(printable(name))
    legend = " and ".join(
        "%s (%s line)" % (kind, "broken" if dash else "solid") for _, (kind, _, dash) in zip(series, _CURVES)
    )
    return (
        '<h2>%s</h2><p class="small">%s</p><div class="scroll plot"><svg width="%d" height="%d" role="img" '
        'aria-label="%s by epoch">%s</svg></div>' % (label, legend, *size, label, "".join(lines))
    )


def _points(values: Sequence[object], low: float, high: float) -> str:
    """Return the path of a curve in SVG. It is interrupted at values that are not finite."""
    commands: List[str] = []
    step = _WIDTH / max(len(values) - 1, 1)
    is_drawing = False
    for k, value in enumerate(values):
        if not isinstance(value, float) or not math.isfinite(value):
            is_drawing = False
            continue
        y = _TOP + _HEIGHT * (high - value) / (high - low)
        commands.append("%s%.1f %.1f" % ("L" if is_drawing else "M", _LEFT + k * step, y))
        is_drawing = True
    return "".join(commands) + ("h0.1" if len(values) == 1 and is_drawing else "")


def _render_table(names: Sequence[str], epochs: Sequence[Progress]) -> str:
    columns, rows = epoch_table(names, epochs)
    head = "".join("<th>%s</th>" % escape(printable(column)) for column in columns)
    body = "".join("<tr>%s</tr>" % "".join('<td class="n">%s</td>' % cell for cell in row) for row in rows)
    return '<h2>Epochs</h2><div class="scroll"><table><thead><tr>%s</tr></thead><tbody>%s</tbody></table></div>' % (
        head,
        body,
    )


def epoch_table(names: Sequence[str], epochs: Sequence[Progress]) -> Tuple[List[str], List[List[str]]]:
    """Return (columns, rows) of a table with a row for each epoch: the results, then those of the validation."""
    has_validation = bool(epochs) and epochs[0].validation is not None
    columns = ["epoch", *names, *("validation " + name for name in names if has_validation)]
    rows = []
    for progress in epochs:
        sources: List[Dict[str, Any]] = [progress.results, progress.validation or {}]
        numbers = [source[name] for source in sources for name in names if name in source]
        rows.append([str(progress.epoch), *("%.6g" % number for number in numbers)])
    return columns, rows

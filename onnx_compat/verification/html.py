"""Write a verification report as an HTML page, without scripts and external resources, and with names escaped."""

import os
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from onnx_compat.conversion.destinations import Destination
from onnx_compat.errors import OnnxCompatError
from onnx_compat.escaping import printable
from onnx_compat.model import Model
from onnx_compat.shim.description import Description
from onnx_compat.verification.compare import format_verdict
from onnx_compat.verification.html_chart import draw_bar, draw_chart
from onnx_compat.verification.html_style import STYLE
from onnx_compat.verification.layers import Layer, Layers
from onnx_compat.verification.report import Report, explain
from onnx_compat.verification.verify_model import ModelSource

__all__ = ["render_page", "write_html"]

_LARGEST = 15  # the largest number of weights of a model in the section of sizes


class Html(str):
    """Text that is HTML already, so that `_escape` does not escape it again."""

    __slots__ = ()


class _PageContent(NamedTuple):
    """The content of a page: the report, its model, and the description of the converted file, or None."""

    report: Report
    model: Model
    file: Optional[Description]


def write_html(
    path: Union[str, "os.PathLike[str]"],
    report: Report,
    model: ModelSource,
    converted: Union[str, "os.PathLike[str]", None] = None,
) -> Path:
    """Write the page of a report on `model`, or on the file `converted` from it, atomically. Return the page's path.

    If no shim can describe `converted`, the page has no section on the file. Raises InputError if the page cannot be
    written, or would overwrite the model or the file. Raises the errors of `load` too.
    """
    from onnx_compat import load
    from onnx_compat.inspection.describe import describe

    loaded = load(model)
    target = Destination(path, [loaded, converted])
    description: Optional[Description] = None
    if converted is not None:
        try:
            description = describe(converted).description
        except OnnxCompatError:  # no shim can describe the format: the page has no section on the file
            description = None
    text = render_page(report, loaded, description)
    with target.scratch() as scratch:
        unfinished = Path(scratch, "report.html")
        unfinished.write_bytes(text.encode("utf-8", "backslashreplace"))
        target.put(str(unfinished))
    return Path(os.fspath(path))


def render_page(report: Report, model: Model, file: Optional[Description] = None) -> str:
    """Return the HTML page of a report. `file`: the description of the converted file; None leaves its section out."""
    content = _PageContent(report, model, file)
    name = os.path.basename(report.model) or "model"
    body = "".join(
        part for part in (_render_head(content, name), _render_layers(report), _render_outputs(report), _render_fused_nodes(report.layers),
                          _render_fallback_nodes(report), _render_operators(content), _render_sizes(content), _render_file(file),
                          _render_conditions(report)) if part
    )  # fmt: skip
    return _PAGE % {"title": _escape("%s: %s" % ("OK" if report.ok else "FAILED", name)), "style": STYLE, "body": body}


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'">
<meta name="color-scheme" content="light dark">
<title>%(title)s</title>
<style>%(style)s</style>
</head>
<body>
<a class="skip" href="#main">To the report</a>
<main id="main">
%(body)s
</main>
</body>
</html>
"""


# -- pieces ------------------------------------------------------------------------------------------------------------
def _escape(value: object) -> str:
    """Escape a value for HTML, unless it is an `Html`."""
    return value if isinstance(value, Html) else escape(printable(str(value)))


def _render_section(title: str, *parts: str, ident: str = "") -> str:
    """Return an HTML section with a heading and its parts. `ident`: the id of the section; "" for no id."""
    mark = ' id="%s"' % ident if ident else ""
    return "<section%s><h2>%s</h2>\n%s</section>\n" % (mark, _escape(title), "".join(parts))


def _render_table(
    label: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], attributes: Sequence[str] = ()
) -> str:
    """Return an HTML table in a box that scrolls. A title in `columns` that begins with ">" right-aligns its column.

    `attributes`: for each row, a text of HTML attributes that begins with a space; empty: no attributes. A cell of None
    is empty.
    """
    right = [column.startswith(">") for column in columns]
    head = "".join(
        '<th scope="col"%s>%s</th>' % (' class="n"' if number else "", _escape(column.lstrip(">")))
        for column, number in zip(columns, right)
    )
    lines = []
    for index, row in enumerate(rows):
        cells = "".join(
            '<td data-l="%s"%s>%s</td>'
            % (_escape(column.lstrip(">")), ' class="n"' if number else "", _escape("" if cell is None else cell))
            for column, cell, number in zip(columns, row, right)
        )
        lines.append("<tr%s>%s</tr>" % (attributes[index] if attributes else "", cells))
    cards = " cards" if len(columns) > 5 else ""  # a narrow screen shows each row as a card
    return '<div class="scroll%s" tabindex="0" role="region" aria-label="%s"><table><thead><tr>%s</tr></thead><tbody>\n%s\n</tbody></table></div>\n' % (
        cards, _escape(label), head, "\n".join(lines),
    )  # fmt: skip


def _render_code(value: object) -> Html:
    return Html("<code>%s</code>" % _escape(value))


def _render_verdict(good: bool, text: str) -> Html:
    """Return a text after a check mark if `good`, else after a cross."""
    return Html('<span class="%s"><b aria-hidden="true">%s</b> %s</span>' % (
        "pass" if good else "fail", "&#10003;" if good else "&#10007;", _escape(text)))  # fmt: skip


def _format_figure(value: Optional[float], form: str = "%.3g") -> str:
    return "" if value is None else form % value


def _format_bytes(size: int) -> str:
    for unit, factor in (("MB", 1000000), ("kB", 1000)):
        if size >= factor:
            return "%.1f %s" % (size / factor, unit)
    return "%d B" % size


def _render_type(dtype: str, shape: Sequence[Any]) -> Html:
    return Html('<span class="t">%s</span>' % _escape("%s[%s]" % (dtype, ", ".join(map(str, shape)))))


# -- sections ----------------------------------------------------------------------------------------------------------
def _render_head(content: _PageContent, name: str) -> str:
    """Return the head of the page: the name of the model, the verdict, and the tiles with figures."""
    report = content.report
    tiles = "".join(
        "<li><span class=big>%s</span><span>%s</span></li>" % (_escape(figure), _escape(label))
        for figure, label in _iterate_tiles(content)
    )
    layers = report.layers
    blame = (
        "" if layers is None else '<p class="lead">%s.</p>' % _escape(layers.verdict[:1].upper() + layers.verdict[1:])
    )
    return '<h1>%s <small class="%s">%s</small></h1>\n<p class="lead">%s.</p>%s\n<ul class="tiles">%s</ul>\n' % (
        _escape(name), "pass" if report.ok else "fail", "OK" if report.ok else "FAILED",
        _escape(report.summary.partition(": ")[2]), blame, tiles,
    )  # fmt: skip


def _iterate_tiles(content: _PageContent) -> Iterator[Tuple[Any, str]]:
    """Yield a (figure, label) pair for each tile at the top of the page. A fact that is not known has no tile."""
    report, file = content.report, content.file
    yield "%d of %d" % (sum(output.ok for output in report.outputs), len(report.outputs)), "outputs agree"
    if report.layers is not None:
        layers = report.layers.layers
        yield "%d of %d" % (sum(layer.ok for layer in layers), len(layers)), "values of nodes agree"
        yield report.layers.culprit or "none", "node that is wrong"
    facts = file.facts if file is not None else {}
    if "operators" in facts:
        yield facts["operators"], "operators, for %d nodes" % sum(content.model.operators().values())
    if "bytes" in facts:
        yield _format_bytes(facts["bytes"]), "file"
    if facts.get("delegate"):
        yield "%(taken)d of %(of)d" % facts["delegate"], "operators in %s" % facts["delegate"]["name"]
    if report.fallbacks or file is None:
        yield len(report.fallbacks), "nodes in the fallback"


def _render_outputs(report: Report) -> str:
    """Return the section with a table of outputs: the type, the errors and the verdict of each output."""
    rows = [
        [
            _render_code(output.name),
            _render_type(output.dtype, output.shape),
            _format_figure(output.max_abs_error),
            _format_figure(output.max_rel_error),
            _format_figure(output.mean_abs_error),
            _render_verdict(output.ok, "agrees" if output.ok else explain(output)),
        ]
        for output in report.outputs
    ]
    columns = ("output", "type", ">max abs error", ">max rel error", ">mean abs error", "verdict")
    return _render_section("Outputs", _render_table("Outputs", columns, rows), ident="outputs")


def _render_layers(report: Report) -> str:
    """Return the section "Layer by layer": the chart and the table of layers; "" if no layer was compared."""
    layers = report.layers
    if layers is None or not layers.layers:
        return ""
    explanation = (
        '<p class="small">The relative error of each value (root mean square), in the order of the nodes. An arrow marks an '
        "error beyond the scale. Each mark links to its row.</p>"
    )
    rows = [_layer_row(layer) for layer in layers.layers]
    attributes = [
        ' id="layer-%d" class="%s%s"'
        % (index, "right" if layer.ok else "wrong", " culprit" if layer.node == layers.culprit else "")
        for index, layer in enumerate(layers.layers)
    ]
    columns = ("node", "operator", "value", "type", ">max abs error", ">max rel error", ">SNR dB", "verdict", "made by")
    filter_control = (
        '<p><label><input type="checkbox" id="only"> Show only values that depart</label></p>'
        if not layers.ok
        else "<br>"
    )
    return _render_section(
        "Layer by layer", explanation, draw_chart(layers.layers, layers.culprit), filter_control,
        _render_table("Layers", columns, rows, attributes), "".join("<p class=small>%s.</p>" % _escape(note) for note in layers.notes),
        ident="layers",
    )  # fmt: skip


def _layer_row(layer: Layer) -> List[str]:
    """Return the nine cells of a layer's row in the table of `_render_layers`."""
    comparison = layer.comparison
    verdict = "agrees" if comparison.ok else format_verdict(comparison)
    if comparison.verdict == "mismatch":
        verdict = "differs"
    if layer.alone is not None:
        verdict += ", by itself right" if layer.alone.ok else ", by itself too"
    return [
        _render_code(layer.node),
        layer.operator,
        _render_code(layer.value),
        _render_type(comparison.expected_dtype, comparison.expected_shape),
        _format_figure(comparison.max_abs_error),
        _format_figure(comparison.max_rel_error),
        _format_figure(layer.snr, "%.0f"),
        _render_verdict(comparison.ok, verdict),
        _count_operators(layer.emitted),
    ]


def _count_operators(operators: Sequence[str]) -> str:
    """Format operators with the number of their occurrences: "ADD, CONV_2D ×2"."""
    return ", ".join(
        name if count == 1 else "%s \N{MULTIPLICATION SIGN}%d" % (name, count)
        for name, count in Counter(operators).items()
    )


def _render_fused_nodes(layers: Optional[Layers]) -> str:
    """Return the section of fused nodes and of values that the file does not hold.

    "" if there are neither, or if `layers` is None.
    """
    if layers is None:
        return ""
    fused = [layer for layer in layers.layers if len(layer.nodes) > 1]
    parts = []
    if fused:
        rows = [
            [Html(" &larr; ".join(_render_code(node) for node in layer.nodes)), _count_operators(layer.emitted)]
            for layer in fused
        ]
        parts.append(_render_table("Fused nodes", ("nodes, the last node first", "operators of the file"), rows))
    if layers.gone:
        rows = [[_render_code(gone.value), _render_code(gone.node), gone.operator, gone.why] for gone in layers.gone]
        table = _render_table("Values that are not in the file", ("value", "node", "operator", "reason"), rows)
        count = "%d value%s that the file does not hold" % (len(rows), "" if len(rows) == 1 else "s")
        parts.append("<details><summary>%s</summary>%s</details>" % (count, table))
    return _render_section("Fused nodes", *parts, ident="fused") if parts else ""


def _render_fallback_nodes(report: Report) -> str:
    """Return the section of the nodes that ran in the fallback, each with its reason; "" without such nodes."""
    if not report.fallbacks:
        return ""
    rows = [[_render_code(node), reason] for node, reason in report.fallbacks.items()]
    return _render_section(
        "Nodes in the fallback", _render_table("Fallback", ("node", "reason"), rows), ident="fallback"
    )


def _render_operators(content: _PageContent) -> str:
    """Return the section with the number of each operator of the model, and of the converted file."""
    counts = sorted(content.model.operators().items(), key=lambda item: (-item[1], item[0]))
    most = max((count for _, count in counts), default=1)
    rows: List[List[Any]] = [
        ["%s::%s" % (domain, name) if domain else name, opset, count, Html(draw_bar(count, most))]
        for (domain, name, opset), count in counts
    ]
    parts = ["<div><h3>Of the model</h3>%s</div>" % _render_table("Nodes", ("operator", ">opset", ">nodes", ""), rows)]
    file_counts: List[Dict[str, Any]] = (
        content.file.tables.get("operator_counts", []) if content.file is not None else []
    )
    if file_counts:
        most = max(row["count"] for row in file_counts)
        rows = [
            [row["operator"], row["version"], row["count"], row["delegated"], Html(draw_bar(row["count"], most))]
            for row in file_counts
        ]
        columns = ("operator", ">version", ">count", ">delegated", "")
        parts.append("<div><h3>Of the file</h3>%s</div>" % _render_table("Operators", columns, rows))
    return _render_section("Operators", '<div class="pair">%s</div>' % "".join(parts), ident="operators")


def _render_sizes(content: _PageContent) -> str:
    """Return the section of the largest tensors of the converted file, as its description lists them.

    Without a description that lists tensors, the section has the model's 15 largest weights. Return "" if the model has
    no weights either.
    """
    tensors: List[Dict[str, Any]] = content.file.tables.get("largest_tensors", []) if content.file is not None else []
    columns = ("tensor", "kind", "type", "read for", ">bytes", "")
    if tensors:
        rows = [
            [
                _render_code(row["tensor"]),
                row["kind"],
                _render_type(row["type"], row["shape"]),
                row.get("first_read_for", ""),
                row["bytes"],
            ]
            for row in tensors
        ]
    else:
        weights = sorted(content.model.graph.initializers.items(), key=lambda item: (-item[1].nbytes, item[0]))
        rows = [
            [_render_code(name), "constant", _render_type(str(weight.dtype), weight.shape), "", weight.nbytes]
            for name, weight in weights[:_LARGEST]
        ]
    if not rows:
        return ""
    most = max(int(row[4]) for row in rows) or 1
    rows = [[*row[:4], _format_bytes(row[4]), Html(draw_bar(row[4], most))] for row in rows]
    return _render_section("Sizes", _render_table("Largest tensors", columns, rows), ident="sizes")


def _render_file(file: Optional[Description]) -> str:
    """Return the section with the file's facts and the tables that no other section has; "" without a file."""
    if file is None:
        return ""
    facts = [
        [key.replace("_", " "), _format_fact(value)]
        for key, value in file.facts.items()
        if value not in (None, "", [], {})
    ]
    parts = [_render_table("Facts", ("", ""), facts)]
    for key, rows in file.tables.items():
        if rows and key not in ("operator_counts", "largest_tensors"):
            columns = [name for name in rows[0] if any(row[name] not in (None, "") for row in rows)]
            table = _render_table(
                key,
                [name.replace("_", " ") for name in columns],
                [[_format_fact(row[name]) for name in columns] for row in rows],
            )
            parts.append("<details><summary>%s</summary>%s</details>" % (_escape(key.replace("_", " ")), table))
    return _render_section("The file", *parts, ident="file")


def _format_fact(value: object) -> str:
    """Format a fact as text: a number, a text, None (as ""), or a list or dict of facts."""
    if isinstance(value, dict):
        return ", ".join("%s: %s" % (key, _format_fact(item)) for key, item in value.items())
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(_format_fact, value))
    return "" if value is None else "%.6g" % value if isinstance(value, float) else str(value)


def _render_conditions(report: Report) -> str:
    """Return the section on how the outputs were compared: model, oracle, tolerance, inputs, notes."""
    facts = [
        ["model", _render_code(report.model)],
        ["verified", report.subject],
        ["oracle", report.oracle_name],
        ["tolerance", "atol %g + rtol %g \N{MULTIPLICATION SIGN} |expected|" % (report.atol, report.rtol)],
        *([] if report.fidelity is None else [["accuracy", "an SNR of at least %g dB" % report.fidelity]]),
        ["inputs", "given" if report.seed is None else "generated from seed %d" % report.seed],
    ]
    facts += [
        ["input", Html("%s %s" % (_render_code(fed.name), _render_type(fed.dtype, fed.shape)))] for fed in report.inputs
    ]
    facts += [["note", note] for note in report.notes]
    return _render_section("How it was compared", _render_table("Conditions", ("", ""), facts), ident="conditions")

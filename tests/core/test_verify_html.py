"""The HTML page of a report: its content. It loads no other file and escapes every name."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, List, Tuple

import numpy as np
import pytest
from building import model, node, value

import onnx_compat
from onnx_compat.errors import InputError
from onnx_compat.shim.description import Description
from onnx_compat.verification.html import render_page, write_html
from onnx_compat.verification.html_chart import draw_chart

EVIL = '</code></title><script>alert(1)</script><img src=//x onerror="x">&amp;\'\u202e\x1b[31m'
VOID = ("meta", "input", "br", "img", "link")


class Parsed(HTMLParser):
    """The tags and texts of an HTML page. Parsing asserts that every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: List[Tuple[str, Any]] = []
        self.text: List[str] = []
        self._open: List[str] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def network(name: str = "neg") -> Any:
    nodes = [node("Neg", ["x"], [name + "_out"], name=name), node("Exp", [name + "_out"], ["y"], name="exp")]
    return model(nodes, [value("x", ["n", 3])], [value("y", ["n", 3])])


def verify_network(network: Any) -> Any:
    return onnx_compat.verify(
        network, {"x": np.float32([[1, 2, 3]])}, shim="reference", oracle="reference", layers=True
    )


def test_the_page_holds_the_results() -> None:
    parsed = Parsed(render_page(verify_network(network()), onnx_compat.load(network())))
    text = " ".join(parsed.text)
    for text_part in (
        "Layer by layer",
        "2 of 2",
        "values of nodes agree",
        "neg_out",
        "float32[1, 3]",
        "Neg",
        "How it was compared",
    ):
        assert text_part in text
    links = [attributes["href"] for tag, attributes in parsed.tags if tag == "a"]
    targets = {attributes["id"] for _, attributes in parsed.tags if "id" in attributes}
    assert "#layer-1" in links
    assert all(link[1:] in targets for link in links)


def test_the_page_loads_no_resource_and_runs_no_script() -> None:
    text = render_page(verify_network(network()), onnx_compat.load(network()))
    parsed = Parsed(text)
    assert not {tag for tag, _ in parsed.tags} & {"script", "img", "link", "iframe", "object", "base", "form"}
    assert all(attributes["href"].startswith("#") for tag, attributes in parsed.tags if "href" in attributes)
    assert not any(
        key.startswith("on") or key in ("src", "action") for _, attributes in parsed.tags for key in attributes
    )
    assert not re.search(r"https?:|url\(|@import", text)
    assert "default-src 'none'" in text


def test_names_are_escaped() -> None:
    evil_network = network(EVIL)
    file = Description({"description": EVIL, "operators": 1}, {
        "operator_counts": [{"operator": EVIL, "version": 1, "count": 2, "delegated": None}],
        "largest_tensors": [{"tensor": EVIL, "kind": EVIL, "type": EVIL, "shape": [1], "bytes": 4}],
        "metadata": [{"name": EVIL, "bytes": 3, "text": EVIL}],
    })  # fmt: skip
    report = verify_network(evil_network)._replace(fallbacks={EVIL: EVIL}, notes=[EVIL], model=EVIL)
    text = render_page(report, onnx_compat.load(evil_network), file)
    parsed = Parsed(text)
    assert not {tag for tag, _ in parsed.tags} & {"script", "img"}
    assert "\x1b" not in text and "\u202e" not in text
    assert sum("alert(1)" in text_part for text_part in parsed.text) > 8


def test_the_departing_node_is_marked() -> None:
    report = verify_network(network())
    layers = report.layers.layers
    bad = layers[1]._replace(comparison=layers[1].comparison._replace(verdict="mismatch"), snr=3.0)
    marked = report.layers._replace(layers=[layers[0], bad], culprit="exp", verdict="it is exp")
    text = render_page(report._replace(layers=marked), onnx_compat.load(network()))
    assert 'id="layer-1" class="wrong culprit"' in text
    assert 'id="only"' in text
    assert "It is exp." in text
    assert text.count('class="fail culprit"') == 1


@pytest.mark.parametrize(
    ("snr", "ok", "label"),
    [(None, False, "mismatch"), (float("inf"), True, "no error"), (40.0, True, "0.01"), (-90.0, False, "3.2e+04")],
)
def test_the_chart_draws_any_figure(snr: Any, ok: bool, label: str) -> None:
    layer = verify_network(network()).layers.layers[0]
    layer = layer._replace(snr=snr, comparison=layer.comparison._replace(verdict="match" if ok else "mismatch"))
    drawn = draw_chart([layer] * 700, None)
    assert "nan" not in drawn and "inf" not in drawn
    assert label in drawn
    positions = [float(y) for y in re.findall(r' cy="([^"]+)"', drawn)]
    assert all(0 <= y <= 220 for y in positions)
    assert ("arrow" in drawn) == (label in ("mismatch", "3.2e+04"))


def test_the_page_is_written_atomically(tmp_path: Path) -> None:
    report = verify_network(network())
    target = write_html(tmp_path / "r.html", report, network())
    assert target.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    with pytest.raises(InputError, match="does not exist"):
        write_html(tmp_path / "no" / "r.html", report, network())
    with pytest.raises(InputError, match="is a folder"):
        write_html(tmp_path, report, network())
    surrogate = report._replace(notes=["\udcff"])
    write_html(tmp_path / "r.html", surrogate, network())
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.html"]

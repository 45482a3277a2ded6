"""Use of the scoreboard: filters, links and comparisons, by mouse and by keyboard."""

from __future__ import annotations

import re
from typing import Callable, List

from playwright.sync_api import Locator, Page, expect

Visit = Callable[..., Page]


def _cells(page: Page) -> List[str]:
    """Return the cell of each row of the map, in their order."""
    return page.locator(".map tbody tr:not(.group) th[scope=row]").evaluate_all(
        "all => all.map((one) => one.dataset.cell)"
    )


def _cell(page: Page, row: str, column: str) -> Locator:
    at = page.locator(".map thead th").evaluate_all(
        "(all, text) => all.findIndex((one) => one.textContent === text)", column
    )
    return page.locator(f'.map tr:has(th[data-cell="{row}"]) > *').nth(at)


def test_the_map_shows_every_cell_with_its_share(visit: Visit) -> None:
    page = visit("#/map")
    assert len(_cells(page)) > 60, "also those that were never run"
    expect(_cell(page, "reference-onnx1.12.0-py37", "28")).to_have_text("100")
    expect(_cell(page, "tf2-2.20.0-py313", "17")).to_have_text("\u271591.6")
    expect(_cell(page, "tf2-2.20.0-py313", "18")).to_have_text("100")
    expect(_cell(page, "tf2-2.21.0-py313", "20")).to_have_text("\u25b360")
    label = _cell(page, "tf2-2.21.0-py313", "20").locator("a").get_attribute("aria-label")
    assert label == "tf2 2.21.0, opset 20: 60 percent; 9 pass, 3 fallback, 3 gap"
    expect(page.locator(".map .broken td")).to_contain_text("cannot import name 'runtime_version'")
    expect(page.locator(".map .no-gpu td")).to_contain_text("no GPU found: the framework lists no device")
    expect(page.locator(".map tbody .group th")).to_contain_text(["TensorFlow 1", "TensorFlow 2", "TensorFlow Lite", "Keras", "Reference", "Peers"])  # fmt: skip
    expect(_cell(page, "peer-onnx2tf-2.6.9-py312", "28")).to_have_text("\u271580")
    row = page.locator('.map th[data-cell="tf2-2.20.0-py313"]')
    expect(row).to_contain_text("2 days old, code moved")
    assert row.get_attribute("title") == (
        "tf2-2.20.0-py313; 2026-05-03 10:00; the code has moved: 2 inputs have changed since (a/first.py, a/second.py)"
    )
    expect(page.locator(".map tr.moved")).to_have_count(3)


def test_filters_narrow_the_map_and_are_in_the_address(visit: Visit) -> None:
    page = visit("#/map")
    page.get_by_role("combobox", name="Framework", exact=True).select_option("tf2")
    assert {cell.partition("-")[0] for cell in _cells(page)} == {"tf2"}
    page.get_by_label("Operator").fill("resize")
    expect(page.get_by_label("Operator")).to_be_focused()
    expect(_cell(page, "tf2-2.21.0-py313", "20")).to_have_text("\u25b30")
    expect(_cell(page, "tf2-2.21.0-py313", "17")).to_have_text("no case")
    page.get_by_role("combobox", name="State", exact=True).select_option("gap")
    assert _cells(page) == ["tf2-2.21.0-py313"]
    assert page.url.endswith("#/map?framework=tf2&operator=resize&state=gap")
    again = visit("#/map?framework=tf2&operator=resize&state=gap")
    assert _cells(again) == ["tf2-2.21.0-py313"]
    again.get_by_role("button", name="Clear").click()
    assert len(_cells(again)) > 60
    again.get_by_role("combobox", name="State", exact=True).select_option("no-gpu")
    assert _cells(again) == ["tf2-2.21.0-gpu-py313"]
    again.get_by_label("Operator").fill("nothing")
    expect(again.locator("main")).to_contain_text('No case has an operator "nothing".')


def test_an_operator_is_exact_where_there_is_one_of_its_name(visit: Visit) -> None:
    page = visit("#/map?operator=conv")
    expect(_cell(page, "tf2-2.20.0-py313", "17")).to_have_text("\u271566.6")
    page.get_by_label("Operator").fill("conv ")
    expect(_cell(page, "tf2-2.20.0-py313", "17")).to_have_text("\u271566.6")
    page.get_by_label("Operator").fill("con")
    expect(_cell(page, "tf2-2.20.0-py313", "17")).to_have_text("\u271583.3")


def test_a_cell_of_the_map_opens_its_operators_and_their_cases(visit: Visit) -> None:
    page = visit("#/map")
    _cell(page, "tf2-2.20.0-py313", "17").click()
    assert page.url.endswith("#/cell/tf2-2.20.0-py313/17")
    expect(page.locator("h1")).to_have_text("tf2 2.20.0 opset 17")
    expect(page.locator("h1")).to_be_focused()
    first = page.locator(".rows tbody tr").first
    expect(first).to_contain_text("Conv")
    expect(first).to_contain_text("fail")
    expect(page.get_by_text("y differs: 3 of 24 elements")).to_have_count(0)
    first.get_by_role("button").click()
    expect(first.get_by_role("button")).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_text("y differs: 3 of 24 elements")).to_be_visible()
    expect(page.get_by_text("test_conv_17_rare")).to_be_visible()
    page.get_by_text("2 pass", exact=True).click()
    expect(page.get_by_text("test_conv_17_plain")).to_be_visible()
    page.go_back()
    expect(_cell(page, "tf2-2.20.0-py313", "17").locator("a")).to_be_focused()


def test_error_texts_are_escaped(visit: Visit) -> None:
    page = visit("#/cell/tf2-2.21.0-py313/20/Resize")
    expect(page.get_by_text("Resize: <b>no</b> cubic").first).to_be_visible()
    expect(page.locator("main .error b")).to_have_count(0)


def test_deep_links_open_their_target(visit: Visit) -> None:
    page = visit("#/cell/tf2-2.21.0-py313/all/Loop")
    expect(page.locator(".rows").first.locator("tbody th")).to_have_text(["Loop"])
    expect(page.get_by_text("outside of the framework: Loop_0").first).to_be_visible()
    page.get_by_role("navigation", name="Opsets").get_by_role("link", name=re.compile("^20")).click()
    expect(page.locator("h1")).to_have_text("tf2 2.21.0 opset 20")
    expect(visit("#/cell/nothing/7").locator("main")).to_contain_text("No such cell")
    expect(visit("#/cell/keras-3.0.5-tensorflow-py39/all").locator("main")).to_contain_text("broken: the cell did not")
    expect(visit("#/%zz/%").locator("h1")).to_have_text("Which versions run an operator")


def test_the_map_is_navigated_by_keyboard(visit: Visit) -> None:
    page = visit("#/map?framework=reference")
    page.get_by_role("button", name="Clear").focus()
    page.keyboard.press("Tab")
    focus = page.locator(":focus")
    assert (focus.get_attribute("href") or "").startswith("#/cell/reference-"), "one stop for the whole map"
    page.keyboard.press("Control+End")
    expect(focus).to_have_attribute("href", "#/cell/reference-onnx1.12.0-py37/28")
    page.keyboard.press("ArrowLeft")
    expect(focus).to_have_attribute("href", "#/cell/reference-onnx1.12.0-py37/27")
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    expect(focus).to_have_attribute("href", "#/cell/reference-onnx1.12.0-py37/all")
    page.keyboard.press("ArrowUp")
    assert (focus.get_attribute("href") or "") == "#/cell/reference-onnx1.13.1-py37/all"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("End")
    outline = focus.evaluate("one => getComputedStyle(one).outlineStyle + getComputedStyle(one).outlineWidth")
    assert outline == "solid3px"
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("reference onnx1.12.0 opset 28")
    page.keyboard.press("Escape")
    expect(focus).to_have_attribute("href", "#/cell/reference-onnx1.12.0-py37/28")
    page.keyboard.press("/")
    expect(page.get_by_label("Operator")).to_be_focused()


def test_two_runs_side_by_side(visit: Visit) -> None:
    page = visit("#/compare/tf2-2.21.0-py313/tf2-2.20.0-py313")
    totals = page.locator(".rows").first
    expect(totals.locator(".difference td.number")).to_have_text(["+64", "\u221239", "\u221227", "+2"])
    operators = page.locator(".rows").nth(1).locator("tbody tr")
    expect(operators.locator("th")).to_have_text(["Conv", "Loop", "Resize", "Scan"])
    expect(operators.first.locator("td")).to_have_text(
        ["11", "\u2713 pass", "\u2715 fail", "\u22121", "\u00b7", "\u00b7", "+1"]
    )
    expect(page.get_by_text("B: y differs: 3 of 24 elements")).to_be_visible()
    page.get_by_role("button", name="Swap").click()
    assert page.url.endswith("#/compare/tf2-2.20.0-py313/tf2-2.21.0-py313")
    expect(page.get_by_role("combobox", name="A", exact=True)).to_have_value("tf2-2.20.0-py313")  # drawn anew by now
    page.get_by_role("combobox", name="B", exact=True).select_option("tf2-2.20.0-py313~2026-05-02T10:00:00Z")
    expect(page.get_by_text("B: y differs: 9 of 24 elements").first).to_be_visible()
    page.get_by_role("combobox", name="B", exact=True).select_option("tf2-2.20.0-py313")
    expect(page.locator("main")).to_contain_text("Every operator does the same in both.")


def test_history_draws_a_line_for_each_cell_that_ran_again(visit: Visit) -> None:
    page = visit()
    page.get_by_role("link", name="History").click()
    expect(page.get_by_role("link", name="History")).to_have_attribute("aria-current", "page")
    drawn = page.locator("figure", has=page.locator("svg"))
    expect(drawn).to_have_count(1)
    expect(drawn).to_contain_text("tf2 2.20.0")
    expect(drawn).to_contain_text("3 runs to 2026-05-03")
    expect(drawn.locator("circle")).to_have_count(3)
    heights = drawn.locator("circle").evaluate_all("all => all.map((one) => Number(one.getAttribute('cy')))")
    assert heights == sorted(heights, reverse=True) and len(set(heights)) == 3, "each run is better than the one before"
    page.get_by_role("combobox", name="Framework", exact=True).select_option("tflite")
    expect(page.locator("figure")).to_have_count(1)


def test_tables_have_captions(visit: Visit) -> None:
    page = visit("#/map?framework=tf2")
    grid = page.get_by_role("grid", name="Share of cases that pass, by cell and opset")
    expect(grid.get_by_role("columnheader", name="28", exact=True)).to_have_count(1)
    expect(grid.get_by_role("rowheader", name="2.20.0 py3.13")).to_have_count(1)
    assert grid.get_by_role("gridcell").count() > 24
    expect(page.get_by_role("status")).to_have_text(re.compile(r"^\d+ of \d+ cells$"))
    unnamed = "all => all.filter((one) => !one.labels.length).map((one) => one.name)"
    assert page.locator("select, input").evaluate_all(unnamed) == []

"""The first view of the scoreboard: the search for an operator, ranges of versions, and cards of peers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable, List

import pytest
from playwright.sync_api import Locator, Page, expect

Visit = Callable[..., Page]
OUTCOMES = ("pass", "fallback", "gap", "fail", "void")


def _card(page: Page, title: str) -> Locator:
    return page.locator(".card", has=page.locator("h3", has_text=re.compile(f"^{re.escape(title)}\\b")))


def _ranges(card: Locator) -> List[str]:
    """Return the text of each range of a card, in a line."""
    return [" ".join(text.split()) for text in card.locator(".range").all_inner_texts()]


def test_the_page_opens_on_the_search(visit: Visit) -> None:
    page = visit()
    expect(page.locator("h1")).to_have_text("Which versions run an operator")
    expect(page.get_by_role("link", name="Operators", exact=True)).to_have_attribute("aria-current", "page")
    field = page.get_by_label("Operator")
    expect(field).to_be_in_viewport()
    page.keyboard.press("/")
    expect(field).to_be_focused()
    page.keyboard.type("relu")
    expect(field).to_be_focused()
    assert page.url.endswith("#/operators?operator=relu")
    expect(page.get_by_role("status")).to_have_text("1 of 7 operators")
    expect(page.locator("h2")).to_have_text("Relu in cases without another operator")


def test_the_results_of_all_cases_wait_until_a_view_needs_them(visit: Visit) -> None:
    page = visit()
    spy = """() => {
      const [parse, text] = [JSON.parse, document.getElementById("results").textContent];
      window.parsed = 0;
      JSON.parse = (given) => ((window.parsed += given === text), parse(given));
    }"""
    page.evaluate(spy)
    page.get_by_label("Operator").fill("relu")
    assert page.evaluate("window.parsed") == 0
    page.get_by_role("link", name="Map").click()
    expect(page.locator("h1")).to_have_text("What runs where")
    assert page.evaluate("window.parsed") == 1


def test_versions_with_the_same_results_are_one_range(visit: Visit) -> None:
    page = visit("#/operators?operator=Relu")
    assert _ranges(_card(page, "TensorFlow 2"))[:2] == [
        "2.20.0 \u2013 2.21.0 \u2713 pass 100 % of 45 2 days old, code moved for 1 of 2",
        "2.0.4 \u2013 2.19.1 \u2026 not run yet",
    ]
    page.get_by_label("Operator").fill("Conv")
    assert _ranges(_card(page, "TensorFlow 2"))[:2] == [
        "2.21.0 \u2713 pass 100 % of 54 2 days old",
        "2.20.0 \u2715 fail 98.1 % of 54 2 days old, code moved",
    ]
    expect(page.locator("main")).to_contain_text("See also: ConvTranspose")
    assert (
        _ranges(_card(page, "TensorFlow Lite"))[0]
        == "litert 2.3.0 py3.13 \u21b7 fallback 0 % of 54 2 days old, code moved"
    )
    page.get_by_label("Operator").fill("Resize")
    assert _ranges(_card(page, "TensorFlow 2"))[0] == "2.21.0 \u25b3 gap 10 % of 30 2 days old"


def test_a_range_opens_the_cases_of_its_newest_version(visit: Visit) -> None:
    page = visit("#/operators?operator=Relu")
    _card(page, "TensorFlow 2").locator(".range a").first.click()
    assert page.url.endswith("#/cell/tf2-2.21.0-py313/all/Relu")
    expect(page.locator(".rows").first.locator("tbody th")).to_have_text(["Relu"])
    page.get_by_role("link", name="\u2190 Operators").click()
    assert page.url.endswith("#/operators?operator=Relu")
    expect(_card(page, "TensorFlow 2").locator(".range a").first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("tf2 2.21.0 all opsets")
    page.keyboard.press("Escape")
    expect(page.locator("h1")).to_have_text("Which versions run an operator")


def test_a_part_of_a_name_lists_the_operators(visit: Visit) -> None:
    page = visit("#/operators?operator=con")
    expect(page.locator(".outcomes tbody th")).to_have_text(["Conv", "ConvTranspose"])
    page.get_by_role("link", name="ConvTranspose").click()
    expect(page.locator("h2")).to_contain_text("ConvTranspose")
    page.get_by_label("Operator").fill("nothing")
    expect(page.locator("main")).to_contain_text('No case has an operator "nothing".')
    page.get_by_label("Operator").fill("")
    page.get_by_text("All 7 operators").click()
    expect(page.locator(".outcomes tbody tr")).to_have_count(7)
    page.get_by_role("combobox", name="Framework", exact=True).select_option("tf2")
    expect(page.locator(".card")).to_have_count(1)


def test_peers_have_cards_on_the_common_cases_that_they_can_read(visit: Visit) -> None:
    page = visit()
    card = _card(page, "onnxruntime")
    expect(card.locator(".big")).to_have_text("98.4 %")
    expect(card).to_contain_text("191 of 194 common cases up to opset 26 (onnx 1.21.0), the newest that it reads")
    expect(card).to_contain_text("85.2 % of all 224")
    assert _ranges(card) == ["1.31.1 191 pass, 30 gap, 3 fail 2 days old"]
    expect(_card(page, "onnx2tf").locator(".big")).to_have_text("82.5 %")
    expect(_card(page, "TensorFlow Lite").locator(".big")).to_have_text("0 %")
    expect(_card(page, "TensorFlow Lite")).to_contain_text("100 % right with fallbacks")


def test_a_sample_is_marked_and_has_a_common_set_of_its_own(visit: Visit) -> None:
    page = visit()
    expect(page.locator(".tag")).to_have_text(["sample: every 4th"])
    expect(_card(page, "onnx-tf")).to_contain_text("It ran 56 of the 224 common cases.")
    page.get_by_role("combobox", name="Common cases").select_option("sample")
    assert page.url.endswith("#/operators?cases=sample")
    expect(_card(page, "TensorFlow 2")).to_contain_text("of 56 common cases")
    expect(_card(page, "onnx-tf")).not_to_contain_text("It ran")
    expect(visit("#/operators?operator=Relu").locator(".tag")).to_have_text(["sample: every 4th"])
    expect(visit("#/map").locator(".tag")).to_have_text(["sample: every 4th"])
    expect(visit("#/cell/peer-onnx-tf-1.10.0-py39/all").locator(".facts")).to_contain_text("every 4th")


@pytest.mark.parametrize(
    ("now", "text"),
    [
        ("2026-05-03T23:00:00Z", "today"),
        ("2026-05-04T10:00:00Z", "1 day old"),
        ("2026-06-30T10:00:00Z", "58 days old"),
        ("2026-09-03T10:00:00Z", "4 months old"),
        ("2029-05-05T10:00:00Z", "3 years old"),
    ],
)
def test_a_page_tells_the_age_on_the_clock_of_its_reader(visit: Visit, now: str, text: str) -> None:
    page = visit()
    page.clock.set_fixed_time(now)
    page.reload()
    expect(_card(page, "onnxruntime").locator(".age")).to_have_text(text)


def test_results_that_are_older_than_the_code_are_greyed(visit: Visit) -> None:
    page = visit("#/cell/tf2-2.20.0-py313/all")
    facts = page.locator(".facts")
    expect(facts).to_contain_text("2026-05-03 10:00 UTC (2 days old)")
    expect(facts).to_contain_text("code since2 inputs have changed since, such as a/first.py, a/second.py")
    expect(page.locator(".opsets")).to_have_class("opsets moved")
    fresh = visit("#/cell/tf2-2.21.0-py313/all")
    expect(fresh.locator(".facts")).to_contain_text("code sincethe same")
    expect(fresh.locator(".opsets")).to_have_class("opsets")
    cards = visit()
    expect(_card(cards, "onnx2tf").locator(".share-of-common")).to_have_class("share-of-common moved")
    expect(_card(cards, "onnxruntime").locator(".share-of-common")).to_have_class("share-of-common")


def test_a_case_beside_other_operators_does_not_decide(visit: Visit) -> None:
    page = visit("#/cell/tf2-2.20.0-py313/16/Where")
    expect(page.locator(".rows").first.locator("tbody tr").first.locator("td")).to_have_text(
        ["16", "\u2713 pass", "1", "0", "0", "0", "0", "\u2715 1 fail"]
    )
    scan = visit("#/cell/tf2-2.20.0-py313/16/Scan").locator(".rows").first.locator("tbody tr").first.locator("td")
    expect(scan).to_have_text(["16", "\u2715 fail beside others", "0", "0", "0", "1", "0", "\u2013"])
    expect(visit("#/operators?operator=Scan").locator("h2")).to_contain_text("only in cases with other operators")


#: The rows whose outcome is not the worst of the counts in the same row.
ROWS = """(outcomes) => [...document.querySelectorAll(".rows tbody tr:not(.cases)")].filter((row) => {
  const counts = [...row.querySelectorAll("td.number")].slice(0, 5).map((cell) => Number(cell.textContent.replace(/,/g, "")));
  const counted = [3, 2, 1, 0, 4].find((i) => counts[i]);
  return row.querySelector(".told") && row.querySelector(".told").textContent.slice(2) !== outcomes[counted];
}).map((row) => row.textContent)"""
#: The ranges whose sign, share and step of the scale are not those of the counts in their titles.
RANGES = """(outcomes) => [...document.querySelectorAll(".range:not(.state)")].filter((item) => {
  const told = item.querySelector("a").title.split(": ")[1];
  const counts = outcomes.map((name) => Number((told.match(new RegExp(`([\\\\d,]+) ${name}`)) || [0, "0"])[1].replace(/,/g, "")));
  const all = counts[0] + counts[1] + counts[2] + counts[3];
  const worst = outcomes[[3, 2, 1, 0, 4].find((i) => counts[i])];
  const outcome = item.querySelector(".outcome");
  const step = { pass: "5", fallback: "4", gap: "123", fail: "0" }[worst] || "";
  const level = (item.className.match(/level(\\d)/) || ["", ""])[1];
  const share = (item.querySelector(".of").textContent.match(/^(.+) % of ([\\d,]+)$/) || []).slice(1);
  const wrong = share.length && ((share[0] === "100") !== (counts[0] === all) || (share[0] === "0") !== !counts[0] || Number(share[1].replace(/,/g, "")) !== all);
  return wrong || (all ? !step.includes(level) || !level : level) || (outcome && outcome.textContent.slice(2) !== (worst || " case"));
}).map((item) => item.textContent + item.querySelector("a").title)"""


def _find_contradictions(page: Page, cells: List[str], operators: List[str]) -> List[Any]:
    wrong: List[Any] = []
    for hash in [f"#/cell/{cell}/all" for cell in cells] + [
        f"#/operators?operator={name}" for name in ["", *operators]
    ]:
        page.evaluate("(hash) => (location.hash = hash)", hash)
        expect(page.locator(".rows, .cards").first).to_be_visible()
        wrong += page.evaluate(ROWS, OUTCOMES) + page.evaluate(RANGES, OUTCOMES)
    return wrong


def test_an_outcome_never_contradicts_its_counts(visit: Visit) -> None:
    cells = ["tf2-2.21.0-py313", "tf2-2.20.0-py313", "tflite-litert-2.3.0-py313", "peer-onnxruntime-1.31.1-py313"]
    assert _find_contradictions(visit(), cells, ["Conv", "Relu", "Resize", "Loop", "Where", "Scan"]) == []


def test_an_outcome_of_the_stored_results_never_contradicts_its_counts(visit: Visit, stored_page: Path) -> None:
    page = visit(address=stored_page.as_uri())
    names = page.locator("#operators option").evaluate_all("all => all.map((one) => one.value)")
    links = page.locator(".range:not(.state) a").evaluate_all(
        "all => all.map((one) => one.getAttribute('href').split('/')[2])"
    )
    assert len(names) > 100 and len(links) > 10
    assert _find_contradictions(page, links, names) == []


def test_a_share_is_not_rounded_to_none_or_all(visit: Visit, tmp_path: Path) -> None:
    from matrix.data import load
    from matrix.scoreboard.cases import Known, write_cases
    from matrix.scoreboard.gather import gather
    from matrix.scoreboard.page import render_page

    folder = tmp_path / "scoreboard"
    ids = [f"node/9.9/test_{n}" for n in range(1500)]
    write_cases({id: Known(13, ("Abs-13",)) for id in ids}, folder / "stored")
    (folder / "given").mkdir()
    for cell, first, rest in (("tf2-2.21.0-py313", "pass", "gap"), ("tf2-2.20.0-py313", "gap", "pass")):
        results = [{"id": id, "outcome": first if id == ids[0] else rest} for id in ids]
        counts = {"node/9.9": {"fallback": 0, "fail": 0, first: 1, rest: len(ids) - 1}}
        content = {"cell": cell, "shim": "tf2", "date": "2026-05-03T10:00:00Z", "counts": counts, "results": results}
        (folder / "given" / f"{cell}.json").write_text(json.dumps(content), encoding="utf-8")
    path = folder / "index.html"
    path.write_text(render_page(load(), gather([folder / "given"], folder / "stored")), encoding="utf-8")
    page = visit("#/operators?operator=Abs", address=path.as_uri())
    shares = _card(page, "TensorFlow 2").locator(".range .of").all_inner_texts()
    assert shares[:2] == ["<0.1 % of 1,500", "99.9 % of 1,500"]

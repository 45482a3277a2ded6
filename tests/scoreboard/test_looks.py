"""Appearance of the scoreboard: light and dark, wide and on a phone, with made-up and with stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import pytest
from playwright.sync_api import Page

Visit = Callable[..., Page]
Picture = Callable[[Page, str], None]
VIEWS = {
    "operators": "#/operators",
    "operator": "#/operators?operator=conv",
    "matches": "#/operators?operator=con",
    "map": "#/map",
    "cell": "#/cell/tf2-2.21.0-py313/20/Resize",
    "state": "#/cell/keras-3.0.5-tensorflow-py39/all",
    "compare": "#/compare/tf2-2.21.0-py313/tf2-2.20.0-py313",
    "history": "#/history",
}
#: The least contrast of a visible text with its background, as defined by WCAG.
CONTRAST = """() => {
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const parse = (text) => text.match(/[\\d.]+/g).map((part, i) => text.startsWith("color(srgb") && i < 3 ? 255 * part : Number(part));
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour.slice(0, 3);
    }
    return [255, 255, 255];
  };
  let least = [99, ""];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const one = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !one.checkVisibility() || one.closest(".unseen, .skip, script, datalist, .nothing")) continue;
    const [a, b] = [parse(getComputedStyle(one).color).slice(0, 3), behind(one)].map(light).sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < least[0]) least = [ratio, one.outerHTML.slice(0, 120)];
  }
  return least;
}"""


def _fits(page: Page) -> None:
    """Assert that the page is not wider than the window, which a phone would shrink to fit."""
    wide = page.evaluate("[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]")
    assert page.viewport_size is not None and max(wide) <= page.viewport_size["width"], wide


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(visit: Visit, picture: Picture, view: str, scheme: Any) -> None:
    page = visit(VIEWS[view], color_scheme=scheme)
    ratio, text = page.evaluate(CONTRAST)
    assert ratio >= 4.5, text
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor").removeprefix("rgb(").split(",")[0]
    assert (int(ground) > 200) == (scheme == "light")
    picture(page, f"{view}-{scheme}")


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [320, 360, 768])
def test_the_page_fits_a_phone(visit: Visit, picture: Picture, view: str, width: int) -> None:
    page = visit(VIEWS[view], width=width, height=740, is_mobile=True, has_touch=True)
    _fits(page)
    picture(page, f"{view}-{width}")


def test_the_map_scrolls_in_its_box_and_its_names_stay(visit: Visit, picture: Picture) -> None:
    page = visit("#/map?framework=tf2", width=360, height=740)
    box = page.locator(".scroll")
    assert box.evaluate("one => one.scrollWidth > one.clientWidth")
    box.evaluate("one => (one.scrollLeft = 600)")
    name = page.locator('.map th[data-cell="tf2-2.20.0-py313"]')
    name.scroll_into_view_if_needed()
    box_of_name = name.bounding_box()
    assert box_of_name is not None and 0 <= box_of_name["x"] < 30
    _fits(page)
    picture(page, "map-360-scrolled")


def test_greyed_steps_stay_apart_from_the_others(visit: Visit) -> None:
    page = visit("#/operators?operator=conv")
    grounds = page.locator(".range").evaluate_all(
        "all => all.map((one) => [one.className, getComputedStyle(one).backgroundColor])"
    )
    by_class = dict(grounds)
    assert {"range level5", "range level5 moved", "range level0 moved", "range state"} <= set(by_class)
    assert len(set(by_class.values())) == len(by_class)


def test_the_stored_page_opens(visit: Visit, picture: Picture, stored_page: Path) -> None:
    page = visit("#/map", address=stored_page.as_uri(), width=1440)
    assert page.locator(".map td[class^=level]").count() > 100
    _fits(page)
    picture(page, "stored")
    page.goto(stored_page.as_uri() + str(page.locator(".map td[class^=level] a").first.get_attribute("href")))
    assert page.locator(".rows tbody tr").count() > 10
    page.goto(stored_page.as_uri() + "#/operators")
    _fits(page)
    picture(page, "stored-operators")
    page.goto(stored_page.as_uri() + "#/compare")
    assert page.locator(".rows").count() >= 1
    picture(page, "stored-compare")

"""Fixtures: headless Chromium, and a scoreboard of a few made-up runs."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple
from unittest import mock

import pytest
from playwright.sync_api import Browser, Page, Playwright, Request, sync_playwright

ROOT = Path(__file__).parents[2]
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WHAT_TO_DO = """There is no Chromium to open the page in. Install one (Debian: `apt-get install chromium-headless-shell`; or
`playwright install chromium-headless-shell`), or name the program of one in CHROMIUM."""

OUTCOMES = ("pass", "fallback", "gap", "fail")
OPERATORS = {"Conv": 11, "ConvTranspose": 11, "Relu": 14, "Resize": 19, "Loop": 16}


def _program(playwright: Playwright) -> str:
    configured = os.environ.get("CHROMIUM")
    candidates = (
        [configured] if configured else [*filter(None, map(shutil.which, NAMES)), playwright.chromium.executable_path]
    )
    if not Path(candidates[0]).exists():
        pytest.exit(WHAT_TO_DO, returncode=1)
    return candidates[0]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        root = hasattr(os, "geteuid") and os.geteuid() == 0  # Chromium has no sandbox for this user
        program = _program(playwright)
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"] if root else [])
        yield started
        started.close()


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the address of the scoreboard of made-up runs."""
    from matrix.data import load
    from matrix.scoreboard.age import Moved
    from matrix.scoreboard.cases import Known, write_cases
    from matrix.scoreboard.gather import Run, gather
    from matrix.scoreboard.page import render_page

    def find_moved(matrix: Any, runs: List[Run]) -> Dict[int, Moved]:
        moved = Moved("2 inputs have changed since", 2, ("a/first.py", "a/second.py"))
        return {id(run): moved for run in runs if run.cell in MOVED}

    folder = tmp_path_factory.mktemp("board")
    names = ("plain", "strides", "rare")
    cases = {
        f"node/9.9/test_{name.lower()}_{opset}_{kind}": Known(opset, (f"{name}-{since}",))
        for name, since in OPERATORS.items()
        for opset in range(since, 29)
        for kind in names
    }
    cases["node/9.9/test_where_plain"] = Known(16, ("Where-16",))
    cases["node/9.9/test_where_in_scan"] = Known(16, ("Scan-16", "Where-16"))
    write_cases(cases, folder / "stored")
    for k, (cell, date, failing) in enumerate(RUNS):
        content = {
            "cell": cell,
            "shim": cell.partition("-")[0],
            "date": date,
            "revision": f"a{k}",
            **_make_results(list(cases)[:: SAMPLES.get(cell, 1)], failing),
            **({"sample": f"every {SAMPLES[cell]}th"} if cell in SAMPLES else {}),
        }
        _write(folder / "given" / f"{k}.json", {**content, "natives": ["Conv"], "peer": cell.startswith("peer-")})
    for cell, state, reason in SILENT:
        shim = cell.partition("-")[0]
        _write(folder / "given" / f"{state}.json", {"cell": cell, "shim": shim, "state": state, "reason": reason})
    path = folder / "index.html"
    with mock.patch("matrix.scoreboard.page.find_moved", find_moved):
        path.write_text(render_page(load(), gather([folder / "given"], folder / "stored")), encoding="utf-8")
    return path.as_uri()


#: Cell, date, and its failures: part of the name of a case -> outcome and error.
RUNS: List[Tuple[str, str, Dict[str, Tuple[str, str]]]] = [
    ("tf2-2.21.0-py313", "2026-05-03T10:00:00Z", {"resize_2": ("gap", "Resize: <b>no</b> cubic"), "loop": ("fallback", "Loop_0")}),
    ("tf2-2.20.0-py313", "2026-05-03T10:00:00Z", {"conv_17_rare": ("fail", "y differs: 3 of 24 elements"), "where_in_scan": ("fail", "z differs")}),
    ("tf2-2.20.0-py313", "2026-05-02T10:00:00Z", {"conv": ("fail", "y differs: 9 of 24 elements")}),
    ("tf2-2.20.0-py313", "2026-05-01T10:00:00Z", {"conv": ("fail", "y differs"), "relu": ("gap", "Relu")}),
    ("reference-onnx1.12.0-py37", "2026-05-03T10:00:00Z", {}),
    ("tflite-litert-2.3.0-py313", "2026-05-03T10:00:00Z", {"": ("fallback", "all of them")}),
    ("peer-onnx2tf-2.6.9-py312", "2026-05-03T10:00:00Z", {"loop": ("fail", "KeyError: 'Loop'")}),
    ("peer-onnxruntime-1.31.1-py313", "2026-05-03T10:00:00Z", {"_27_": ("gap", "opset 27"), "_28_": ("gap", "opset 28"), "relu_20": ("fail", "y differs")}),
    ("peer-onnx-tf-1.10.0-py39", "2026-05-03T10:00:00Z", {"relu": ("fail", "y differs")}),
]  # fmt: skip
#: Cell -> N: it ran every Nth case.
SAMPLES = {"peer-onnx-tf-1.10.0-py39": 4}
#: The cells whose results are older than the code.
MOVED = ("tf2-2.20.0-py313", "tflite-litert-2.3.0-py313", "peer-onnx2tf-2.6.9-py312")
#: The time on the clock of the browser.
NOW = "2026-05-05T12:00:00Z"
SILENT = [
    ("tf2-2.21.0-gpu-py313", "no-gpu", "the framework lists no device"),
    ("keras-3.0.5-tensorflow-py39", "broken", "ImportError: cannot import name 'runtime_version'"),
]


def _make_results(cases: List[str], failing: Dict[str, Tuple[str, str]]) -> Dict[str, Any]:
    results = []
    counts = dict.fromkeys(OUTCOMES, 0)
    for id_ in cases:
        outcome, detail = next((result for part, result in failing.items() if part in id_), ("pass", ""))
        counts[outcome] += 1
        results.append({"id": id_, "outcome": outcome, "detail": detail})
    return {"counts": {"node/9.9": counts}, "results": results}


def _write(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def visit(browser: Browser, board: str) -> Iterator[Callable[..., Page]]:
    """Return a function that opens the page. It asserts that there is no error and no request to another address."""
    addresses: List[str] = []
    wrong: List[str] = []
    contexts = []

    def heard(request: Request) -> None:
        if not request.url.startswith("data:"):
            addresses.append(request.url.partition("#")[0])

    def open_page(hash: str = "", width: int = 1280, height: int = 900, address: str = board, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("request", heard)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type in {"error", "warning"} else None)
        page.clock.set_fixed_time(NOW)
        page.goto(address + hash)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert wrong == []
    assert {address.partition("?")[0] for address in addresses if not address.endswith("/scoreboard/index.html")} <= {
        board
    }


@pytest.fixture
def picture(request: pytest.FixtureRequest) -> Callable[[Page, str], None]:
    """Return a function that saves a screenshot of a page."""
    folder = ROOT / "results" / "pictures"

    def keep(page: Page, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(folder / f"{name}.png"))

    return keep


@pytest.fixture(scope="session")
def stored_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the scoreboard of the stored results with the command, and return its path."""
    from matrix.__main__ import main

    folder = tmp_path_factory.mktemp("stored") / "scoreboard"
    assert main(["scoreboard", "--out", str(folder)]) == 0
    return folder / "index.html"

"""Stored figures of models at other opsets, the page that shows them, and the row of time and memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict

import onnx
import pytest

from matrix.retarget import generated, speed
from matrix.retarget.outcomes import FIXED_POINT, INVALID, OURS, READ_WRITE, REFUSED, RIGHT, UNVERIFIED, VOID, WRONG
from matrix.retarget.page import render_page
from matrix.retarget.result import Result
from matrix.retarget.store import load_measured, record
from matrix.retarget.tool_run import TOOLS


def test_recorded_entries_keep_the_others_and_have_their_revision(tmp_path: Path) -> None:
    path = tmp_path / "measured.json"
    record("nodes", Result({"a 9": {"counts": {RIGHT: 1}}, "a 11": {"counts": {RIGHT: 1}}}), "first", path)
    record("nodes", Result({"a 9": {"counts": {RIGHT: 2}}}), "second", path)
    record("suites", Result({"s": {"tests": 3}}), "second", path)
    document = load_measured(path)
    assert document["rows"] == {
        "nodes": {
            "a 9": {"counts": {RIGHT: 2}, "revision": "second"},
            "a 11": {"counts": {RIGHT: 1}, "revision": "first"},
        },
        "suites": {"s": {"tests": 3, "revision": "second"}},
    }
    assert document["versions"]["onnx"] == onnx.__version__


def document() -> Dict[str, Any]:
    def node(converter: str, **counts: int) -> Dict[str, Any]:
        return {"converter": converter, "opset": 9, "counts": counts, "revision": "abc"}

    tools = {READ_WRITE: {"seconds": 2.0, "peak": 2000}, OURS: {"seconds": 3.0, "peak": 1100}, "x": {"failed": "a|b"}}
    return {
        "versions": {"onnx": "1.2.3"},
        "rows": {
            "nodes": {
                "onnx-compat 9": {**node(OURS, **{RIGHT: 90, REFUSED: 10}), "refused": {"Equal": 4, "Relu": 6}},
                "onnx 9": node("onnx", **{RIGHT: 8, WRONG: 2, INVALID: 3}),
            },
            "networks": {
                "exported 11": {"group": "exported", "opset": 11, "counts": {RIGHT: 4, WRONG: 1}, "composed": 2,
                                "median": 1.125, "largest": 1.5, "revision": "abc"},
            },
            "suites": {"s_test.py": {"project": "onnx", "tests": 9, "passed": 7, "more": 1, "revision": "abc"}},
            "round_trip": {
                "node/1": {"counts": {FIXED_POINT: 5, VOID: 1}, "revision": "abc"},
                "node/2": {"counts": {FIXED_POINT: 6, REFUSED: 2}, "revision": "def"},
            },
            "speed": {"net": {"bytes": 1000, "tools": tools, "revision": "abc"}},
        },
    }  # fmt: skip


def test_the_page_has_a_row_for_each_figure() -> None:
    lines = render_page(document()).splitlines()
    for row in (
        "| 9 | 100 | 90 (90.0 %) | 0 | 8 | 5 |  |  |",
        "| Relu | 9: 6 | not declared |",
        "| exported | 11 | 4 of 5 | 2 | 1.12 | 1.50 |",
        "| onnx | `s_test.py` | 9 | 7 | 1 |",
        "| node | 14 | 11 | 0 | 1 | 2 refused |",
        "| net, 0 MB | onnx-compat | 3.00 s | 1.50 | 1.10 |",
        "| net, 0 MB | x | fails: a/b |  |  |",
        "Revision: `abc`, `def`",
        "onnx 1.2.3",
    ):
        assert row in lines


def test_a_row_without_figures_has_no_section() -> None:
    stored = document()
    del stored["rows"]["speed"]
    assert "## Time and memory" in render_page(document())
    assert "## Time and memory" not in render_page(stored)


def entry(name: str, ours: float, peak: int) -> Dict[str, Any]:
    base = {"seconds": 1.0, "peak": 2000}
    return {
        "bytes": 1000,
        "tools": {READ_WRITE: base, UNVERIFIED: {**base, "seconds": ours}, OURS: {**base, "peak": peak}},
    }


def test_slow_or_large_conversions_miss_their_aims() -> None:
    assert speed.check_entry("net", entry("net", 1.5, 9000)) == []
    assert speed.check_entry("net", entry("net", 1.6, 100)) == ["net: 1.60 times the time to read and write it"]
    assert speed.check_entry(speed.LARGEST, entry(speed.LARGEST, 9, 1300)) == []
    assert speed.check_entry(speed.LARGEST, entry(speed.LARGEST, 1, 1400)) == [
        "weights of 1 GB: peak memory of 1.40 times its size"
    ]
    failed = entry("net", 1, 1)
    failed["tools"][OURS] = {"failed": "why"}
    assert speed.check_entry("net", failed) == ["net: onnx-compat: why"]


def test_a_tool_is_timed_in_a_process_and_a_failure_has_its_reason(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(generated.bert(1, 16, 2, 8), str(path))
    run = speed.run_tool(UNVERIFIED, path, path)
    assert run["seconds"] < 60 and run["peak"] > 1 << 20
    written = onnx.load(str(tmp_path / "target.onnx"))
    assert written.opset_import[0].version == 13
    assert "LayerNormalization" not in {node.op_type for node in written.graph.node}
    assert speed.run_tool(READ_WRITE, tmp_path / "none.onnx", path)["failed"].startswith(
        "exit code 1: FileNotFoundError"
    )


@pytest.mark.parametrize("proto", [generated.resnet50((1, 1), 4), generated.bert(1, 16, 2, 8), generated.chain(2, 8)])
def test_generated_networks_are_valid_and_their_sizes_are_inferred(proto: Any) -> None:
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == generated.OPSET


def test_every_model_and_tool_has_a_name_of_its_own() -> None:
    assert speed.LARGEST in generated.MODELS
    assert {READ_WRITE, UNVERIFIED, OURS} <= TOOLS.keys()

"""Cases that the fuzzer found and shrank, on the shim under test: its result must equal the stored oracle's.

A case belongs to the shim that its name begins with. Any other shim may refuse it with an error of this library. A case with a
format belongs to that shim alone.
"""

import json
import os
from pathlib import Path
from typing import Any, Dict, List

import pytest

from matrix.fuzz.document import parse_case
from matrix.fuzz.execution import FALLBACK, REFUSED, SAME, execute

SHIM = os.environ.get("ONNX_COMPAT_SHIM", "reference")
CASES = Path(__file__).parent / "cases"


def stored_cases() -> List[Path]:
    """Return the files of the cases that the shim runs."""
    files = sorted(CASES.glob("*.json"))
    return [path for path in files if _document(path)["form"] is None or path.name.startswith(SHIM + "-")]


def _document(path: Path) -> Dict[str, Any]:
    document: Dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return document


@pytest.mark.parametrize("path", stored_cases(), ids=lambda path: path.stem)
def test_case(path: Path) -> None:
    document = _document(path)
    outcome = execute(parse_case(document), SHIM, document["form"])
    allowed = [SAME, FALLBACK] if path.name.startswith(SHIM + "-") else [SAME, FALLBACK, REFUSED]
    assert outcome.kind in allowed, outcome.detail


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_a_case_names_its_cause(path: Path) -> None:
    assert _document(path)["cause"]

"""Damaged files and models give typed errors: a short campaign of each kind, and the inputs that once failed."""

import os
import sys
from pathlib import Path
from typing import List

import pytest

from matrix.fuzz.damage.campaign import has_failures, run_campaign
from matrix.fuzz.damage.kinds import KINDS

SHIM = os.environ.get("ONNX_COMPAT_SHIM", "reference")
FOUND = Path(__file__).parent / "damage"
#: Kind -> number of inputs. Only the core reads models and arrays, so the cells of the reference test that. The other kinds
#: take minutes: `nox -s fuzz -- --damage KIND`.
INPUTS = {"run": 100, **({"load": 1000, "arrays": 500} if SHIM == "reference" else {})}


@pytest.mark.parametrize("kind", INPUTS)
def test_a_short_campaign(kind: str, tmp_path: Path) -> None:
    counts = run_campaign(sys.executable, SHIM, {}, kind, 0, tmp_path, INPUTS[kind])
    errors = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(tmp_path.glob("*.txt"))]
    assert not has_failures(counts), "%s: %s" % (counts, "\n".join(errors))
    assert sum(counts.values()) >= INPUTS[kind]


def stored_inputs() -> List[Path]:
    """Return the stored inputs that the shim reads. Their folder is named after their kind."""
    kinds = [kind for kind in KINDS if SHIM == "tflite" or KINDS[kind].suffix != ".tflite"]
    return sorted(path for kind in kinds for path in (FOUND / kind).glob("*"))


def test_inputs_that_once_failed(tmp_path: Path) -> None:
    for path in stored_inputs():
        counts = run_campaign(sys.executable, SHIM, {}, path.parent.name, 0, tmp_path, 1, replay=path)
        assert sum(counts.values()) == 1 and not has_failures(counts), (path.name, counts)

"""Damaged files and models give typed errors: a short campaign of each kind, and the inputs that once failed."""

import os
import sys
from pathlib import Path
from typing import Counter, Dict, List

import pytest

from matrix.fuzz.damage.campaign import has_failures, run_campaign
from matrix.fuzz.damage.kinds import KINDS

SHIM = os.environ.get("ONNX_COMPAT_SHIM", "reference")
FOUND = Path(__file__).parent / "damage"
KINDS_HERE = [name for name, kind in KINDS.items() if kind.is_read_by(SHIM)]
#: Kind -> the number of inputs. The core reads models and arrays: one shim reads many of them, and the others a few.
INPUTS = {"load": 1000, "arrays": 500, "run": 100} if SHIM == "reference" else {"load": 50, "arrays": 50, "run": 30}
FEW = 10
#: The undamaged inputs are those of every so many-th case: to read or to convert all of them takes longer than the campaign.
EVERY = {"bundle": 8}
FEW_CASES = 40


@pytest.mark.parametrize("kind", KINDS_HERE)
def test_a_short_campaign(kind: str, tmp_path: Path) -> None:
    inputs = INPUTS.get(kind, FEW)
    counts = run_campaign(sys.executable, SHIM, {}, kind, 0, tmp_path, inputs, every=EVERY.get(kind, FEW_CASES))
    errors = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(tmp_path.glob("*.txt"))]
    assert not has_failures(counts), "%s: %s" % (counts, "\n".join(errors))
    assert sum(counts.values()) >= inputs


def stored_inputs(kind: str) -> List[Path]:
    """Return the stored inputs of a kind. Beside each is a file with the error that it once gave."""
    return sorted((FOUND / kind).glob("*" + KINDS[kind].suffix))


@pytest.mark.parametrize("kind", KINDS_HERE)
def test_inputs_that_once_failed(kind: str, tmp_path: Path) -> None:
    paths = stored_inputs(kind)
    assert paths, "no input is stored in %s" % (FOUND / kind)
    outcomes: Dict[str, Counter[str]] = {}

    def note(batch: int, counts: Counter[str]) -> None:
        outcomes[paths[batch].name] = counts

    run_campaign(sys.executable, SHIM, {}, kind, 0, tmp_path, 1, replay=paths, note=note)
    assert list(outcomes) == [path.name for path in paths]
    assert {name: counts for name, counts in outcomes.items() if has_failures(counts) or counts["unforeseen"]} == {}


@pytest.mark.parametrize("kind", KINDS)
def test_the_stored_inputs_of_a_kind_name_their_error(kind: str) -> None:
    files = {path.name for path in (FOUND / kind).iterdir()}
    names = [path.name for path in stored_inputs(kind)]
    assert files == {*names, *(name + ".txt" for name in names)}
    assert all((FOUND / kind / (name + ".txt")).read_text(encoding="utf-8").strip() for name in names)

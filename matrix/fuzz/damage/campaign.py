"""Campaign over damaged inputs: run batches in a cell, count the outcomes, keep the inputs that failed."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, Optional, Sequence
from typing import Counter as CounterType

from matrix.fuzz.damage.kinds import KINDS, MOST_ELEMENTS
from matrix.fuzz.damage.outcomes import FAILURES, store_failure
from matrix.fuzz.execution import DIED, HUNG
from matrix.fuzz.worker import Worker

__all__ = ["BATCH", "CHILD", "has_failures", "run_campaign"]

CHILD = Path(__file__).resolve().parent / "child"
BATCH = 50
"""The inputs of a batch."""
_LIMITS = {"ONNX_COMPAT_LIMIT_TENSOR_ELEMENTS": str(MOST_ELEMENTS), "ONNX_COMPAT_VERIFY": "0"}


def run_campaign(
    python: str,
    shim: str,
    env: Dict[str, str],
    kind: str,
    first: int,
    folder: Path,
    inputs: int,
    minutes: Optional[float] = None,
    replay: Sequence[Path] = (),
    every: int = 1,
    note: Callable[[int, CounterType[str]], None] = lambda batch, counts: None,
) -> CounterType[str]:
    """Damage `inputs` inputs, and read them in another process. Return outcome -> number of inputs.

    Inputs are damaged in batches of 50; more than 50 inputs are rounded up to whole batches.

    - python, shim, env: the interpreter that reads the inputs, the shim, and the environment variables.
    - kind: the name of a kind in `KINDS`.
    - first: the number of the first batch; without effect with `replay`. The number of a batch is its seed.
    - folder: the folder for inputs that failed (see `store_failure`).
    - minutes: if given, batches run until this time is over, whatever `inputs` is. None: there is no limit of time.
    - replay: stored inputs, which are read as they are, in place of damaged inputs. A batch is the index of one of them.
    - every: only every `every`-th case gives an undamaged input.
    - note: a function that is called after each batch, with its number and the counts of its outcomes.
    """
    counts: CounterType[str] = Counter()
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    start = 0 if replay else first
    batches = start + (len(replay) or (10**9 if minutes else max(1, -(-inputs // BATCH))))
    worker = Worker(python, shim, {**env, **_LIMITS}, None, CHILD)
    with tempfile.TemporaryDirectory() as scratch, contextlib.closing(worker):
        plan = Path(scratch) / "plan.json"
        content = {
            "kind": kind,
            "count": batches,
            "batch": BATCH if minutes else min(BATCH, inputs),
            "every": every,
            "folder": str(folder.resolve()),
            "corpus": str(Path(scratch) / "corpus.zip"),
            "replay": [str(path.resolve()) for path in replay],
        }
        plan.write_text(json.dumps(content), encoding="utf-8")
        for batch, outcome in worker.run(plan, batches, start):
            if outcome.kind == "counts":
                batch_counts = Counter(json.loads(outcome.detail))
            else:
                batch_counts = Counter({outcome.kind: 1})
                _keep_current(folder, outcome.kind, outcome.detail, KINDS[kind].suffix)
            counts.update(batch_counts)
            note(batch, batch_counts)
            if time.monotonic() > end:
                break
    with contextlib.suppress(FileNotFoundError):
        (folder / ("current" + KINDS[kind].suffix)).unlink()
    return counts


def _keep_current(folder: Path, outcome: str, detail: str, suffix: str) -> None:
    """Store the input that a process was reading, if the outcome is DIED or HUNG (see `store_failure`)."""
    current = folder / ("current" + suffix)
    if outcome in (DIED, HUNG) and current.exists():
        store_failure(folder, outcome, detail, current.read_bytes(), suffix)


def has_failures(counts: CounterType[str]) -> bool:
    """Whether a campaign has an outcome in FAILURES. `unforeseen` is not among them, because its error is typed."""
    return any(counts[outcome] for outcome in FAILURES)

"""Campaign over damaged inputs: run batches in a cell, count the outcomes, keep the inputs that failed."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, Optional
from typing import Counter as CounterType

from matrix.fuzz.damage.kinds import KINDS, MOST_ELEMENTS
from matrix.fuzz.damage.outcomes import FAILURES, store_failure
from matrix.fuzz.execution import DIED, HUNG
from matrix.fuzz.worker import Worker

__all__ = ["has_failures", "run_campaign"]

_CHILD = Path(__file__).resolve().parent / "child"
_BATCH = 50
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
    replay: Optional[Path] = None,
    note: Callable[[int, CounterType[str]], None] = lambda batch, counts: None,
) -> CounterType[str]:
    """Damage `inputs` inputs, and read them in another process. Return outcome -> number of inputs.

    Inputs are damaged in batches of 50; more than 50 inputs are rounded up to whole batches.

    - python, shim, env: the interpreter that reads the inputs, the shim, and the environment variables.
    - kind: the name of a kind in `KINDS`.
    - first: the number of the first batch. The number of a batch is its seed.
    - folder: the folder for inputs that failed (see `store_failure`).
    - minutes: if given, batches run until this time is over, whatever `inputs` is. None: there is no limit of time.
    - replay: a stored input, which is read as it is, in place of damaged inputs.
    - note: a function that is called after each batch, with its number and the counts of its outcomes.
    """
    counts: CounterType[str] = Counter()
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    batches = first + max(1, 10**9 if minutes else -(-inputs // _BATCH))
    worker = Worker(python, shim, {**env, **_LIMITS}, None, _CHILD)
    with tempfile.TemporaryDirectory() as scratch, contextlib.closing(worker):
        plan = Path(scratch) / "plan.json"
        batch_size = min(_BATCH, inputs) if not minutes else _BATCH
        content = {"kind": kind, "count": batches, "batch": batch_size, "folder": str(folder.resolve())}
        content["corpus"] = str(Path(scratch) / "corpus.zip")
        content["replay"] = "" if replay is None else str(replay.resolve())
        plan.write_text(json.dumps(content), encoding="utf-8")
        for batch, outcome in worker.run(plan, batches, first):
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

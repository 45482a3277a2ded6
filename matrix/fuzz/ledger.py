"""Ledger of the fuzzer: the seeds that each cell has run, with their outcomes. A run continues at the next unused seed.

matrix/results/fuzz/<cell>.json has a list of entries for each kind of inputs: `graphs`, `graphs <format>`, or a kind of damaged
inputs. An entry is a range of seeds that the same code has run. A seed of damaged inputs is a batch of inputs. A batch
with a failure has an entry of its own, which a later run of the batch replaces.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from matrix.data import ROOT
from matrix.fuzz.damage.outcomes import FAILURES as DAMAGE_FAILURES
from matrix.fuzz.damage.outcomes import UNFORESEEN
from matrix.fuzz.execution import FAILURES as GRAPH_FAILURES

__all__ = ["LEDGERS", "Ledger", "Totals", "format_report", "needs_rerun", "tested_revision", "totals"]

LEDGERS = ROOT / "matrix" / "results" / "fuzz"
GRAPHS = "graphs"
_FAILURES = frozenset((*GRAPH_FAILURES, *DAMAGE_FAILURES))
_AGAIN = frozenset((*DAMAGE_FAILURES, UNFORESEEN))
"""The outcomes of damaged inputs that `--again` runs again."""
_TESTED = ("onnx_compat", "shims", "matrix/fuzz")
"""The code that decides the outcome of a seed."""


class Totals(NamedTuple):
    """Sums over all entries of a kind of inputs in a cell.

    - inputs: the number of inputs that ran.
    - clean: the number of inputs in the entries after the last entry with a failure.
    - outcomes: outcome -> number of inputs.
    - seeds: the ranges (first seed, last seed); adjacent ranges are joined.
    """

    inputs: int
    clean: int
    outcomes: Dict[str, int]
    seeds: List[Tuple[int, int]]


class Ledger:
    """Reads and changes the ledger of a cell: the entries in the file `<cell>.json` of `folder`.

    Each method reads the file again, because other processes may change it meanwhile.
    """

    def __init__(self, cell: str, folder: Path = LEDGERS) -> None:
        self._path = folder / ("%s.json" % cell)

    @property
    def kinds(self) -> Dict[str, List[Dict[str, Any]]]:
        """Kind -> its entries, as they are in the file."""
        text = self._path.read_text(encoding="utf-8") if self._path.exists() else "{}"
        kinds: Dict[str, List[Dict[str, Any]]] = json.loads(text)
        return kinds

    def next_seed(self, kind: str) -> int:
        """Return the seed after the largest seed of a kind that was run; 0 if none was run."""
        return 1 + max((entry["seeds"][1] for entry in self.kinds.get(kind, [])), default=-1)

    def add(
        self, kind: str, code: Mapping[str, str], seeds: Tuple[int, int], outcomes: Mapping[str, int],
        failed: Mapping[int, str] = {},
    ) -> None:  # fmt: skip
        """Add the range `seeds` (first, last) with its outcomes, outcome -> number of inputs, and write the file.

        The range extends the last entry if it begins at the seed after that entry, and `code` is equal. Otherwise, it
        becomes a new entry. Damaged inputs with a failure join no entry (see `needs_rerun`).

        `code`: the revision, and for graphs the digest of the generator. `failed`: seed -> outcome of each graph that
        failed.
        """
        kinds = self.kinds
        entries = kinds.setdefault(kind, [])
        last = entries[-1] if entries else None
        is_apart = last is None or last["seeds"][1] + 1 != seeds[0] or any(last.get(key) != code[key] for key in code)
        is_damaged = "generator" not in code
        if last is None or is_apart or (is_damaged and (needs_rerun(outcomes) or needs_rerun(last["outcomes"]))):
            last = {**code, "seeds": list(seeds), "outcomes": {}, "failed": {}}
            entries.append(last)
        last["seeds"][1] = seeds[1]
        last["failed"].update((str(seed), outcome) for seed, outcome in failed.items())
        for outcome, count in outcomes.items():
            last["outcomes"][outcome] = last["outcomes"].get(outcome, 0) + count
        self._write(kinds)

    def failed_seeds(self, kind: str) -> List[Tuple[int, str]]:
        """Return (seed, digest of its generator) of each graph that failed. The digest is "" if the entry has none."""
        entries = self.kinds.get(kind, [])
        return [(int(seed), entry.get("generator", "")) for entry in entries for seed in entry["failed"]]

    def failed_batches(self, kind: str) -> List[Tuple[int, int]]:
        """Return the first and the last batch of each entry of damaged inputs that `needs_rerun`."""
        entries = self.kinds.get(kind, [])
        return [(entry["seeds"][0], entry["seeds"][1]) for entry in entries if needs_rerun(entry["outcomes"])]

    def replace(self, kind: str, code: Mapping[str, str], seeds: Tuple[int, int], outcomes: Mapping[str, int]) -> None:
        """Replace the outcomes of the entry with exactly the batches `seeds` (first, last), and write the file.

        `code`: the revision of the later run. `outcomes`: its outcomes, outcome -> number of damaged inputs.
        """
        kinds = self.kinds
        for entry in kinds[kind]:
            if tuple(entry["seeds"]) == seeds:
                entry.update(code, outcomes=dict(outcomes))
        self._write(kinds)

    def correct(self, kind: str, seed: int, outcome: str) -> None:
        """Replace the outcome of a failed seed by the outcome of a later run, and write the file.

        The seed stays among the failed seeds if `outcome` is a failure. A seed that is not among them is ignored.
        """
        kinds = self.kinds
        for entry in kinds[kind]:
            if str(seed) in entry["failed"]:
                counts = entry["outcomes"]
                before = entry["failed"].pop(str(seed))
                counts[before] -= 1
                counts[outcome] = counts.get(outcome, 0) + 1
                entry["outcomes"] = {name: count for name, count in counts.items() if count}
                if outcome in _FAILURES:
                    entry["failed"][str(seed)] = outcome
        self._write(kinds)

    def _write(self, kinds: Mapping[str, List[Dict[str, Any]]]) -> None:
        """Write the file: kind -> entries, with a line for each entry. A reader never sees a part of the file."""
        texts = []
        for kind, entries in sorted(kinds.items()):
            lines = ",\n".join("  " + json.dumps(entry, sort_keys=True) for entry in entries)
            texts.append("%s: [\n%s\n ]" % (json.dumps(kind), lines))
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_suffix(".part")
        unfinished.write_text("{\n %s\n}\n" % ",\n ".join(texts), encoding="utf-8")
        unfinished.replace(self._path)


def needs_rerun(outcomes: Mapping[str, int]) -> bool:
    """Whether damaged inputs with these outcomes have a failure, or a typed error that no code foresaw."""
    return not _AGAIN.isdisjoint(outcomes)


def totals(ledger: Ledger) -> Iterator[Tuple[str, Totals]]:
    """Yield (kind, sums over its entries) for each kind of inputs in a ledger, sorted by kind."""
    for kind, entries in sorted(ledger.kinds.items()):
        outcomes: Dict[str, int] = {}
        seeds: List[Tuple[int, int]] = []
        clean = 0
        for entry in entries:
            first, last = entry["seeds"]
            if seeds and seeds[-1][1] + 1 == first:
                first = seeds.pop()[0]
            seeds.append((first, last))
            for outcome, count in entry["outcomes"].items():
                outcomes[outcome] = outcomes.get(outcome, 0) + count
            has_failures = not _FAILURES.isdisjoint(entry["outcomes"])
            clean = 0 if has_failures else clean + sum(entry["outcomes"].values())
        yield kind, Totals(sum(outcomes.values()), clean, outcomes, seeds)


def format_report(folder: Path = LEDGERS) -> str:
    """Return a text table of the ledgers in a folder, with a row for each cell and kind of inputs.

    A row has the number of inputs, the number since the last failure, the outcomes and the seeds.
    """
    rows = [("cell", "kind", "inputs", "clean", "outcomes", "seeds")]
    for path in sorted(folder.glob("*.json")):
        for kind, sums in totals(Ledger(path.stem, folder)):
            outcomes = ", ".join("%s %d" % item for item in sorted(sums.outcomes.items(), key=lambda item: -item[1]))
            seeds = ", ".join("%d-%d" % seed_range for seed_range in sums.seeds)
            rows.append((path.stem, kind, str(sums.inputs), str(sums.clean), outcomes, seeds))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join("  ".join([*map(str.ljust, row, widths), row[5]]) for row in rows)


def tested_revision() -> str:
    """Return the short hash of the last commit that changed the code in `_TESTED`. Returns "" without git.

    The hash ends with `-dirty` if the work tree has other code there.
    """
    try:
        commit = _git("log", "-1", "--format=%h", "--", *_TESTED)
        return commit + ("-dirty" if commit and _git("status", "--porcelain", "--", *_TESTED) else "")
    except OSError:
        return ""


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()

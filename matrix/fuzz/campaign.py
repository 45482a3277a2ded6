"""Campaign: generate chunks of cases, run them in cells, and count, shrink and store what differs."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import re
from collections import Counter
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Set, Tuple
from typing import Counter as CounterType

import onnx

from matrix.fuzz.chunks import read_chunk, write_lines
from matrix.fuzz.document import dump_case, pretty
from matrix.fuzz.execution import FAILURES, FALLBACK, REFUSED, Outcome
from matrix.fuzz.graphs import Case, walk
from matrix.fuzz.produce import produce
from matrix.fuzz.shrink import digest, shrink, signature
from matrix.fuzz.worker import Worker
from matrix.suites.place import cache_dir

__all__ = [
    "CHUNK",
    "ChunkResult",
    "Counts",
    "Failure",
    "Target",
    "code_without_docstrings",
    "find_graph",
    "generator_digest",
    "make_chunk",
    "run_chunk",
    "write_failure",
]

CHUNK = 500
"""The seeds of a chunk."""
_CODE = Path(__file__).parent


class Target(NamedTuple):
    """A shim in the environment of a cell: the interpreter and its environment variables.

    `form`: the format of the files that are written and run; None: models are prepared and run without a file.
    """

    cell: str
    shim: str
    python: str
    env: Dict[str, str]
    form: Optional[str] = None

    @property
    def kind(self) -> str:
        """The name of the kind of inputs in the ledger: `graphs`, or `graphs <format>`."""
        return "graphs %s" % self.form if self.form else "graphs"


class Counts:
    """Counts of the outcomes of a target, and the failures that were stored.

    - outcomes: outcome -> number of cases.
    - refused: reason of a refusal -> number of cases.
    - fallbacks: operator -> number of cases in which it ran in the fallback.
    - unused: reason -> number of seeds that gave no case.
    - seen: the keys of the stored failures (see `write_failure`).
    """

    def __init__(self) -> None:
        self.outcomes: CounterType[str] = Counter()
        self.refused: CounterType[str] = Counter()
        self.fallbacks: CounterType[str] = Counter()
        self.unused: CounterType[str] = Counter()
        self.seen: Set[str] = set()

    def add(self, outcome: Outcome) -> None:
        """Count an outcome, with the reason of a refusal and the operators of a fallback."""
        self.outcomes[outcome.kind] += 1
        if outcome.kind == REFUSED:
            self.refused[_reason(outcome.detail)] += 1
        if outcome.kind == FALLBACK:
            self.fallbacks.update(outcome.detail.split())


Failure = Tuple[Case, Outcome]


class ChunkResult(NamedTuple):
    """The result of a chunk: outcome -> number of cases, and (case, outcome) of each failure.

    `last`: the seed of the last case that ran; None if no case ran. `is_complete`: whether all cases ran.
    """

    outcomes: CounterType[str]
    failures: List[Failure]
    last: Optional[int]
    is_complete: bool


def make_chunk(first: int, count: int = CHUNK) -> Tuple[Path, CounterType[str]]:
    """Generate the cases of `count` seeds from `first` on into a file of the cache, unless the file exists.

    Return the path of the file, and reason -> number of seeds that gave no case.
    """
    path = _chunk_path(generator_digest(), first, count)
    reasons = path.with_suffix(".json")
    if not (path.exists() and reasons.exists()):
        cases, unused = produce(first, count)
        write_lines(path, cases)
        reasons.write_text(json.dumps(unused), encoding="utf-8")
    return path, Counter(json.loads(reasons.read_text(encoding="utf-8")))


def find_graph(seed: int, generator: str) -> Optional[Path]:
    """Return the path of the chunk that has only the graph that a generator makes from a seed.

    `generator`: the digest of the generator. The graph of the current generator is generated. The graph of another
    generator must be in the cache, else the result is None. `--seed SEED --graphs 1`, run at a revision with that
    generator, writes it there.
    """
    if generator == generator_digest():
        return make_chunk(seed, 1)[0]
    path = _chunk_path(generator, seed, 1)
    return path if path.exists() else None


def _chunk_path(generator: str, first: int, count: int) -> Path:
    return cache_dir() / "fuzz" / generator / ("%d-%d.gz" % (first, count))


def run_chunk(path: Path, worker: Worker, counts: Counts, stop: Callable[[], bool] = lambda: False) -> ChunkResult:
    """Run the cases of the chunk file `path`, and return the result. The outcomes are also added to `counts`.

    `stop`: a function that is called after each case; True ends the run.
    """
    cases = read_chunk(path)
    outcomes: CounterType[str] = Counter()
    failures = []
    last = None
    for index, outcome in worker.run(path, len(cases)):
        counts.add(outcome)
        outcomes[outcome.kind] += 1
        last = cases[index].seed
        if outcome.kind in FAILURES:
            failures.append((cases[index], outcome))
        if stop():
            break
    return ChunkResult(outcomes, failures, last, sum(outcomes.values()) == len(cases))


def write_failure(target: Target, case: Case, outcome: Outcome, folder: Path, counts: Counts) -> Optional[Path]:
    """Shrink the failed case, and write it as a test case into `folder`. Return the path of the file.

    Failures are equal if their shrunk cases have equal signatures (see `signature`) and the same operators. Returns
    None, and writes nothing, if `counts.seen` has an equal failure. A new failure is added to `counts.seen`.
    """
    with contextlib.closing(Worker(target.python, target.shim, target.env, target.form)) as worker:
        small = shrink(case, outcome, worker.run_case)
        final = worker.run_case(small)
    operators = "-".join(node.operator for node in walk(small.graph))
    key = "%s %s" % (signature(final), operators)
    if key in counts.seen:
        return None
    counts.seen.add(key)
    form = "-" + target.form if target.form else ""
    path = folder / ("%s%s-%s-%s.json" % (target.shim, form, outcome.kind, digest(small)))
    folder.mkdir(parents=True, exist_ok=True)
    document = {"cause": "", "cell": target.cell, "form": target.form, "failure": final.detail, **dump_case(small)}
    path.write_text(pretty(document) + "\n", encoding="utf-8")
    return path


def _reason(detail: str) -> str:
    """Return the first line of a refusal, at most 120 characters, with `…` in place of numbers and quoted names."""
    line = detail.splitlines()[0]
    return re.sub(r"'[^']*'|\d+", "…", line)[:120]


def generator_digest() -> str:
    """Return the digest of the generator: of its code without comments and docstrings, and of the version of onnx.

    Other code generates other graphs from a seed.
    """
    modules = ["draft", "draw", "document", "evaluation", "generator", "graphs", "oracle", "registry", "values"]
    files = [_CODE / (name + ".py") for name in modules] + sorted((_CODE / "templates").glob("*.py"))
    content = [code_without_docstrings(path.read_text(encoding="utf-8")) for path in files]
    return hashlib.sha256("\n".join([*content, onnx.__version__]).encode()).hexdigest()[:12]


def code_without_docstrings(source: str) -> str:
    """Return the source of a module as `ast.unparse` writes it, without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)

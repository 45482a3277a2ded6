"""Child process in the environment of a cell: it damages inputs, gives them to this library, and judges the outcomes.

A request is a line {"path", "start", "shim"}. `path` is a plan: {"kind", "count", "batch", "every", "folder", "corpus",
"replay"}. The batches from `start` to `count` are run, of `batch` inputs each. The number of a batch is its seed. `corpus`
is the archive of the undamaged inputs, which the first process of a campaign writes; it has every `every`-th of them. If
`replay` lists stored inputs, each is a batch: its number is its index in the list.

Answers are as for `matrix.fuzz.child`: {"begin": batch} before an input, as a sign of life, {"index": batch, "kind":
"counts", "detail": counts as JSON} after each batch, and {"end": true}.

The file `current<suffix>` in `folder` is the input that is read at the moment. An input that fails in a way that was not seen
before is copied to `folder`.
"""

import functools
import json
import random
import re
import runpy
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

_MATRIX = Path(__file__).resolve().parents[3]
runpy.run_path(str(_MATRIX / "by_path.py"))["import_package"](_MATRIX)

from matrix.fuzz.answers import open_answers  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.damage.coverage import Coverage  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.damage.kinds import KINDS, Kind  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.damage.outcomes import FAILURES, UNFORESEEN, judge, store_failure  # noqa: E402 (found once `matrix` is)

_MEMORY = 12 << 30
_SIGN_SECONDS = 0.5
"""The time between two signs of life. Most inputs take less than a line does."""


class _Campaign:
    """Damages inputs of one kind and reads them on one shim. An instance lasts as long as the process.

    - kind: the kind of the inputs; the constructor takes its name in `KINDS`.
    - shim: the name of the shim.
    - coverage: tells which inputs run new lines.
    - corpus: the inputs to damage. None before the first damaged input.
    - seen: the signatures of the failures that are stored.
    """

    def __init__(self, kind: str, shim: str, coverage: Coverage) -> None:
        self.kind = KINDS[kind]
        self.shim = shim
        self.coverage = coverage
        self.corpus: Optional[List[bytes]] = None
        """None until the first damaged input: a stored input needs no corpus."""
        self.seen: Set[str] = set()

    def inputs(self, plan: Dict[str, Any], batch: int, note: Callable[[], None]) -> Iterator[bytes]:
        """Yield the inputs of a batch: the stored input that the plan replays, or damaged inputs.

        The first call for damaged inputs reads the corpus from its archive, or writes the archive. `note` is called for
        each undamaged input that is made, as a sign of life.
        """
        if plan["replay"]:
            yield Path(plan["replay"][batch]).read_bytes()
            return
        if self.corpus is None:
            path = Path(plan["corpus"])
            self.corpus = _read_corpus(path) or _write_corpus(path, self.kind, self.shim, plan["every"], note)
            if self.kind.grows:
                self.coverage.restart()
        for number in range(plan["batch"]):
            chance = random.Random("%d %d" % (batch, number))  # noqa: S311 (no secret: a seed gives an input)
            yield self.kind.change(chance, chance.choice(self.corpus), self.corpus)

    def run_one(self, data: bytes, folder: Path) -> str:
        """Read an input with the function `run` of the kind. Return the outcome, such as `ran`.

        - The input is first written to the file `current<suffix>` of `folder`, in case the process ends.
        - A failure, or an unforeseen error, that no earlier input of this process had is stored in `folder`.
        - An input that runs new lines joins the corpus, if the corpus grows.
        """
        path = folder / ("current" + self.kind.suffix)
        _overwrite(path, data)
        outcome = judge(lambda: self.kind.run(path, data, self.shim))
        if self.corpus is not None and self.kind.grows and self.coverage.take():
            self.corpus.append(data)
        first_line = outcome.detail.partition("\n")[0]
        signature = outcome.kind + re.sub(r"'[^']*'|[\d.]+", "…", first_line)
        if outcome.kind in (*FAILURES, UNFORESEEN) and signature not in self.seen:
            self.seen.add(signature)
            store_failure(folder, outcome.kind, outcome.detail, data, self.kind.suffix)
        return outcome.kind


def _overwrite(path: Path, data: bytes) -> None:
    """Write `data` to a file, without emptying it first: ext4 would flush it to the disk at the close, for 2 ms."""
    with open(str(path), "r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()


def _read_corpus(path: Path) -> List[bytes]:
    """Return the inputs in the archive `path`; an empty list if there is no archive."""
    if not path.exists():
        return []
    with zipfile.ZipFile(str(path)) as archive:
        return [archive.read(name) for name in archive.namelist()]


def _write_corpus(path: Path, kind: Kind, shim: str, every: int, note: Callable[[], None]) -> List[bytes]:
    """Write the undamaged inputs to the archive `path`, and return them.

    `note` is called after each input is made, as a sign of life.
    """
    files = []
    for data in kind.corpus(shim, every):
        files.append(data)
        note()
    unfinished = path.with_suffix(".part")
    with zipfile.ZipFile(str(unfinished), "w") as archive:
        for number, data in enumerate(files):
            archive.writestr(str(number), data)
    unfinished.replace(path)
    return files


def main() -> None:
    """Limit the memory of this process, and answer the requests on the standard input until it ends.

    A request names the file of a plan, and the first batch to run. The answer to a batch has the counts of its
    outcomes.
    """
    answer = open_answers()
    _limit_memory()

    answer({"python": "%d.%d" % sys.version_info[:2]})
    coverage = Coverage()
    campaigns: Dict[Tuple[str, str], _Campaign] = {}
    for line in sys.stdin:
        request = json.loads(line)
        plan = json.loads(Path(request["path"]).read_text(encoding="utf-8"))
        answer({"begin": request["start"]})
        key = plan["kind"], plan["corpus"]
        if key not in campaigns:
            campaigns[key] = _Campaign(plan["kind"], request["shim"], coverage)
        for batch in range(request["start"], plan["count"]):
            counts: Counter[str] = Counter()
            last_sign = float("-inf")
            for data in campaigns[key].inputs(plan, batch, functools.partial(answer, {"begin": batch})):
                if time.monotonic() > last_sign + _SIGN_SECONDS:
                    answer({"begin": batch})
                    last_sign = time.monotonic()
                counts[campaigns[key].run_one(data, Path(plan["folder"]))] += 1
            answer({"index": batch, "kind": "counts", "detail": json.dumps(counts), "output": ""})
        answer({"end": True})


def _limit_memory() -> None:
    """Limit the memory of the process to 12 GiB, and switch core files off. Does nothing on Windows.

    A damaged input may request more memory than the machine has.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    main()

"""Child process in the environment of a cell: it damages inputs, gives them to this library, and judges the outcomes.

A request is a line {"path", "start", "shim"}. `path` is a plan: {"kind", "count", "batch", "folder", "corpus", "replay"}.
The batches from `start` to `count` are run, of `batch` inputs each. The number of a batch is its seed. `corpus` is the
archive of the undamaged inputs, which the first process of a campaign writes.

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
from typing import Callable, Dict, List, Optional, Set

_MATRIX = Path(__file__).resolve().parents[3]
runpy.run_path(str(_MATRIX / "by_path.py"))["import_package"](_MATRIX)

from matrix.fuzz.answers import open_answers  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.damage.coverage import Coverage  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.damage.kinds import KINDS  # noqa: E402 (found once `matrix` is)
from matrix.fuzz.damage.outcomes import FAILURES, UNFORESEEN, judge, store_failure  # noqa: E402 (found once `matrix` is)

_MEMORY = 12 << 30
_SIGN_SECONDS = 0.5
"""The time between two signs of life. Most inputs take less than a line does."""


class _Campaign:
    """Damages inputs of one kind and reads them on one shim. It keeps the corpus and the signatures of the failures.

    An instance lasts as long as the process.

    - kind: the name of the kind in `KINDS`.
    - shim: the name of the shim.
    - corpus: the archive of the undamaged inputs, which is written if it does not exist. None: the corpus is empty,
      because a stored input is replayed.
    - note: a function that is called for each undamaged input while the archive is written, as a sign of life.
    """

    def __init__(self, kind: str, shim: str, corpus: Optional[Path], note: Callable[[], None]) -> None:
        self.kind = KINDS[kind]
        self.shim = shim
        self.corpus = [] if corpus is None else _read_corpus(corpus) or _write_corpus(corpus, kind, shim, note)
        self.coverage = Coverage()
        self.seen: Set[str] = set()

    def damage(self, seed: str) -> bytes:
        """Return a damaged input. It depends on `seed`, and on the corpus at this time."""
        chance = random.Random(seed)  # noqa: S311 (no secret: a seed gives an input)
        return self.kind.change(chance, chance.choice(self.corpus), self.corpus)

    def run_one(self, data: bytes, folder: Path) -> str:
        """Read an input with the function `run` of the kind. Return the outcome, such as `ran`.

        - The input is first written to the file `current<suffix>` of `folder`, in case the process ends.
        - A failure, or an unforeseen error, that no earlier input of this process had is stored in `folder`.
        - An input that runs new lines joins the corpus, if the corpus grows.
        """
        path = folder / ("current" + self.kind.suffix)
        path.write_bytes(data)
        outcome = judge(lambda: self.kind.run(path, data, self.shim))
        if self.kind.grows and self.coverage.take():
            self.corpus.append(data)
        first_line = outcome.detail.partition("\n")[0]
        signature = outcome.kind + re.sub(r"'[^']*'|[\d.]+", "…", first_line)
        if outcome.kind in (*FAILURES, UNFORESEEN) and signature not in self.seen:
            self.seen.add(signature)
            store_failure(folder, outcome.kind, outcome.detail, data, self.kind.suffix)
        return outcome.kind


def _read_corpus(path: Path) -> List[bytes]:
    """Return the inputs in the archive `path`; an empty list if there is no archive."""
    if not path.exists():
        return []
    with zipfile.ZipFile(str(path)) as archive:
        return [archive.read(name) for name in archive.namelist()]


def _write_corpus(path: Path, kind: str, shim: str, note: Callable[[], None]) -> List[bytes]:
    """Write the undamaged inputs of a kind to the archive `path`, and return them.

    `note` is called after each input is made, as a sign of life.
    """
    files = []
    for data in KINDS[kind].corpus(shim):
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
    campaigns: Dict[str, _Campaign] = {}
    for line in sys.stdin:
        request = json.loads(line)
        plan = json.loads(Path(request["path"]).read_text(encoding="utf-8"))
        answer({"begin": request["start"]})
        if plan["kind"] not in campaigns:
            corpus = None if plan["replay"] else Path(plan["corpus"])
            campaigns[plan["kind"]] = _Campaign(
                plan["kind"],
                request["shim"],
                corpus,
                functools.partial(answer, {"begin": request["start"]}),
            )
        for batch in range(request["start"], plan["count"]):
            counts: Counter[str] = Counter()
            last_sign = float("-inf")
            for number in range(plan["batch"]):
                if time.monotonic() > last_sign + _SIGN_SECONDS:
                    answer({"begin": batch})
                    last_sign = time.monotonic()
                campaign = campaigns[plan["kind"]]
                seed = "%d %d" % (batch, number)
                data = Path(plan["replay"]).read_bytes() if plan["replay"] else campaign.damage(seed)
                counts[campaign.run_one(data, Path(plan["folder"]))] += 1
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

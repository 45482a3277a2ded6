"""`python -m matrix.fuzz.produce FIRST COUNT`: write a line for each seed to standard output: the seed, then its case or reason.

A case is JSON (see `document`). It is written to a chunk as it is, and parsed in the process that runs it only. It is a process of its own: onnxruntime aborts on some invalid graphs, and such a seed gives no case.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Counter as CounterType
from typing import Iterator, List, Tuple

from matrix.data import ROOT
from matrix.fuzz.document import dump_case
from matrix.fuzz.generator import generate

__all__ = ["produce"]

_DIED = "died"


def produce(first: int, count: int) -> Tuple[List[str], CounterType[str]]:
    """Return the cases of `count` seeds from `first` on as JSON, and reason -> number of seeds that give no case.

    The reason `died` counts the seeds at which the generating process ended.
    """
    cases: List[str] = []
    unused: CounterType[str] = Counter()
    start = first
    while start < first + count:
        for seed, answer in _answers(start, first + count - start):
            start = seed + 1
            if answer.startswith("{"):
                cases.append(answer)
            else:
                unused[answer] += 1
        if start < first + count:  # the process ended before it answered for this seed
            unused[_DIED] += 1
            start += 1
    return cases, unused


def _answers(first: int, count: int) -> Iterator[Tuple[int, str]]:
    """Generate the cases of `count` seeds from `first` on in a new process, until the process ends.

    Yield each seed with its case, or with the reason why it has none.
    """
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-W", "ignore", "-m", "matrix.fuzz.produce", str(first), str(count)]
    process = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
        encoding="utf-8",
        check=False,
    )
    for line in process.stdout.split("\n")[:-1]:  # the last line of a process that died may be incomplete
        seed, _, answer = line.partition(" ")
        yield int(seed), answer


def _main(first: int, count: int) -> None:
    """Print a line for each of `count` seeds from `first` on: the seed, a blank, and the case as JSON.

    For a seed without a case, the line has the reason up to its first colon in place of the case.
    """
    for seed in range(first, first + count):
        generated = generate(seed)
        if generated.case is None:
            answer = generated.reason.partition(":")[0]
        else:
            answer = json.dumps(dump_case(generated.case), ensure_ascii=False)
        print(seed, answer, flush=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))

"""`python -m matrix.fuzz.produce FIRST COUNT`: write the case of each seed to standard output, a line of JSON each.

It is a process of its own: onnxruntime aborts on some invalid graphs, and such a seed gives no case.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any, Dict, Iterator, List, Tuple
from typing import Counter as CounterType

from matrix.data import ROOT
from matrix.fuzz.document import dump_case, parse_case
from matrix.fuzz.generator import generate
from matrix.fuzz.graphs import Case

__all__ = ["produce"]

_DIED = "died"


def produce(first: int, count: int) -> Tuple[List[Case], CounterType[str]]:
    """Return the cases of `count` seeds from `first` on, and reason -> number of seeds that give no case.

    The reason `died` counts the seeds at which the generating process ended.
    """
    cases: List[Case] = []
    unused: CounterType[str] = Counter()
    start = first
    while start < first + count:
        for answer in _answers(start, first + count - start):
            start = answer["seed"] + 1
            if "case" in answer:
                cases.append(parse_case(answer["case"]))
            else:
                unused[answer["reason"]] += 1
        if start < first + count:  # the process ended before it answered for this seed
            unused[_DIED] += 1
            start += 1
    return cases, unused


def _answers(first: int, count: int) -> Iterator[Dict[str, Any]]:
    """Generate the cases of `count` seeds from `first` on in a new process. Yield the object that it prints for each.

    An object is {"seed", "case"} or {"seed", "reason"}. There are fewer than `count` if the process dies.
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
    for line in process.stdout.splitlines():
        if line.endswith("}"):  # the last line of a process that died may be incomplete
            yield json.loads(line)


def _main(first: int, count: int) -> None:
    """Print {"seed", "case"} or {"seed", "reason"} as a line of JSON, for each of `count` seeds from `first` on."""
    for seed in range(first, first + count):
        generated = generate(seed)
        answer: Dict[str, Any] = {"seed": seed}
        if generated.case is None:
            answer["reason"] = generated.reason.partition(":")[0]
        else:
            answer["case"] = dump_case(generated.case)
        print(json.dumps(answer, ensure_ascii=False), flush=True)


if __name__ == "__main__":
    _main(int(sys.argv[1]), int(sys.argv[2]))

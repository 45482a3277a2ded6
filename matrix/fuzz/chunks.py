"""Files of many cases: gzip over lines of JSON, a case in each line (see `document`)."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List

from matrix.fuzz.document import dump_case, parse_case
from matrix.fuzz.graphs import Case

__all__ = ["read_chunk", "write_chunk"]


def write_chunk(path: Path, cases: Iterable[Case]) -> None:
    """Write cases to a file. A reader never sees a part of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part%d" % os.getpid())
    with gzip.open(str(unfinished), "wt", encoding="utf-8") as stream:
        for case in cases:
            stream.write(json.dumps(dump_case(case), ensure_ascii=False) + "\n")
    unfinished.replace(path)


def read_chunk(path: Path) -> List[Case]:
    """Return the cases of a file."""
    return [parse_case(document) for document in _documents(path)]


def _documents(path: Path) -> Iterator[Dict[str, Any]]:
    with gzip.open(str(path), "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)

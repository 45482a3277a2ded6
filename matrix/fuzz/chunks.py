"""Files of many cases: gzip over lines of JSON, a case in each line (see `document`)."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List

from matrix.fuzz.document import dump_case, parse_case
from matrix.fuzz.graphs import Case

__all__ = ["read_chunk", "write_chunk", "write_lines"]

_LEVEL = 3
"""Of the compression: a higher level takes as long as a case takes to run."""


def write_chunk(path: Path, cases: Iterable[Case]) -> None:
    """Write cases to a gzip file, with a line of JSON for each case. A reader never sees a part of the file."""
    write_lines(path, (json.dumps(dump_case(case), ensure_ascii=False) for case in cases))


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write `lines`, each a case as JSON, to a gzip file. A reader never sees a part of the file.

    The folder of the file is created if needed.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part%d" % os.getpid())
    with gzip.open(str(unfinished), "wt", _LEVEL, encoding="utf-8") as stream:
        stream.writelines(line + "\n" for line in lines)
    unfinished.replace(path)


def read_chunk(path: Path) -> List[Case]:
    """Return the cases of a chunk: a file that `write_chunk` or `write_lines` wrote."""
    return [parse_case(document) for document in _documents(path)]


def _documents(path: Path) -> Iterator[Dict[str, Any]]:
    with gzip.open(str(path), "rt", encoding="utf-8") as stream:
        for line in stream:
            yield json.loads(line)

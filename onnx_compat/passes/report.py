"""Count the rewrites of each pass while a report is open; `onnx-compat convert --explain` prints them."""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from onnx_compat.passes.contract import Pass

__all__ = ["Entry", "PassReport", "count_rewrites", "recording"]


class Entry(NamedTuple):
    """A pass in a report.

    - name, kind, summary: those of the `Pass`.
    - rewrites: the number of rewrites in all runs of the pass.
    - left_out: True if the user left the pass out; the pass did not run.
    """

    name: str
    kind: str
    summary: str
    rewrites: int
    left_out: bool = False


class PassReport:
    """The rewrites of each pass. A pass that runs several times has one entry with the sum."""

    def __init__(self) -> None:
        self._entries: Dict[str, Entry] = {}

    @property
    def entries(self) -> List[Entry]:
        """An entry for each pass that ran or was left out, in the order of the first `add` for it."""
        return list(self._entries.values())

    def add(self, pass_: Pass, rewrites: int, left_out: bool = False) -> None:
        """Add the rewrites of one run of a pass to its entry, or to a new entry.

        `left_out` replaces the `left_out` of the entry.
        """
        earlier = self._entries.get(pass_.name)
        total = rewrites + (0 if earlier is None else earlier.rewrites)
        self._entries[pass_.name] = Entry(pass_.name, pass_.kind, pass_.summary, total, left_out)

    def to_list(self) -> List[Dict[str, Any]]:
        """Return the entries as a list of dicts that JSON can hold, with the fields of `Entry` as keys."""
        return [dict(entry._asdict()) for entry in self.entries]


_OPEN: "ContextVar[Optional[PassReport]]" = ContextVar("onnx_compat_pass_report", default=None)


@contextmanager
def recording() -> Iterator[PassReport]:
    """Open a report inside the block, and yield the report. It counts the rewrites of all passes that run in the block.

    While an inner block has a report of its own, only the report of the inner block counts. Passes in other threads are
    not counted.
    """
    report = PassReport()
    token = _OPEN.set(report)
    try:
        yield report
    finally:
        _OPEN.reset(token)


def count_rewrites(pass_: Pass, rewrites: int, left_out: bool = False) -> None:
    """Add the rewrites of one run of a pass to the open report. Do nothing if no report is open.

    left_out: True if the user left the pass out, so that it did not run. It replaces `left_out` of the pass's entry.
    """
    report = _OPEN.get()
    if report is not None:
        report.add(pass_, rewrites, left_out)

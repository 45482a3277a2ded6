"""Count the rewrites of each pass while a report is open; `onnx-compat convert --explain` prints them."""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from onnx_compat.passes.contract import Pass

__all__ = ["Entry", "PassReport", "count_rewrites", "recording"]


class Entry(NamedTuple):
    """A pass that ran, or that was left out, with the number of its rewrites."""

    name: str
    kind: str
    summary: str
    rewrites: int
    left_out: bool = False


class PassReport:
    """The passes in the order in which they first ran. A pass that runs several times has one entry."""

    def __init__(self) -> None:
        self._entries: Dict[str, Entry] = {}

    @property
    def entries(self) -> List[Entry]:
        """The entries in the order in which the passes first ran."""
        return list(self._entries.values())

    def add(self, pass_: Pass, rewrites: int, left_out: bool = False) -> None:
        """Add the rewrites of one run of a pass."""
        earlier = self._entries.get(pass_.name)
        total = rewrites + (0 if earlier is None else earlier.rewrites)
        self._entries[pass_.name] = Entry(pass_.name, pass_.kind, pass_.summary, total, left_out)

    def to_list(self) -> List[Dict[str, Any]]:
        """Return the entries as plain JSON values."""
        return [dict(entry._asdict()) for entry in self.entries]


_OPEN: "ContextVar[Optional[PassReport]]" = ContextVar("onnx_compat_pass_report", default=None)


@contextmanager
def recording() -> Iterator[PassReport]:
    """Count the rewrites of all passes that run inside the block."""
    report = PassReport()
    token = _OPEN.set(report)
    try:
        yield report
    finally:
        _OPEN.reset(token)


def count_rewrites(pass_: Pass, rewrites: int, left_out: bool = False) -> None:
    """Add the rewrites of one run of a pass to the open report, if a report is open."""
    report = _OPEN.get()
    if report is not None:
        report.add(pass_, rewrites, left_out)

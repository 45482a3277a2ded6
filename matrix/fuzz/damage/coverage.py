"""The lines of this library that an input is the first to reach: such an input joins the corpus."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Coverage"]

_TOOL = 4
_PACKAGES = "onnx_compat"


class Coverage:
    """Counts the lines of packages of this library that run for the first time after `restart`, until the process ends.

    A process has at most one. It needs `sys.monitoring` (Python 3.12). On an older Python, no line is counted, and the
    corpus does not grow. An event is switched off once it has happened, so that lines that ran before cost nothing.
    """

    def __init__(self) -> None:
        self._count = 0
        self._monitoring: Any = getattr(sys, "monitoring", None)
        if self._monitoring is None:
            return
        off = self._monitoring.DISABLE

        def note(code: Any, _: int) -> Any:
            if _PACKAGES in code.co_filename:
                self._count += 1
            return off

        self._monitoring.use_tool_id(_TOOL, "onnx-compat fuzz")
        self._monitoring.register_callback(_TOOL, self._monitoring.events.LINE, note)

    def restart(self) -> None:
        """Begin to count, from 0. Lines that ran before count again."""
        if self._monitoring is not None:
            self._monitoring.set_events(_TOOL, self._monitoring.events.LINE)
            self._monitoring.restart_events()
        self._count = 0

    def take(self) -> int:
        """Return the number of new lines since the last call, and count from 0 again. 0 before `restart`."""
        count, self._count = self._count, 0
        return count

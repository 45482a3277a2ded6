"""The lines of this library that an input is the first to reach: such an input joins the corpus."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["Coverage"]

_TOOL = 4
_PACKAGES = "onnx_compat"


class Coverage:
    """Counts the lines of this library's packages that run for the first time since the instance was created.

    It needs `sys.monitoring` (Python 3.12). On an older Python, no line is counted, and the corpus does not grow. The
    event of a line is switched off when the line has run, so that it costs nothing later. A process has one instance.
    """

    def __init__(self) -> None:
        self._count = 0
        monitoring = getattr(sys, "monitoring", None)
        if monitoring is None:
            return
        off = monitoring.DISABLE

        def note(code: Any, _: int) -> Any:
            if _PACKAGES in code.co_filename:
                self._count += 1
            return off

        monitoring.use_tool_id(_TOOL, "onnx-compat fuzz")
        monitoring.register_callback(_TOOL, monitoring.events.LINE, note)
        monitoring.set_events(_TOOL, monitoring.events.LINE)

    def take(self) -> int:
        """Return the number of lines that ran for the first time since the last call of `take`."""
        count, self._count = self._count, 0
        return count

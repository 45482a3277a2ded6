"""Where the cache of cases is. Nothing but the standard library: nox asks too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache_dir"]


def cache_dir() -> Path:
    """`ONNX_COMPAT_CACHE`, else the platform's folder for what can be fetched again."""
    told = os.environ.get("ONNX_COMPAT_CACHE")
    if told:
        return Path(told)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "onnx-compat"

"""The folder of the cache of cases. The module uses only the standard library, because nox imports it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache_dir"]


def cache_dir() -> Path:
    """Return the folder of the cache: the environment variable `ONNX_COMPAT_CACHE`, or a default.

    The default is `onnx-compat` in the cache folder of the platform: `%LOCALAPPDATA%` on Windows, `~/Library/Caches` on
    macOS, else `$XDG_CACHE_HOME` or `~/.cache`.
    """
    configured = os.environ.get("ONNX_COMPAT_CACHE")
    if configured:
        return Path(configured)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or "~/AppData/Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "onnx-compat"

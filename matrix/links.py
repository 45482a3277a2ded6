"""The local wheels that pip is configured with (a CPU build of torch, say), told to uv: it reads no pip configuration."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["tell_uv"]


def tell_uv() -> None:
    if "UV_FIND_LINKS" not in os.environ:
        told = os.environ.get("PIP_FIND_LINKS") or _pip("config", "get", "global.find-links")
        if told:
            os.environ["UV_FIND_LINKS"] = ",".join(told.split())


def _pip(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""

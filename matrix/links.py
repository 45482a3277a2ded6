"""Local wheels that pip is configured with, such as a CPU build of torch, for uv, which reads no pip configuration."""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["tell_uv"]


def tell_uv() -> None:
    """Set UV_FIND_LINKS from pip's configuration, unless it is set."""
    if "UV_FIND_LINKS" not in os.environ:
        links = os.environ.get("PIP_FIND_LINKS") or _pip("config", "get", "global.find-links")
        if links:
            os.environ["UV_FIND_LINKS"] = ",".join(links.split())


def _pip(*arguments: str) -> str:
    process = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    return process.stdout.strip() if process.returncode == 0 else ""

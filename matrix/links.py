"""Pass pip's `find-links` (a folder of local wheels, such as a CPU build of torch) to uv, which reads no pip
configuration.
"""

from __future__ import annotations

import os
import subprocess
import sys

__all__ = ["set_uv_find_links"]


def set_uv_find_links() -> None:
    """Set the variable UV_FIND_LINKS to the `find-links` of pip's configuration, unless it is set already."""
    if "UV_FIND_LINKS" not in os.environ:
        links = os.environ.get("PIP_FIND_LINKS") or _pip("config", "get", "global.find-links")
        if links:
            os.environ["UV_FIND_LINKS"] = ",".join(links.split())


def _pip(*arguments: str) -> str:
    """Return the output of a command of pip; "" if the command fails."""
    process = subprocess.run([sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, check=False)
    return process.stdout.strip() if process.returncode == 0 else ""

"""The revision of this repository, which results and builds name."""

from __future__ import annotations

import subprocess

from matrix.data import ROOT

__all__ = ["revision"]


def revision() -> str:
    """Return the abbreviated commit, with `-dirty` if a tracked file differs from it. "": git or the history is missing."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return process.stdout.strip()

"""The revision of this repository, which results and builds name."""

from __future__ import annotations

import subprocess
from pathlib import Path

from matrix.data import ROOT

__all__ = ["revision", "revision_apart_from"]


def revision() -> str:
    """Return the abbreviated commit, with `-dirty` if a tracked file differs from it. "": git or the history is missing."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return process.stdout.strip()


def revision_apart_from(*written: Path) -> str:
    """Return the abbreviated commit, with `-dirty` if a tracked file differs from it that is not among `written`.

    "": git or the history is missing.
    """
    head = revision().partition("-")[0]
    excluded = [":(exclude)%s" % path for path in written]
    command = ["git", "-C", str(ROOT), "status", "--porcelain", "--untracked-files=no", "--", ".", *excluded]
    process = subprocess.run(command, capture_output=True, text=True, check=False) if head else None
    return head + ("-dirty" if process is not None and process.stdout.strip() else "")

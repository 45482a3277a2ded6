"""Of which revision of this repository something was made."""

from __future__ import annotations

import subprocess

from matrix.data import ROOT

__all__ = ["revision"]


def revision() -> str:
    """The commit, with `-dirty` where files differ from it; empty where git or its history is not there."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return told.stdout.strip()

"""Revision of this repository, for results and builds."""

from __future__ import annotations

import subprocess

from matrix.data import ROOT

__all__ = ["revision"]


def revision() -> str:
    """Return the commit, with `-dirty` if files differ from it; empty without git or without its history."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude=*"]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return process.stdout.strip()

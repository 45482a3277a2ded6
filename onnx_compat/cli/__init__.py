"""The command `onnx-compat`. Its entry point is `onnx_compat.cli:main`."""

from typing import Optional, Sequence

__all__ = ["main"]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command line and return the exit code; see `codes.CODES`."""
    from .app import run

    return run(arguments)

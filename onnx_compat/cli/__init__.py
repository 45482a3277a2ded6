"""The command line interface `onnx-compat`. Its entry point is `onnx_compat.cli:main`."""

import sys
from typing import Optional, Sequence

from onnx_compat.cli.exit_codes import INTERRUPTED

__all__ = ["main"]


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Run the command that `arguments` select (None: the arguments of the process), and print its errors.

    Return an exit code of `exit_codes.CODES`. A closed output pipe raises SystemExit.
    """
    try:
        from onnx_compat.cli.app import run

        return run(arguments)
    except KeyboardInterrupt:  # during the import of the commands, or outside of the handler in `run`
        sys.stderr.write("interrupted\n")
        return INTERRUPTED

"""Entry point of `python -m benchmarks`; see the package."""

import sys

from benchmarks.command import main

if __name__ == "__main__":
    sys.exit(main())

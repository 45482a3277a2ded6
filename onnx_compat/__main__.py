"""Run the command line as `python -m onnx_compat`, if no script was installed."""

import sys

from onnx_compat.cli import main

if __name__ == "__main__":
    sys.exit(main())

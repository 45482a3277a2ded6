"""Run the command line as `python -m onnx_compat`, which also works where the script `onnx-compat` is not installed."""

import sys

from onnx_compat.cli import main

if __name__ == "__main__":
    sys.exit(main())

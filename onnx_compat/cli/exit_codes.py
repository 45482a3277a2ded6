"""Exit codes of the commands, and the exit code of each kind of error."""

from typing import NamedTuple, Tuple

from onnx_compat.errors import (
    ConversionError,
    InputError,
    InvalidModelError,
    LimitError,
    MissingDependencyError,
    NonFiniteError,
    ShimError,
    UnsupportedError,
    VerificationError,
)

__all__ = ["CODES", "Code", "code_of"]

OK = 0
NEGATIVE = 1
USAGE = 2
INVALID_MODEL = 3
UNSUPPORTED = 4
ENVIRONMENT = 5
INPUT = 6
INTERNAL = 70
INTERRUPTED = 130
BROKEN_PIPE = 141


class Code(NamedTuple):
    """An exit code and its meaning."""

    number: int
    meaning: str


CODES = (
    Code(
        OK,
        "done; with verify: the outputs agree; with support: every node can be run; with support --to: convert would write a file",
    ),
    Code(NEGATIVE, "done, and the answer is no: outputs differ, a node is not supported, or a training diverged"),
    Code(USAGE, "the command line is wrong"),
    Code(INVALID_MODEL, "the model does not exist, or is not a valid ONNX model"),
    Code(UNSUPPORTED, "the model is valid, but the shim or the format does not support the operation"),
    Code(ENVIRONMENT, "a shim or a package is missing, or does not work in this environment"),
    Code(INPUT, "the inputs do not fit the model, or a file cannot be read or written"),
    Code(INTERNAL, "a defect in onnx-compat; --debug shows the traceback"),
    Code(INTERRUPTED, "interrupted (Ctrl-C, SIGTERM)"),
    Code(BROKEN_PIPE, "the reader of the output closed the pipe"),
)

_BY_ERROR: Tuple[Tuple[type, int], ...] = (
    (InvalidModelError, INVALID_MODEL),
    (UnsupportedError, UNSUPPORTED),
    (LimitError, UNSUPPORTED),
    (ConversionError, UNSUPPORTED),
    (ShimError, ENVIRONMENT),
    (MissingDependencyError, ENVIRONMENT),
    (InputError, INPUT),
    (NonFiniteError, NEGATIVE),
    (OSError, INPUT),
    (VerificationError, INTERNAL),
)


def code_of(error: BaseException) -> int:
    """Return the code of the first class in `_BY_ERROR` that `error` is an instance of; INTERNAL (a defect) if none."""
    for kind, code in _BY_ERROR:
        if isinstance(error, kind):
            return code
    return INTERNAL

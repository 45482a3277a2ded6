"""Limits on what a model may cost: a file of a few bytes must not fill the memory, or keep a process busy for ever.

Each limit has a default that every model we know keeps by far. Three things set a limit:

- the environment variable ONNX_COMPAT_LIMIT_<NAME>, for a process and its children
- `--limit NAME=VALUE`, for a command
- `override`, for a block of Python code
"""

import os
from contextlib import contextmanager
from typing import Dict, Iterator, NamedTuple, Optional, Union

from onnx_compat.errors import InputError, LimitError

__all__ = ["LIMITS", "Limit", "check", "limit", "limit_error", "override", "parse"]

_PREFIX = "ONNX_COMPAT_LIMIT_"
#: The largest value of a limit: that of a 64-bit count.
_MOST = 2**63 - 1


class Limit(NamedTuple):
    """A limit: its name, its default value, the unit that it counts, what it counts, and what happens above it."""

    name: str
    default: int
    unit: str
    counts: str
    above: str


_ERROR = "`LimitError`"
_RUN_TIME = "the value is computed at run time"
_LOOP = "the loop is recorded as a loop"

_ENTRIES = (
    Limit("messages", 5000000, "messages", "protobuf messages in a model file", _ERROR),
    Limit("inlined", 2000000, "nodes and names", "nodes, names and attributes from calls of model functions", _ERROR),
    Limit("sparse_bytes", 2**30, "bytes", "bytes of all sparse tensors after they are made dense", _ERROR),
    Limit("tensor_elements", 2**36, "elements", "elements of a tensor whose sizes are known while tracing", _ERROR),
    Limit("folded_elements", 2**27, "elements", "elements or characters of a folded value", _RUN_TIME),
    Limit("folded_products", 2**34, "multiplications", "multiplications in a folded matrix product", _RUN_TIME),
    Limit(
        "sequence_items",
        2**16,
        "elements",
        "elements of a sequence or a run-time vector of sizes, pieces of a Split",
        _ERROR,
    ),
    Limit("nodes", 300000, "nodes", "nodes of a recorded program", _ERROR),
    Limit("unrolled_nodes", 10000, "nodes", "nodes of a short loop that is unrolled inside of others", _LOOP),
    Limit("unrolled_rounds", 10000, "iterations", "iterations of a loop over sequences, or without a count", _ERROR),
    Limit("size_terms", 1024, "terms", "terms and variables of a symbolic size", _RUN_TIME),
    Limit("size_depth", 32, "operations", "nested operations of a symbolic size", _RUN_TIME),
    Limit("regex_states", 10000, "states", "states of the automaton of a regular expression", _ERROR),
)

#: Name -> limit. docs/reference/limits.md has the same table; a test compares them.
LIMITS: Dict[str, Limit] = {entry.name: entry for entry in _ENTRIES}

_values: Dict[str, int] = {}


def limit(name: str) -> int:
    """Return the value of a limit: that of the environment variable ONNX_COMPAT_LIMIT_<NAME>, or the default.

    The variable is read at the first call, and again after a block of `override` begins or ends. Raises InputError if
    the variable is not a positive integer below 2**63, and KeyError for an unknown name.
    """
    value = _values.get(name)
    if value is None:
        text = os.environ.get(_PREFIX + name.upper())
        value = _values[name] = LIMITS[name].default if text is None else parse(name, text)
    return value


def parse(name: str, text: str) -> int:
    """Return the value of the limit `name` from a text.

    Raises InputError for an unknown name, and for a text that is not a positive integer below 2**63.
    """
    if name not in LIMITS:
        raise InputError("there is no limit '%s'" % name, hint="the limits are: " + ", ".join(LIMITS))
    if not (text.isascii() and text.isdigit()) or not 0 < len(text) < 20 or not 0 < int(text) <= _MOST:
        raise InputError("the limit %s is '%s', which is not a positive integer" % (name, text[:40]))
    return int(text)


def check(name: str, count: int, subject: str) -> None:
    """Raise LimitError if `count` exceeds a limit. `subject`: what has so many, as the subject of a sentence."""
    if count > limit(name):
        raise limit_error(name, subject, count)


def limit_error(name: str, subject: str, count: Optional[int] = None) -> LimitError:
    """Return the LimitError for a limit that is exceeded. `subject`: as for `check`.

    `count`: the number above the limit, for the message; None: the number is not known.
    """
    number = "" if count is None else " (%d)" % count if count < 10**15 else " (about %.1e)" % count
    reason = "%s takes more than %d %s%s" % (subject, limit(name), LIMITS[name].unit, number)
    hint = "the limit is %s; for a trusted model, raise it with --limit %s=N, or %s%s=N in the environment"
    return LimitError(reason, limit=name, hint=hint % (name, name, _PREFIX, name.upper()))


@contextmanager
def override(**values: Union[int, str]) -> Iterator[None]:
    """Set limits inside of a block, for all threads and for processes that are started in the block. Blocks nest.

    The limits from before hold again after the block. Raises InputError for an unknown name, or for a value that is not
    a positive integer below 2**63.

    Examples:
        >>> from onnx_compat import limits
        >>> with limits.override(tensor_elements=10**9):
        ...     limits.limit("tensor_elements")
        1000000000
    """
    texts = {_PREFIX + name.upper(): str(parse(name, str(value))) for name, value in values.items()}
    before = {name: os.environ.get(name) for name in texts}
    os.environ.update(texts)
    _values.clear()
    try:
        yield
    finally:
        for variable, text in before.items():
            if text is None:
                del os.environ[variable]
            else:
                os.environ[variable] = text
        _values.clear()

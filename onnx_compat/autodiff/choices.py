"""The choices of differentiation, for a block of Python code: straight-through rounding, and the kept states of loops."""

import threading
from contextlib import contextmanager
from typing import Iterator, List, NamedTuple, Optional

from onnx_compat.errors import InputError

__all__ = ["Choices", "choices", "choose"]


class Choices(NamedTuple):
    """The choices for recording derivatives. The defaults give the exact derivative, and keep every state of a loop.

    straight_through: whether rounding and casts to integers pass the derivative on unchanged. By default it is zero.
    kept_states: the largest number of states that the derivative of a loop keeps; None: a state for each iteration.
        Other states are computed again (rematerialisation).
    """

    straight_through: bool = False
    kept_states: Optional[int] = None


_STATE = threading.local()


def choices() -> Choices:
    """Return the choices of the innermost block of `choose` in this thread; the defaults outside of any block."""
    stack: List[Choices] = getattr(_STATE, "stack", [])
    return stack[-1] if stack else Choices()


@contextmanager
def choose(straight_through: bool = False, kept_states: Optional[int] = None) -> Iterator[None]:
    """Set the choices for models that are prepared and run inside of a block, in this thread. Blocks nest.

    An inner block does not take over the choices of the outer block. Raises InputError unless `kept_states` is None or
    at least 2.

    Examples:
        >>> from onnx_compat import autodiff
        >>> with autodiff.choose(straight_through=True):
        ...     autodiff.choices().straight_through
        True
    """
    if kept_states is not None and kept_states < 2:
        raise InputError("kept_states is %d" % kept_states, hint="give None, or a number from 2 on")
    stack = _STATE.__dict__.setdefault("stack", [])
    stack.append(Choices(straight_through, kept_states))
    try:
        yield
    finally:
        stack.pop()

"""The primitive `gradient` by the core's rules, for a framework that does not differentiate."""

from typing import Any, Callable, Sequence, Tuple

from onnx_compat.errors import UnsupportedError
from onnx_compat.primitives.derivative import HINT

__all__ = ["composed_gradient"]

Handle = Any  # a tensor of a framework: the core knows no framework


def composed_gradient(
    *xs: Handle,
    bodies: Sequence[Callable[..., Sequence[Handle]]],
    captures: Sequence[Handle],
    refusal: str,
) -> Tuple[Handle, ...]:
    """Return the derivative of the sum of the elements of the first body's result, for each of `xs`, in order.

    - bodies: [body, its derivative]. Only the second body is called, on `xs` and `captures`.
    - captures: the handles of the outer values that the bodies read.
    - refusal: "" if the core has a derivative, otherwise the reason. With a reason, `bodies` has no second body, and
      UnsupportedError is raised.
    """
    if refusal:
        raise UnsupportedError(refusal, hint=HINT)
    return tuple(bodies[1](*xs, *captures))

"""The primitive `gradient` by the core's rules, for a framework that does not differentiate."""

from typing import Any, Callable, Sequence, Tuple

from onnx_compat.errors import UnsupportedError

__all__ = ["composed_gradient"]

Handle = Any  # a tensor of a framework: the core knows no framework


def composed_gradient(
    *xs: Handle,
    bodies: Sequence[Callable[..., Sequence[Handle]]],
    captures: Sequence[Handle],
    refusal: str,
) -> Tuple[Handle, ...]:
    """Return the results of the second body: the derivative of the first body for each of `xs`, in order.

    If the core lacks a derivative rule, `refusal` is the reason, and is raised as an UnsupportedError. Otherwise `refusal`
    is "". `captures`: the handles of the outer values that the bodies read.
    """
    if refusal:
        raise UnsupportedError(refusal, hint="compute this gradient outside of the model")
    return tuple(bodies[1](*xs, *captures))

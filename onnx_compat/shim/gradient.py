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
    """Call the second body on `xs` and `captures`. Return its results: the derivative for each of `xs`, in order.

    They are the derivatives of the sum of all elements of the first body's result. The first body is not called.
    `captures`: the handles of the outer values that the bodies read.

    Raises UnsupportedError with the reason `refusal`, unless `refusal` is "". Then the core lacks a derivative rule, and
    `bodies` has no second body.
    """
    if refusal:
        raise UnsupportedError(refusal, hint="compute this gradient outside of the model")
    return tuple(bodies[1](*xs, *captures))

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
    """Return the results of the second body, which computes the derivatives of the first for each of `xs`.

    Raises UnsupportedError with the reason `refusal`, unless `refusal` is "": the core has no rule then.
    """
    if refusal:
        raise UnsupportedError(refusal, hint="compute this gradient outside of the model")
    return tuple(bodies[1](*xs, *captures))

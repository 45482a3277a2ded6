"""Loss scaling: multiply the loss, and divide the gradients, so that small gradients do not vanish in float16.

A dynamic scale finds the largest scale that keeps the gradients finite: a step with a gradient that is not finite is
skipped and halves the scale; a number of steps without skips doubles it.
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence

import numpy as np

from onnx_compat import primitives as p
from onnx_compat.errors import InputError
from onnx_compat.ir.dtypes import int64
from onnx_compat.tracing.values import Tensor, lift
from onnx_compat.training.names import number

__all__ = ["DynamicLossScale", "is_finite", "next_scale", "unscale"]

#: The bounds of a dynamic scale. Within them, neither the scale nor its reciprocal is 0 or infinite.
_LEAST, _GREATEST = 2.0**-126, 2.0**126


@dataclass(frozen=True)
class DynamicLossScale:
    """A scale that begins with `initial`, and is doubled after `growth_steps` steps in a row with finite gradients."""

    initial: float = 2.0**15
    growth_steps: int = 2000

    def __post_init__(self) -> None:
        number("initial", self.initial, "[%r, %r]" % (_LEAST, _GREATEST))
        if number("growth_steps", self.growth_steps, "[1, inf)") != int(self.growth_steps):
            raise InputError("growth_steps must be an integer, not %r" % self.growth_steps)

    def shared_state(self) -> Dict[str, np.ndarray]:
        """Return the state of the scale: name -> initial value. See `next_scale`."""
        zero = np.zeros((), np.int64)
        return {"loss_scale": np.array(self.initial, np.float32), "finite_steps": zero, "skipped_steps": zero.copy()}


def unscale(gradients: Sequence[Tensor], scale: Any) -> List[Tensor]:
    """Return the gradients of a loss that was multiplied by `scale`, divided by it. `scale` is a number or a Tensor."""
    return [
        p.div(gradient, p.cast(scale, gradient.dtype) if isinstance(scale, Tensor) else scale) for gradient in gradients
    ]


def is_finite(tensors: Sequence[Tensor]) -> Any:
    """Return whether all elements of all tensors are finite: a bool scalar."""
    flags = [p.reduce_min(p.less(p.abs(x), float("inf"))) for x in tensors]
    return p.reduce_min(p.stack(flags, 0))


def next_scale(growth_steps: int, shared: Dict[str, Any], finite: Tensor) -> Dict[str, Tensor]:
    """Return the state of a dynamic scale after a step: name -> value.

    - shared: the state before the step. "loss_scale" is the scale, "finite_steps" the number of steps since the scale
      changed, "skipped_steps" the number of all steps that were skipped.
    - finite: whether the gradients of the step are finite.
    """
    scale, count, zero = shared["loss_scale"], shared["finite_steps"] + 1, lift(0, int64)
    is_grown = p.greater_equal(count, growth_steps)
    grown: Any = p.where(is_grown, scale * 2, scale)
    return {
        "loss_scale": p.clip(p.where(finite, grown, scale * 0.5), _LEAST, _GREATEST),
        "finite_steps": p.where(p.logical_and(finite, p.logical_not(is_grown)), count, zero),
        "skipped_steps": p.where(finite, shared["skipped_steps"], shared["skipped_steps"] + 1),
    }

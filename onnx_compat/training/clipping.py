"""Gradient clipping: by value, by the norm of each gradient, or by the norm of all gradients."""

from typing import Any, List, Sequence

from onnx_compat import primitives as p
from onnx_compat.ir.dtypes import float32, float64
from onnx_compat.tracing.values import Tensor

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "norm"]


def norm(x: Tensor) -> Any:
    """Return the Euclidean norm of a tensor: a scalar of its dtype."""
    return p.sqrt(p.reduce_sum(p.mul(x, x)))


def clip_by_value(gradients: Sequence[Tensor], limit: float) -> List[Tensor]:
    """Return the gradients with each element clipped to [-limit, limit]."""
    return [p.clip(gradient, -limit, limit) for gradient in gradients]


def clip_by_norm(gradients: Sequence[Tensor], limit: float) -> List[Tensor]:
    """Return the gradients, each scaled down so that its own norm is at most `limit`."""
    return [p.div(p.mul(gradient, limit), p.maximum(norm(gradient), limit)) for gradient in gradients]


def clip_by_global_norm(gradients: Sequence[Tensor], limit: float) -> List[Tensor]:
    """Return the gradients, all scaled down by one factor so that the norm of all their elements is at most `limit`.

    If an element is not finite, all elements of the result are NaN. The norm is computed in float64 if a gradient is
    float64, else in float32.
    """
    wide = float64 if any(gradient.dtype == float64 for gradient in gradients) else float32
    squares: List[Any] = [p.cast(gradient, wide) for gradient in gradients]
    total: Any = p.sqrt(p.reduce_sum(p.stack([p.reduce_sum(p.mul(x, x)) for x in squares], 0)))
    factor = p.div(limit, p.maximum(total, limit)) + (total - total)
    return [p.mul(gradient, p.cast(factor, gradient.dtype)) for gradient in gradients]

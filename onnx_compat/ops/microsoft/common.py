"""Helpers of the operators of com.microsoft: the name of the domain, and transposes between layouts of images."""

from onnx_compat import primitives as p
from onnx_compat.tracing.values import Tensor

__all__ = ["DOMAIN", "channels_first", "channels_last"]

DOMAIN = "com.microsoft"


def channels_first(x: Tensor) -> Tensor:
    """Transpose [N, spatial..., C] to [N, C, spatial...]."""
    return p.transpose(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def channels_last(x: Tensor) -> Tensor:
    """Transpose [N, C, spatial...] to [N, spatial..., C]."""
    return p.transpose(x, [0, *range(2, x.rank), 1])

"""What the operators of onnxruntime share: their domain, and images with the channels last."""

from onnx_compat import primitives as p
from onnx_compat.tracing.values import Tensor

__all__ = ["DOMAIN", "channels_first", "channels_last"]

DOMAIN = "com.microsoft"


def channels_first(x: Tensor) -> Tensor:
    return p.transpose(x, [0, x.rank - 1, *range(1, x.rank - 1)])


def channels_last(x: Tensor) -> Tensor:
    return p.transpose(x, [0, *range(2, x.rank), 1])

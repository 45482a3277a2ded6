"""Activations of com.microsoft, with the bias or the residual that onnxruntime fuses into them."""

from typing import TYPE_CHECKING, Optional, Tuple

from onnx_compat import primitives as p
from onnx_compat.ir.dims import floordiv
from onnx_compat.ops import activation
from onnx_compat.ops.microsoft.common import DOMAIN
from onnx_compat.ops.random import dropout
from onnx_compat.ops.registry import op
from onnx_compat.tracing.values import Tensor

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context


@op("Gelu", since=1, domain=DOMAIN)
def gelu(X: Tensor) -> Tensor:
    """Return Gelu(X), computed by the error function erf."""
    return activation.gelu(X)


@op("BiasGelu", since=1, domain=DOMAIN)
def bias_gelu(A: Tensor, B: Tensor) -> Tensor:
    """Return Gelu(A + B), computed by the error function erf."""
    return activation.gelu(p.add(A, B))


@op("FastGelu", since=1, domain=DOMAIN)
def fast_gelu(X: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """Return the tanh approximation of Gelu(X + bias); an absent bias is 0."""
    return activation.gelu(X if bias is None else p.add(X, bias), approximate="tanh")


@op("QuickGelu", since=1, domain=DOMAIN)
def quick_gelu(X: Tensor, *, alpha: float = 1.702) -> Tensor:
    """Return X * sigmoid(alpha * X)."""
    return activation.swish(X, alpha=alpha)


@op("BiasSplitGelu", since=1, domain=DOMAIN)
def bias_split_gelu(X: Tensor, bias: Tensor) -> Tensor:
    """Split X + bias into two halves of the last axis.

    Return the first half times the Gelu (by erf) of the second half.
    """
    total = p.add(X, bias)
    half = floordiv(total.shape[-1], 2)
    factor, gate = p.split(total, total.rank - 1, [half, total.shape[-1] - half])
    return p.mul(factor, activation.gelu(gate))


@op("BiasAdd", since=1, domain=DOMAIN)
def bias_add(X: Tensor, bias: Tensor, skip: Tensor) -> Tensor:
    """Return X + bias + skip."""
    return p.add(p.add(X, bias), skip)


@op("BiasDropout", since=1, domain=DOMAIN)
def bias_dropout(
    ctx: "Context",
    data: Tensor,
    bias: Tensor,
    residual: Optional[Tensor] = None,
    ratio: Optional[Tensor] = None,
    training_mode: Optional[Tensor] = None,
    *,
    seed: Optional[int] = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """Return (Dropout(data + bias) + residual, bool mask that is True for kept elements).

    An absent residual is 0, an absent ratio 0.5. Elements are dropped only if `training_mode` is True and the ratio is
    not 0. Otherwise the mask is None if it is not requested. Raises NeedsKnownError if `ratio` or `training_mode` is
    given and not known.
    """
    output, mask = dropout(ctx, p.add(data, bias), ratio, training_mode, seed=seed)
    return (output if residual is None else p.add(output, residual)), mask

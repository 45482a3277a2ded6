"""Normalization operators of onnxruntime, fused with a residual sum or with embeddings.

onnxruntime writes two of them in the domain ai.onnx.
"""

from typing import TYPE_CHECKING, Optional, Sequence, Tuple

from onnx_compat import primitives as p
from onnx_compat.ir.dims import Extent
from onnx_compat.ir.dtypes import int32
from onnx_compat.ops.arguments import compute_dtype
from onnx_compat.ops.indexing import gather
from onnx_compat.ops.microsoft.common import DOMAIN
from onnx_compat.ops.normalization import layer_normalization, rms_normalization
from onnx_compat.ops.registry import REQUIRED, op
from onnx_compat.tracing.values import Tensor, lift

if TYPE_CHECKING:
    from onnx_compat.tracing.interpreter import Context

Normalized = Tuple[Optional[Tensor], ...]

# onnxruntime fuses LayerNormalization in models of any opset, also of opsets below 17.
op("LayerNormalization", since=1)(layer_normalization)


@op("SimplifiedLayerNormalization", since=1)
@op("SimplifiedLayerNormalization", since=1, domain=DOMAIN)
def simplified_layer_normalization(
    ctx: "Context", X: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Normalized:
    """Return (X / RMS * scale, 1 / RMS). RMS is the root mean square of X over the axes from `axis` on.

    - The first result has the dtype of `scale`.
    - 1 / RMS keeps the reduced axes with size 1. It is None if it is not requested.
    - `epsilon` is added to the mean square.
    - `stash_type`: the computation and 1 / RMS have the wider of this dtype and the dtype of X (see `compute_dtype`).

    Raises InvalidModelError for an axis that is out of range.
    """
    y = rms_normalization(X, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    axes = list(range(p.axis_of(axis, X.rank), X.rank))
    return y, _inverse_rms(X, axes, epsilon, stash_type) if ctx.wants(1) else None


def _inverse_rms(x: Tensor, axes: Sequence[int], epsilon: float, stash: int = 1) -> Tensor:
    """Return 1 / sqrt(mean(x * x) + epsilon) over the axes, which keep size 1.

    The result has the wider of the dtype of x and the dtype with the number `stash` in TensorProto.
    """
    wide = p.cast(x, compute_dtype(x, stash))
    return p.div(1.0, p.sqrt(p.reduce_mean(p.mul(wide, wide), axes, keepdims=True) + epsilon))


@op("SkipLayerNormalization", since=1, domain=DOMAIN)
def skip_layer_normalization(
    ctx: "Context",
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Optional[Tensor] = None,
    bias: Optional[Tensor] = None,
    *,
    epsilon: float = 1e-12,
) -> Normalized:
    """Return (LayerNormalization of s, mean, 1 / standard deviation, s), where s = input + skip + bias.

    The last axis is normalized. `gamma` is the scale and `beta` the shift. An absent beta or bias is 0. 1 / standard
    deviation is None if it is not requested.
    """
    total = _sum_inputs(input, skip, bias)
    return (*layer_normalization(ctx, total, gamma, beta, epsilon=epsilon), total)


@op("SkipSimplifiedLayerNormalization", since=1, domain=DOMAIN)
def skip_simplified_layer_normalization(
    ctx: "Context", input: Tensor, skip: Tensor, gamma: Tensor, bias: Optional[Tensor] = None, *, epsilon: float = 1e-12
) -> Normalized:
    """Return (RMSNormalization of s, zeros, 1 / root mean square, s), where s = input + skip + bias.

    The last axis is normalized. The zeros stand for the mean. An absent bias is 0. If neither the zeros nor 1 / root
    mean square are requested, both are None.
    """
    total = _sum_inputs(input, skip, bias)
    factor = _inverse_rms(total, [total.rank - 1], epsilon) if ctx.wants(1) or ctx.wants(2) else None
    mean = None if factor is None else p.full(factor.shape, 0, factor.dtype)
    return rms_normalization(total, gamma, epsilon=epsilon), mean, factor, total


def _sum_inputs(input: Tensor, skip: Tensor, bias: Optional[Tensor]) -> Tensor:
    total = p.add(input, skip)
    return total if bias is None else p.add(total, bias)


@op("EmbedLayerNormalization", since=1, domain=DOMAIN)
def embed_layer_normalization(
    ctx: "Context",
    input_ids: Tensor,
    segment_ids: Optional[Tensor] = None,
    word_embedding: Tensor = REQUIRED,
    position_embedding: Tensor = REQUIRED,
    segment_embedding: Optional[Tensor] = None,
    gamma: Tensor = REQUIRED,
    beta: Tensor = REQUIRED,
    mask: Optional[Tensor] = None,
    position_ids: Optional[Tensor] = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: Optional[int] = None,
) -> Normalized:
    """Return (LayerNormalization of s, lengths, s), where s is the sum of word, position and segment embeddings.

    Without segment_ids or segment_embedding, s has no segment embeddings. Without position_ids, the positions are 0, 1,
    … The lengths are an int32 vector: for each sequence, the number of ones in its mask. Without a mask, they are 0.
    mask_index_type has no effect.
    """
    batch, length = input_ids.shape
    total = p.add(gather(word_embedding, input_ids), _position_embeddings(position_embedding, position_ids, length))
    if segment_ids is not None and segment_embedding is not None:
        total = p.add(total, gather(segment_embedding, segment_ids))
    normal = layer_normalization(ctx, total, gamma, beta, epsilon=epsilon)[0]
    if mask is None:
        return normal, p.full((batch,), 0, int32), total
    return normal, p.reduce_sum(p.cast(p.equal(mask, lift(1, mask.dtype)), int32), [1]), total


def _position_embeddings(embedding: Tensor, ids: Optional[Tensor], length: Extent) -> Tensor:
    return p.slice_axis(embedding, 0, 0, length) if ids is None else gather(embedding, ids)
